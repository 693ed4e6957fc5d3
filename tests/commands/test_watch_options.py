"""vdoctor watch: what its options do to a real child."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import FAILED, HEALTHY, Cli, Vdoctor
from tests.processes import DEADLINE, IMPATIENT, VDOCTOR, Mark, hold, read_until, start, until


def shell(script: str) -> list[str]:
    return ["--", "sh", "-c", script]


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# stalls

#: Three lines of a start, under its own process id, then nothing moves any more.
HANGS = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, getattr(signal, sys.argv[1]))
for line in {HEALTHY.splitlines()[:3]!r}:
    print(line.replace("pid=11", f"pid={{os.getpid()}}").replace("pid=12", f"pid={{os.getpid()}}"), flush=True)
time.sleep(600)
"""


def hangs(on_term: str = "SIG_DFL") -> list[str]:
    return ["--", sys.executable, "-S", "-E", "-c", HANGS, on_term]


def test_stalled_child_is_stopped_when_asked_and_gives_1(vdoctor: Vdoctor, cli: Cli, tmp_path: Path) -> None:
    out, told = tmp_path / "report.json", tmp_path / "events"
    options = ["--stall-after", "2", "--on-stall", "stop", "--interval", "0.05", "--events", told]
    done = vdoctor("watch", *options, "--session", tmp_path / "s", "--format", "json", "--output", out, *hangs())
    live = json.loads(out.read_text())
    assert (done.returncode, live["verdict"]) == (1, "stalled")
    assert live["exit"] == {"status": 143, "signal": "SIGTERM", "asked": "stop"}
    assert live["facts"]["watch.stall_after"]["value"] == 2.0
    assert "stalled" in [event.get("state") for event in events(told) if event["event"] == "motion"]
    replayed = cli("analyze", tmp_path / "s", "--format", "json").data
    assert {**replayed, "source": None} == {**live, "source": None}


def test_stalled_child_that_refuses_to_end_is_killed(mark: Mark, vdoctor: Vdoctor) -> None:
    done = vdoctor("watch", "-q", "--no-session", "--stall-after", "1", "--on-stall", "stop", *hangs("SIG_IGN"))
    assert done.returncode == 1
    assert mark.left() == []


def test_stall_is_said_once_where_no_terminal_is(mark: Mark) -> None:
    argv = [*IMPATIENT, "watch", "--no-session", "--stall-after", "1", *hangs()]
    process = start(argv, env=mark.env)
    assert process.stderr is not None
    told = read_until(process.stderr.fileno(), b"stalled in weight_load")
    time.sleep(1.5)
    process.terminate()
    _, rest = process.communicate(timeout=DEADLINE)
    text = (told + rest).decode()
    assert len([line for line in text.splitlines() if line.startswith("vdoctor: ") and "has done nothing" in line]) == 1
    # The report comes with the stall and once more at the end.
    assert text.count("stalled in weight_load") == 2


# events


def test_events_tell_phases_ready_and_the_end(mark: Mark, healthy: Path, tmp_path: Path) -> None:
    told = tmp_path / "events"
    script = (
        f"sed -n 1,3p '{healthy}'; {hold(tmp_path / 'one')}; sed -n 4,9p '{healthy}'; {hold(tmp_path / 'two')}; exit 3"
    )
    process = start([*VDOCTOR, "watch", "-q", "--no-session", "--events", str(told), *shell(script)], env=mark.env)
    # While it runs: nothing is kept back.
    assert until(lambda: told.exists() and any(event.get("phase") == "weight_load" for event in events(told)))
    (tmp_path / "one").touch()
    assert until(lambda: any(event["event"] == "ready" for event in events(told)))
    (tmp_path / "two").touch()
    process.communicate(timeout=DEADLINE)
    all_events = events(told)
    assert (all_events[0]["event"], all_events[0]["command"][:2]) == ("start", ["sh", "-c"])
    times = [event["t"] for event in all_events]
    assert times == sorted(times)
    end = all_events[-1]
    assert (end["event"], end["status"], end["signal"], end["verdict"]) == ("exit", 3, None, "failed")


def test_phases_that_pass_in_one_burst_are_all_told_in_their_order(mark: Mark, tmp_path: Path) -> None:
    log, told = tmp_path / "log", tmp_path / "events"
    said = (
        "Starting to load model /m/x...",
        "Available KV cache memory: 4.51 GiB",
        "Graph capturing finished in 2 secs",
    )
    log.write_text(
        "".join(f"(EngineCore_DP0 pid=1) INFO 01-01 01:01:01 [gpu_worker.py:1] {one}\n" for one in said)
        + "(APIServer pid=2) INFO:     Application startup complete.\n"
    )
    argv = ["-q", "--no-session", "--events", str(told), *shell(f"cat '{log}'; exec sleep 600")]
    process = start([*VDOCTOR, "watch", *argv], env=mark.env)
    assert until(lambda: told.exists() and any(event["event"] == "ready" for event in events(told)))
    process.terminate()
    process.communicate(timeout=DEADLINE)
    phases = [event["phase"] for event in events(told) if event["event"] == "phase"]
    assert phases[-4:] == ["weight_load", "kv_init", "graph_capture", "runtime"]


def test_finding_is_told_while_the_child_lives(mark: Mark, failed: Path, rules: Path, tmp_path: Path) -> None:
    told = tmp_path / "events"
    argv = ["--no-session", "--rules", str(rules), "--events", str(told), *shell(f"cat '{failed}'; exec sleep 600")]
    process = start([*VDOCTOR, "watch", "-q", *argv], env=mark.env)
    assert until(lambda: told.exists() and any(event["event"] == "finding" for event in events(told)))
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=DEADLINE)
    found = [event for event in events(told) if event["event"] == "finding"]
    assert found[0]["rule"] == "model.frobnicator"
    assert found[0]["title"] == "The frobnicator has 3 gears"


# what Kubernetes reads


@pytest.mark.parametrize(("text", "status"), [(FAILED, 1), (HEALTHY, 0)], ids=["failed", "healthy"])
def test_termination_log_holds_the_short_diagnosis_of_a_failure(
    vdoctor: Vdoctor, rules: Path, tmp_path: Path, text: str, status: int
) -> None:
    (tmp_path / "log").write_text(text)
    place = tmp_path / "termination-log"
    options = ["-q", "--no-session", "--rules", rules, f"--termination-log={place}"]
    done = vdoctor("watch", *options, *shell(f"cat '{tmp_path}/log'; exit {status}"))
    assert (done.returncode, done.stderr) == (status, b"")
    if status:
        assert "The frobnicator has 3 gears" in place.read_text()
        assert place.stat().st_size <= 4096
    else:
        assert not place.exists()


def test_termination_log_without_a_name_is_kubernetes_own_and_takes_no_word_of_the_command(vdoctor: Vdoctor) -> None:
    done = vdoctor("watch", "-q", "--no-session", "--termination-log", "--", "sh", "-c", "exit 3")
    assert (done.returncode, done.stderr) == (3, b"")


# the instrumented child


def test_child_gets_settings_that_make_it_talk_and_the_session_says_so(
    vdoctor: Vdoctor, cli: Cli, tmp_path: Path
) -> None:
    script = 'echo "$NCCL_DEBUG $PYTHONFAULTHANDLER"; exit 1'
    out = tmp_path / "report.json"
    options = ["--session", tmp_path / "s", "--format", "json", "--output", out]
    done = vdoctor("watch", *options, *shell(script))
    assert done.stdout == b"WARN 1\n"
    fact = {"value": "NCCL_DEBUG=WARN PYTHONFAULTHANDLER=1", "source": "watch"}
    session = json.loads((tmp_path / "s" / "session.json").read_text())
    assert (session["facts"]["watch.instrumented"], session["env"]) == (fact, {})
    report = json.loads(out.read_text())
    assert report["facts"]["watch.instrumented"] == fact
    assert not [name for name in report["facts"] if name.startswith("env.")]
    assert report["engine"]["command"] == ["sh", "-c", script]
    replayed = cli("analyze", tmp_path / "s", "--format", "json").data
    assert {**replayed, "source": None} == {**report, "source": None}


def test_settings_of_the_user_stay(vdoctor: Vdoctor) -> None:
    show = shell('echo "$NCCL_DEBUG $PYTHONFAULTHANDLER"')
    assert vdoctor("watch", "-q", "--no-session", *show, NCCL_DEBUG="INFO").stdout == b"INFO 1\n"
    assert vdoctor("watch", "-q", "--no-session", "--no-instrument", *show).stdout == b" \n"


def test_python_child_that_dies_of_a_signal_shows_where(vdoctor: Vdoctor) -> None:
    script = "import os, signal\ndef deep():\n    os.kill(os.getpid(), signal.SIGBUS)\ndeep()"
    done = vdoctor("watch", "-q", "--no-session", "--", sys.executable, "-c", script)
    assert done.returncode == 128 + signal.SIGBUS
    assert b"in deep" in done.stderr


# measuring


def test_measuring_ends_some_time_after_ready_and_the_child_goes_on(
    vdoctor: Vdoctor, healthy: Path, tmp_path: Path
) -> None:
    script = f"cat '{healthy}'; sleep 4; echo still here; exit 5"
    options = ["-q", "--session", tmp_path / "s", "--interval", "0.05", "--after-ready", "0.5"]
    done = vdoctor("watch", *options, *shell(script))
    assert (done.returncode, done.stdout.decode()) == (5, HEALTHY + "still here\n")
    rows = [json.loads(line) for line in (tmp_path / "s" / "samples.jsonl").read_text().splitlines()]
    measured = [row["t"] for row in rows if "host" in row]
    assert measured
    assert max(measured) < 3.5 < rows[-1]["t"]


def test_flood_passes_whole_and_its_error_is_found(
    vdoctor: Vdoctor, cli: Cli, tmp_path: Path, failed: Path, rules: Path
) -> None:
    """More than can be examined in the time: what is left out is known to the session."""
    boring = "(APIServer pid=11) INFO 12-01 00:00:02 [x.py:1] request 000000 was served in some time\n" * 400_000
    (tmp_path / "boring").write_text(boring)
    out = tmp_path / "report.json"
    options = ["-q", "--session", tmp_path / "s", "--rules", rules, "--format", "json", "--output", out]
    done = vdoctor(
        "watch", *options, *shell(f"cd '{tmp_path}'; sed -n 1,3p failed.log; cat boring; cat failed.log; exit 1")
    )
    assert len(done.stdout) == len("".join(FAILED.splitlines(keepends=True)[:3])) + len(boring) + len(FAILED)
    live = json.loads(out.read_text())
    assert live["findings"][0]["rule"] == "model.frobnicator"
    assert live["facts"]["watch.skipped_bytes"]["value"] > 1_000_000
    assert live["source"]["bytes"] == len(done.stdout)
    replayed = cli("analyze", tmp_path / "s", "--format", "json", "--rules", rules).data
    assert {**replayed, "source": None} == {**live, "source": None}
    assert replayed["source"]["lines"] == done.stdout.count(b"\n")
