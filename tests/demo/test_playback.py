"""A recorded start, played again by real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.processes import ROOT, Mark, until
from vdoctor.demo.playback import cast_of, schedule
from vdoctor.demo.scenes import moments

PLAY = (sys.executable, "-m", "vdoctor.demo.playback")
SESSION = ROOT / "fixtures/healthy/session-vllm-0.32.0-cold"
LOG = "(EngineCore_DP0 pid=9) INFO 12-01 10:00:0{second} [core.py:93] Starting to load model m...\n"


def folder(place: Path, log: str, **case: object) -> Path:
    place.mkdir(exist_ok=True)
    (place / "log.txt").write_text(log, encoding="utf-8")
    (place / "case.json").write_text(json.dumps(case), encoding="utf-8")
    return place


def test_a_session_is_played_at_its_own_times() -> None:
    parts = list(schedule(SESSION))
    assert b"".join(data for _, data in parts) == (SESSION / "log.txt").read_bytes()
    times = [t for t, _ in parts]
    assert times == sorted(times)
    assert times[-1] > 30


def test_a_log_is_played_at_the_times_it_prints(tmp_path: Path) -> None:
    log = LOG.format(second=1) + "a line without a time\n" + LOG.format(second=4)
    assert [t for t, _ in schedule(folder(tmp_path / "case", log))] == [0.0, 0.0, 3.0]


def test_a_log_without_times_has_an_even_pace(tmp_path: Path) -> None:
    assert [t for t, _ in schedule(folder(tmp_path / "case", "a\nb\nc\n"))] == [0.0, 0.05, 0.1]


@pytest.mark.parametrize(("exit_", "status"), [({"status": 3}, 3), ({"status": 137, "signal": "SIGKILL"}, -9)])
def test_it_ends_as_the_session_did(tmp_path: Path, exit_: dict[str, object], status: int) -> None:
    place = folder(tmp_path / "case", "one\n")
    entries = [{"t": 0.0, "log": 4}, {"t": 0.1, "exit": exit_}]
    (place / "samples.jsonl").write_text("\n".join(map(json.dumps, entries)), encoding="utf-8")
    done = subprocess.run([*PLAY, str(place)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (status, b"one\n")


def test_a_crash_ends_with_one(tmp_path: Path) -> None:
    place = folder(tmp_path / "case", "one\n", kind="crash")
    done = subprocess.run([*PLAY, str(place)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (1, b"one\n")


def test_the_cast_is_named_as_vllm_names_it_and_does_what_it_is_told(tmp_path: Path, mark: Mark) -> None:
    place = folder(tmp_path / "case", LOG.format(second=1), kind="stall")
    cast = "Worker_TP0=spin,Worker_TP1=stopped,Worker_TP2=compile"
    play = subprocess.Popen([*PLAY, str(place), "--cast", cast], stdout=subprocess.PIPE, env=mark.env)
    try:

        def states() -> dict[str, str]:
            tree = psutil.Process(play.pid).children(recursive=True)
            return {p.cmdline()[0]: p.status() for p in tree if p.cmdline()}

        assert until(lambda: states().get("VLLM::Worker_TP1") == psutil.STATUS_STOPPED), states()
        assert until(lambda: "cc1plus" in states()), states()
        assert states()["VLLM::Worker_TP0"] == psutil.STATUS_RUNNING
        assert "VLLM::EngineCore_DP0" in states()
    finally:
        play.send_signal(signal.SIGTERM)
        assert play.wait(20) == 0
    assert mark.left() == []


@pytest.mark.parametrize("text", ["Worker", "=spin", "Worker="])
def test_a_cast_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not ROLE=BEHAVIOUR"):
        cast_of(text)


def test_processes_of_a_session_do_what_they_did() -> None:
    """A worker that was stopped for 8 s while it loaded is stopped on the stage at that time, and works before."""
    folder = ROOT / "fixtures/stall/session-load-stopped-vllm-0.32.0"
    entries = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    seen = list(moments(entries))
    worker = [(t, doing) for t, moment in seen for name, doing in moment.values() if name == "Worker"]
    stopped = [t for t, doing in worker if doing == "stopped"]
    assert stopped and all(36 < t < 130 for t in stopped)
    assert "read" in {doing for t, doing in worker if t < stopped[0]}
    # The first process is the performance itself.
    assert all(2684 not in moment for _, moment in seen)


def test_process_ids_in_the_log_are_those_of_the_stand_ins(tmp_path: Path, mark: Mark) -> None:
    log = "(APIServer pid=8) INFO 12-01 10:00:00 [x.py:1] vLLM API server version 0.11.0\n" + LOG.format(second=1)
    place = folder(tmp_path / "case", log, kind="stall")
    play = subprocess.Popen(
        [*PLAY, str(place), "--speed", "10", "--linger", "0.5"], stdout=subprocess.PIPE, env=mark.env
    )
    assert play.stdout is not None
    first, second = play.stdout.readline(), play.stdout.readline()
    tree = {p.cmdline()[0]: p.pid for p in psutil.Process(play.pid).children(recursive=True) if p.cmdline()}
    assert first.startswith(f"(APIServer pid={play.pid}) ".encode())
    assert second.startswith(f"(EngineCore_DP0 pid={tree['VLLM::EngineCore_DP0']}) ".encode())
    assert play.wait(20) == 0
    assert mark.left() == []
