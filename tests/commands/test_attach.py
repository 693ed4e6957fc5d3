"""vdoctor watch on a server that somebody else started: a file, a process, a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import FAILED, HEALTHY, Cli, Vdoctor
from tests.processes import DEADLINE, VDOCTOR, Mark, hold, read_until, run, start, until

HEAD, TAIL = HEALTHY.splitlines(keepends=True)[:3], HEALTHY.splitlines(keepends=True)[3:]


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def names(path: Path) -> list[str]:
    return [event["event"] for event in events(path)]


def watching(mark: Mark, folder: Path, *argv: str | Path) -> subprocess.Popen[bytes]:
    """A watch in the background with a session and events."""
    options = ["--session", folder / "s", "--events", folder / "events", "--interval", "0.05"]
    return start([*VDOCTOR, "watch", *(str(word) for word in (*options, *argv))], env=mark.env)


def replayed_alike(cli: Cli, folder: Path, live: dict[str, Any]) -> bool:
    replayed = cli("analyze", folder / "s", "--format", "json").data
    return bool({**replayed, "source": None} == {**live, "source": None})


# a file


def test_file_is_followed_until_ctrl_c_and_the_report_is_the_result(mark: Mark, cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    process = watching(mark, tmp_path, "--follow", log, "--format", "json")
    assert process.stderr is not None
    read_until(process.stderr.fileno(), b"is not there yet")
    log.write_text("".join(HEAD))
    assert until(lambda: "phase" in names(tmp_path / "events"))
    log.rename(tmp_path / "vllm.log.1")
    log.write_text("".join(TAIL))
    assert until(lambda: "ready" in names(tmp_path / "events"))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE)
    report = json.loads(out)
    assert (process.returncode, report["verdict"], report["exit"]) == (0, "healthy", None)
    assert (tmp_path / "s" / "log.txt").read_text() == HEALTHY
    assert replayed_alike(cli, tmp_path, report)
    assert next(e["phase"] for e in events(tmp_path / "events") if e["event"] == "phase") in ("launch", "weight_load")
    assert names(tmp_path / "events")[-1] == "exit"


def test_what_was_in_the_file_before_is_timed_by_its_own_stamps(mark: Mark, cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(HEALTHY)
    process = watching(mark, tmp_path, "--follow", log, "--format", "json")
    assert until(lambda: "ready" in names(tmp_path / "events"))
    process.terminate()
    out, _ = process.communicate(timeout=DEADLINE)
    report = json.loads(out)
    assert process.returncode == 0
    weights = next(phase for phase in report["phases"] if phase["phase"] == "weight_load")
    assert weights["end"] - weights["start"] == pytest.approx(4.0)
    assert replayed_alike(cli, tmp_path, report)


def test_truncated_file_is_followed_on(mark: Mark, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("".join(HEAD))
    process = watching(mark, tmp_path, "--follow", log)
    recorded = tmp_path / "s" / "log.txt"
    # The last line is held back until the end of the file was seen.
    assert until(lambda: recorded.exists() and recorded.read_text() == "".join(HEAD))
    os.truncate(log, 0)
    with log.open("a") as file:
        file.write("".join(TAIL))
    assert until(lambda: "ready" in names(tmp_path / "events"))
    process.terminate()
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert recorded.read_text() == HEALTHY
    assert b"healthy" in out


def test_failed_server_gives_1_and_ends_with_its_process(mark: Mark, tmp_path: Path, rules: Path) -> None:
    log = tmp_path / "vllm.log"
    server = subprocess.Popen(["sleep", "600"], env=mark.env)
    process = watching(mark, tmp_path, "--follow", log, "--pid", str(server.pid), "--rules", rules)
    assert until(lambda: "start" in names(tmp_path / "events"))
    log.write_text(FAILED)
    server.kill()
    server.wait()
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "The frobnicator has 3 gears" in out.decode()
    assert b"its exit status is known to its parent alone" in err
    finding = next(event for event in events(tmp_path / "events") if event["event"] == "finding")
    assert (finding["rule"], finding["confidence"]) == ("model.frobnicator", "certain")


def test_watching_ends_some_time_after_ready(mark: Mark, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(HEALTHY)
    process = watching(mark, tmp_path, "--follow", log, "--after-ready", "0.2")
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


# a process


def test_log_of_a_process_is_found_and_its_tree_measured(mark: Mark, cli: Cli, tmp_path: Path) -> None:
    script = (
        "import os, sys, time\nsys.stdout.write(open(sys.argv[3]).read()); sys.stdout.flush()\n"
        "hold = bytearray(50 << 20)\n"
        "for at in range(0, len(hold), 4096):\n    hold[at] = 1\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}):\n    time.sleep(0.02)\n"
    )
    (tmp_path / "healthy").write_text(HEALTHY)
    with (tmp_path / "its.log").open("wb") as out:
        argv = [sys.executable, "-S", "-E", "-c", script, "serve", "org/m", str(tmp_path / "healthy")]
        server = subprocess.Popen(argv, env=mark.env, stdout=out, stderr=out)
    process = watching(mark, tmp_path, "--pid", str(server.pid), "--format", "json")
    assert until(lambda: "ready" in names(tmp_path / "events"))
    assert until(lambda: '"rss"' in (tmp_path / "s" / "samples.jsonl").read_text())
    (tmp_path / "go").touch()
    server.wait()
    out_text, err = process.communicate(timeout=DEADLINE)
    report = json.loads(out_text)
    assert (process.returncode, report["verdict"], report["exit"]) == (0, "healthy", None)
    assert report["facts"]["watch.pid"]["value"] == server.pid
    assert report["memory"]["host"]["rss_peak"] > 0.04
    assert f"process {server.pid} has ended".encode() in err
    assert replayed_alike(cli, tmp_path, report)
    assert json.loads((tmp_path / "s" / "session.json").read_text())["command"] == argv


def test_process_without_a_file_is_measured_alone(mark: Mark, tmp_path: Path) -> None:
    script = ["sh", "-c", hold(tmp_path / "go")]
    server = subprocess.Popen(script, env=mark.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process = watching(mark, tmp_path, "--pid", str(server.pid))
    assert until(lambda: "start" in names(tmp_path / "events"))
    (tmp_path / "go").touch()
    server.communicate()
    _, err = process.communicate(timeout=DEADLINE)
    assert b"it is only measured" in err
    assert f"process {server.pid} has ended".encode() in err
    assert names(tmp_path / "events")[-1] == "exit"


def test_process_that_does_not_exist_is_an_error_of_usage(cli: Cli) -> None:
    answer = cli("watch", "--no-session", "--pid", "999999999")
    assert (answer.status, answer.out) == (125, "")
    assert "no such process" in answer.err


def test_ctrl_c_leaves_the_process_alone(mark: Mark, tmp_path: Path) -> None:
    server = subprocess.Popen(["sleep", "600"], env=mark.env)
    process = watching(mark, tmp_path, "--pid", str(server.pid))
    assert until(lambda: "start" in names(tmp_path / "events"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert server.poll() is None
    server.kill()
    server.wait()


# a pipe


@pytest.mark.parametrize(("text", "status"), [(HEALTHY, 0), (FAILED, 1)], ids=["healthy", "failed"])
def test_standard_input_is_passed_on_and_diagnosed(
    vdoctor: Vdoctor, cli: Cli, tmp_path: Path, rules: Path, text: str, status: int
) -> None:
    out = tmp_path / "report.json"
    options = ["--session", tmp_path / "s", "--rules", rules, "--format", "json", "--output", out]
    done = vdoctor("watch", *options, "-", stdin=text.encode())
    assert (done.returncode, done.stdout) == (status, text.encode())
    live = json.loads(out.read_text())
    replayed = cli("analyze", tmp_path / "s", "--format", "json", "--rules", rules).data
    assert {**replayed, "source": None} == {**live, "source": None}
    assert live["exit"] is None


def test_standard_input_may_be_a_file(mark: Mark, healthy: Path) -> None:
    done = run(["sh", "-c", f"\"$@\" < '{healthy}'", "sh", *VDOCTOR, "watch", "--no-session", "-"], env=mark.env)
    assert (done.returncode, done.stdout.decode()) == (0, HEALTHY)
    assert "healthy" in done.stderr.decode()


def test_line_is_passed_on_while_the_pipe_stays_open_and_ctrl_c_ends_it(mark: Mark, tmp_path: Path) -> None:
    process = start([*VDOCTOR, "watch", "--session", str(tmp_path / "s"), "-"], env=mark.env, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(HEAD).encode())
    process.stdin.flush()
    read_until(process.stdout.fileno(), HEAD[-1].encode())
    # What came in the first seconds is recorded when its last line is known to be the last.
    assert until(lambda: (tmp_path / "s" / "log.txt").read_text() == "".join(HEAD))
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    process.stdin = None
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert mark.left() == []


# usage


@pytest.mark.parametrize(
    "argv",
    [
        ["--follow", "x.log", "--", "vllm", "serve", "m"],
        ["--pid", "1"],
        ["--pid", "0"],
        ["--follow", "/"],
        ["--events", "-", "--", "true"],
        ["--format", "json", "--", "true"],
        ["--format", "json", "-"],
        ["-", "--quiet"],
        ["--stall-after", "9.9", "--", "true"],
        ["--stall-after", "nan", "--", "true"],
        ["--events", "/no/such/folder/events", "--", "true"],
    ],
    ids=" ".join,
)
def test_wrong_usage_gives_125(cli: Cli, argv: Sequence[str]) -> None:
    answer = cli("watch", "--no-session", *argv)
    assert (answer.status, answer.out) == (125, "")
    assert answer.err
