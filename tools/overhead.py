"""What `vdoctor watch` costs, in paired runs: throughput, start-up, its own processor time, the way of a line.

    tools/overhead.py [--pairs N] [--bytes N] [--json FILE] [throughput] [flood] [startup] [steady] [line] [death]

Each pair runs the same thing without and with vdoctor, in an order that changes from pair to pair; the median of the
ratios is printed, since a machine that is busy with other things disturbs both runs of a pair alike.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
WATCH = (sys.executable, "-m", "vdoctor", "watch", "-q")
#: A child that logs as a busy server does.
LINES = """
import sys
line = "(EngineCore_DP0 pid=12) INFO 12-01 00:00:05 [gpu_model_runner.py:2] Request number %09d was served in some ms xxxxxxxxxxxx\\n"
write = sys.stdout.write
for number in range(int(sys.argv[1]) // len(line % 0)):
    write(line % number)
"""
#: A start of a few seconds with the lines of a real one; serves for a moment.
START = """
import sys, time
lines = open(sys.argv[1]).read().splitlines()
for line in lines:
    print(line, flush=True)
    time.sleep(float(sys.argv[2]) / len(lines))
"""
#: Says when it wrote each line.
STAMPS = """
import sys, time
for number in range(int(sys.argv[1])):
    sys.stdout.write("%.6f\\n" % time.monotonic())
    sys.stdout.flush()
    time.sleep(0.01)
"""

Row = dict[str, Any]


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}


def _timed(argv: Sequence[str], out: int | None = subprocess.DEVNULL) -> float:
    begun = time.perf_counter()
    subprocess.run(list(argv), env=_env(), stdin=subprocess.DEVNULL, stdout=out, check=True)
    return time.perf_counter() - begun


def _through_cat(argv: Sequence[str]) -> float:
    """`argv | cat > /dev/null`"""
    begun = time.perf_counter()
    first = subprocess.Popen(list(argv), env=_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    subprocess.run(["cat"], stdin=first.stdout, stdout=subprocess.DEVNULL, check=True)
    first.wait()
    return time.perf_counter() - begun


def _pairs(count: int, without: Callable[[], float], with_: Callable[[], float]) -> Row:
    """Seconds of each run and the median of the ratios."""
    plain: list[float] = []
    watched: list[float] = []
    spent: list[list[float]] = [[], []]
    for number in range(count):
        for which in (0, 1) if number % 2 else (1, 0):
            before = _children()
            (watched if which else plain).append(with_() if which else without())
            spent[which].append(_children() - before)
    ratios = [b / a for a, b in zip(plain, watched, strict=True)]
    return {
        "without_s": round(statistics.median(plain), 3),
        "with_s": round(statistics.median(watched), 3),
        "ratio": round(statistics.median(ratios), 4),
        "cpu_without_s": round(statistics.median(spent[0]), 3),
        "cpu_with_s": round(statistics.median(spent[1]), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


def _children() -> float:
    """Processor time of all processes that have ended below us."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def throughput(args: argparse.Namespace, folder: Path) -> Row:
    """A Python child that prints lines, through `cat` and through `watch` (recording)."""
    child = [sys.executable, "-S", "-E", "-c", LINES, str(args.bytes)]
    return _pairs(args.pairs, lambda: _through_cat(child), lambda: _recorded(child, folder))


def flood(args: argparse.Namespace, folder: Path) -> Row:
    """`cat FILE`, the fastest child there is, through `cat` and through `watch` (recording)."""
    place = folder / "big"
    unit = subprocess.run(
        [sys.executable, "-S", "-E", "-c", LINES, str(8 << 20)], capture_output=True, check=True
    ).stdout
    with place.open("wb") as file:
        for _ in range(max(1, args.bytes // len(unit))):
            file.write(unit)
    row = _pairs(args.pairs, lambda: _through_cat(["cat", str(place)]), lambda: _recorded(["cat", str(place)], folder))
    place.unlink()
    return row


def _recorded(child: Sequence[str], folder: Path) -> float:
    session = folder / "session"
    seconds = _timed([*WATCH, "--session", str(session), "--", *child])
    subprocess.run(["rm", "-rf", str(session)], check=True)
    return seconds


def startup(args: argparse.Namespace, folder: Path) -> Row:
    """The time until a simulated server has started and ended: what a user waits."""
    log = folder / "start.log"
    log.write_bytes(_start_lines())
    child = [sys.executable, "-S", "-E", "-c", START, str(log), str(args.start)]
    ready = folder / "ready"
    stamped = ["sh", "-c", f'"$@"; date +%s.%N > {ready}', "sh", *child]

    def until_ready(argv: Sequence[str]) -> float:
        begun = time.time()
        subprocess.run(list(argv), env=_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        return float(ready.read_text()) - begun

    return _pairs(
        args.pairs,
        lambda: until_ready(stamped),
        lambda: until_ready([*WATCH, "--no-session", "--", *stamped]),
    )


def _start_lines() -> bytes:
    head = "(EngineCore_DP0 pid=12) INFO 12-01 00:00:{:02d} [x.py:1] "
    said = [
        "Initializing a V1 LLM engine (v0.11.0) with config: model='org/m', tensor_parallel_size=1",
        "Starting to load model org/m...",
        *(f"Loading shard {n}" for n in range(20)),
        "Model loading took 1.5000 GiB and 3.900000 seconds",
        "Available KV cache memory: 5.00 GiB",
        "GPU KV cache size: 40,960 tokens",
        "init engine (profile, create kv cache, warmup model) took 6.00 seconds",
    ]
    return "".join(head.format(n) + text + "\n" for n, text in enumerate(said)).encode()


def steady(args: argparse.Namespace, folder: Path) -> Row:
    """Processor time of vdoctor's own processes while the child does nothing, and while it prints a line a second."""
    row: Row = {}
    for name, script in (("silent", "sleep 600"), ("line_a_second", "while :; do echo INFO line; sleep 1; done")):
        argv = [*WATCH, "--session", str(folder / name), "--", "sh", "-c", script]
        process = subprocess.Popen(argv, env=_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(4.0)
        before = _own(process.pid)
        time.sleep(args.seconds)
        after = _own(process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait()
        row[name] = {
            "percent_of_a_core": round(100 * (after - before) / args.seconds, 3),
            "seconds_a_minute": round(60 * (after - before) / args.seconds, 3),
        }
    return row


def _own(pid: int) -> float:
    """User and system time of vdoctor and its keeper."""
    watcher = psutil.Process(pid)
    own = [watcher, *(child for child in watcher.children() if child.name().startswith("python"))]
    return sum(sum(one.cpu_times()[:2]) for one in own)


def line(args: argparse.Namespace, folder: Path) -> Row:
    """From the write of a line in the child to its arrival behind `watch`; recording."""
    found = {}
    for name, argv in (
        ("pipe", []),
        ("watch", [*WATCH, "--session", str(folder / "line"), "--"]),
    ):
        whole = [*argv, sys.executable, "-S", "-E", "-c", STAMPS, "500"]
        process = subprocess.Popen(whole, env=_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert process.stdout is not None
        ways = []
        fd = process.stdout.fileno()
        while data := os.read(fd, 65536):
            now = time.monotonic()
            ways += [1000 * (now - float(text)) for text in data.split()]
        process.wait()
        ways.sort()
        found[name] = {
            "median_ms": round(ways[len(ways) // 2], 3),
            "p99_ms": round(ways[int(len(ways) * 0.99)], 3),
            "most_ms": round(ways[-1], 3),
        }
    return found


def death(args: argparse.Namespace, folder: Path) -> Row:
    """From the death of the child (with a traceback, at the end of a start) to the end of vdoctor, report written."""
    log = folder / "dies.log"
    log.write_bytes(_start_lines() + b"Traceback (most recent call last):\nRuntimeError: CUDA out of memory.\n")
    seconds = []
    for _ in range(args.pairs):
        died, out = folder / "died", folder / "report.json"
        script = f"cat {log}; sleep 1.5; date +%s.%N > {died}; kill -9 $$"
        argv = [*WATCH, "--no-session", "--format", "json", "--output", str(out), "--", "sh", "-c", script]
        subprocess.run(argv, env=_env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        seconds.append(out.stat().st_mtime - float(died.read_text()))
    return {"median_s": round(statistics.median(seconds), 3), "most_s": round(max(seconds), 3)}


PARTS: dict[str, Callable[[argparse.Namespace, Path], Row]] = {
    one.__name__: one for one in (throughput, flood, startup, steady, line, death)
}


def main() -> int:
    """Run the chosen parts; a table on standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--start", type=float, default=20.0, help="seconds that the simulated start takes")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long a steady state is looked at")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: Row = {}
    with tempfile.TemporaryDirectory(prefix="vdoctor-overhead-") as folder:
        for name in args.parts or PARTS:
            rows[name] = PARTS[name](args, Path(folder))
            print(f"{name:11} {json.dumps(rows[name])}", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
