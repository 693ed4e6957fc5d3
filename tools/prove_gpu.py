#!/usr/bin/env python3
"""Proves `vdoctor watch` on a machine with an NVIDIA GPU: is what it measures what was allocated?

    tools/prove_gpu.py [--python PYTHON_WITH_TORCH] [--gpu INDEX] [--keep FOLDER]
    tools/prove_gpu.py --stand-in        # no GPU, no torch: against the stand-in of NVIDIA's library (needs a C compiler)

A torch process allocates in the pattern of a start-up (context, weights, activation peak, KV cache, graphs), prints the lines
that vLLM prints, and writes down what the driver tells it (torch.cuda.mem_get_info). vdoctor watches it as it watches a
server; then ledger and phases are compared. Exit status: 0 all agree, 1 something does not, 2 it cannot be tried here.
The session in FOLDER is what a fixture is made of.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GIB = 1 << 30
#: GiB of each part: small enough for any card, large enough to be told apart.
PLAN = {"context_other": 0.5, "weights": 2.0, "activation_peak": 1.0, "kv_cache": 1.5, "cuda_graphs": 0.75}
#: The driver gives memory in pieces of 2 MiB and keeps some for itself; a tenth of a second passes between two looks.
TOLERANCE_GIB, TOLERANCE_SHARE = 0.06, 0.03
PHASES = ["launch", "weight_load", "kv_init", "graph_capture", "runtime"]
#: Where the stand-in's memory stands before the start.
BEFORE_GIB = 1

CHILD = r"""
import json, os, sys, time
plan, truth_file, real = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3] == "real"
samples, memory = sys.argv[4], sys.argv[5]
GIB = 1 << 30
held, truth, PID = {}, {}, os.getpid()
if real:
    import torch
def say(text):
    print("(EngineCore_DP0 pid=%d) INFO 01-01 00:00:00 %s" % (PID, text), flush=True)
def measured(what):
    # Wait until vdoctor has seen it: a slow machine shifts nothing.
    end = time.monotonic() + 30
    while time.monotonic() < end and what not in open(samples).read():
        time.sleep(0.05)
    time.sleep(0.2)
def play(gib):
    # The stand-in's memory moves by so much.
    size = int(open(memory).read()) + int(gib * GIB)
    with open(memory + ".new", "w") as file:
        file.write(str(size))
    os.replace(memory + ".new", memory)
    measured('"memory_used":%d' % size)
def used():
    if not real:
        return None
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free
def take(name):
    if real:
        held[name] = torch.ones(int(plan[name] * GIB), dtype=torch.uint8, device="cuda")
    else:
        play(plan[name])
    truth[name] = used()
measured('"memory_used":')
say("[api_server.py:1] vLLM API server version 0.11.0")
if real:
    torch.zeros(1, device="cuda")
else:
    play(plan["context_other"])
truth["context_other"] = used()
time.sleep(1)
say("[gpu_model_runner.py:2602] Starting to load model org/model...")
begun = time.monotonic()
take("weights")
time.sleep(1)
say("[gpu_model_runner.py:2653] Model loading took %.4f GiB and %.6f seconds" % (plan["weights"], time.monotonic() - begun))
say("[backends.py:548] Using cache directory: /c for vLLM's torch.compile")
time.sleep(0.4)
take("activation_peak")
time.sleep(0.4)
if real:
    del held["activation_peak"]
    torch.cuda.empty_cache()
else:
    play(-plan["activation_peak"])
truth["after_peak"] = used()
time.sleep(0.4)
say("[gpu_worker.py:298] Available KV cache memory: %.2f GiB" % plan["kv_cache"])
take("kv_cache")
say("[kv_cache_utils.py:1087] GPU KV cache size: 65,536 tokens")
time.sleep(0.9)
print("Capturing CUDA graphs (decode, FULL):   0%|          | 0/2 [00:00<?, ?it/s]", end="\r", file=sys.stderr, flush=True)
# Captures take their time; what is there at the very next look after the line counts for the step before.
time.sleep(0.4)
take("cuda_graphs")
time.sleep(0.9)
say("[gpu_model_runner.py:3480] Graph capturing finished in 1 secs, took %.2f GiB" % plan["cuda_graphs"])
say("[core.py:210] init engine (profile, create kv cache, warmup model) took 3.00 seconds")
print("(APIServer pid=%d) INFO:     Application startup complete." % PID, flush=True)
time.sleep(1.0)
with open(truth_file, "w") as file:
    json.dump(truth, file)
"""


class Cannot(Exception):
    """It cannot be tried here."""


def main() -> int:
    """Watch, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=shutil.which("python3") or sys.executable, help="an interpreter with torch")
    parser.add_argument("--gpu", type=int, default=0, help="index of the card")
    parser.add_argument("--keep", type=Path, help="keep the session in this new folder")
    parser.add_argument("--stand-in", action="store_true", help="no GPU: the stand-in of NVIDIA's library")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vdoctor-prove-") as place:
        try:
            env = _stand_in(Path(place)) if options.stand_in else _real(options.python, options.gpu)
            before = None if options.stand_in else _used_before(options.gpu)
            report, events, truth = _watch(options, Path(place), env)
        except Cannot as error:
            print(f"prove_gpu: {error}", file=sys.stderr)
            return 2
    return compare(report, events, _expected(truth, before))


def _real(python: str, gpu: int) -> dict[str, str]:
    """The environment for a real card. Raises Cannot."""
    check = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 'torch sees no GPU')"
    done = subprocess.run([python, "-c", check], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or "no answer").splitlines()[-1]
        raise Cannot(f"{python}: {last}; give --python an interpreter whose torch sees a GPU, or try --stand-in")
    return {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(gpu)}


def _used_before(gpu: int) -> int | None:
    """Bytes in use before anything starts, by nvidia-smi: a second source."""
    argv = ["nvidia-smi", f"--id={gpu}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(argv, capture_output=True, text=True, timeout=30).stdout.strip()) << 20
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _stand_in(place: Path) -> dict[str, str]:
    """The environment in which the stand-in of NVIDIA's library plays the plan. Raises Cannot."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise Cannot("--stand-in needs a C compiler (cc, gcc or clang)")
    source = ROOT / "tests" / "live" / "nvml" / "fake_nvml.c"
    library = place / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", str(library), str(source)], check=True)
    (place / "memory").write_text(str(BEFORE_GIB * GIB))
    (place / "trajectory").write_text(f"gpu 0 Stand-in GPU-aaaa {24 * GIB} {GIB // 2}\nfile 0 {place / 'memory'}\n")
    return {**os.environ, "LD_LIBRARY_PATH": str(place), "FAKE_NVML": str(place / "trajectory")}


def _watch(
    options: argparse.Namespace, place: Path, env: dict[str, str]
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, int | None]]:
    """Report, events, and what the driver told the child. Raises Cannot when the child did not get to its end."""
    session, told = options.keep or place / "session", place / "events"
    argv = [sys.executable, "-m", "vdoctor", "watch", "-q", "--interval", "0.05", "--session", str(session)]
    argv += ["--events", str(told), "--format", "json", "--output", str(place / "report.json"), "--no-redact", "--"]
    child = sys.executable if options.stand_in else options.python
    argv += [child, "-c", CHILD, json.dumps(PLAN), str(place / "truth"), "played" if options.stand_in else "real"]
    argv += [str(session / "samples.jsonl"), str(place / "memory")]
    path = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    done = subprocess.run(argv, env={**env, "PYTHONPATH": path}, stdout=subprocess.DEVNULL)
    if done.returncode or not (place / "truth").is_file():
        raise Cannot(f"the child ended with status {done.returncode}: see above")
    events = [json.loads(line) for line in told.read_text().splitlines()]
    return json.loads((place / "report.json").read_text()), events, json.loads((place / "truth").read_text())


def _expected(truth: dict[str, int | None], before: int | None) -> dict[str, float | None]:
    """GiB of each part: what the driver told the child, or what was played; None where no second source knows it."""
    if truth["weights"] is None:
        return dict(PLAN)
    known = {name: used for name, used in truth.items() if used is not None}
    return {
        "context_other": None if before is None else (known["context_other"] - before) / GIB,
        "weights": (known["weights"] - known["context_other"]) / GIB,
        "activation_peak": (known["activation_peak"] - known["weights"]) / GIB,
        "kv_cache": (known["kv_cache"] - known["after_peak"]) / GIB,
        "cuda_graphs": (known["cuda_graphs"] - known["kv_cache"]) / GIB,
    }


def compare(report: dict[str, Any], events: list[dict[str, Any]], expected: dict[str, float | None]) -> int:
    """Print the table; 0 when all agree, else 1."""
    rows = [row for row in report["memory"].get("gpus", []) if row.get("parts")]
    if not rows:
        print("prove_gpu: vdoctor measured no GPU", file=sys.stderr)
        return 1
    print(
        f"{rows[0].get('name')}, {rows[0].get('total')} GiB\n\n{'part':<18}{'allocated':>10}{'measured':>10}{'off by':>9}"
    )
    bad = 0
    for name, wanted in expected.items():
        seen = rows[0]["parts"][name]["measured"]
        if wanted is None:
            print(f"{name:<18}{'?':>10}{'-' if seen is None else f'{seen:.2f}':>10}")
            continue
        off = None if seen is None else seen - wanted
        agrees = off is not None and abs(off) <= max(TOLERANCE_GIB, TOLERANCE_SHARE * wanted)
        bad += not agrees
        shown = "-" if seen is None or off is None else f"{seen:.2f}"
        print(
            f"{name:<18}{wanted:>10.2f}{shown:>10}{'-' if off is None else f'{off:+.2f}':>9}{'' if agrees else '  WRONG'}"
        )
    phases = [phase["phase"] for phase in report["phases"] if phase["start"] is not None]
    heard = [event["phase"] for event in events if event["event"] == "phase"]
    checks = {
        "verdict healthy": report["verdict"] == "healthy",
        "phases in order": phases == PHASES,
        "phases in the events": heard == PHASES,
        "ready in the events": any(event["event"] == "ready" for event in events),
    }
    print()
    for text, holds in checks.items():
        bad += not holds
        print(f"{text:<24}{'yes' if holds else 'NO'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
