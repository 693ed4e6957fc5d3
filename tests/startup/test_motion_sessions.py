"""Recorded starts of real servers, looked at after every single observation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.cases import FIXTURES, rules
from vdoctor.diagnose import Examination
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse
from vdoctor.live.session import Session, is_session
from vdoctor.model import Exit, Line, Motion, Report, Sample, Source

SESSIONS = sorted(path for path in FIXTURES.glob("*/session-*") if is_session(path))
HEALTHY = [path for path in SESSIONS if path.parent.name == "healthy"]
STOPPED = [path for path in SESSIONS if "stopped" in path.name]


def examination(session: Session, stall_after: float | None = None) -> Examination:
    return Examination(rules(), option_tables.load(), parse(session.command), session.facts, stall_after)


def motions(folder: Path, stall_after: float | None = None, chunk: int | None = None) -> Iterator[Motion]:
    """The verdict after every observation that is not the end."""
    session = Session(folder)
    one = examination(session, stall_after)
    for observation in session.observations(chunk):
        one.feed([observation])
        if one.exit is None and (motion := one.motion) is not None:
            yield motion


def report(folder: Path) -> Report:
    session = Session(folder)
    one = examination(session)
    one.feed(session.observations())
    return one.report(Source("session", folder.name))


def test_there_are_recordings() -> None:
    assert len(HEALTHY) >= 3
    assert len(STOPPED) >= 2


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda path: path.name)
@pytest.mark.parametrize("stall_after", [None, 15.0])
def test_healthy_start_is_never_stalled(folder: Path, stall_after: float | None) -> None:
    """Also with a patience of a quarter of the shortest one that is built in."""
    seen = list(motions(folder, stall_after))
    assert len(seen) > 100
    assert {motion.state for motion in seen} <= {"progressing", "slow"}
    assert max(motion.since for motion in seen) < 10


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda path: path.name)
def test_healthy_start_reports_no_motion(folder: Path) -> None:
    one = report(folder)
    assert (one.verdict, one.motion) == ("healthy", None)


@pytest.mark.parametrize("folder", STOPPED, ids=lambda path: path.name)
def test_stopped_worker_is_named_within_ten_seconds(folder: Path) -> None:
    first = next(motion for motion in motions(folder) if motion.state == "stalled")
    assert (first.kind, first.process) == ("stopped", "Worker")
    assert first.waiting == ("APIServer", "EngineCore")
    assert first.since < 10


@pytest.mark.parametrize("folder", STOPPED, ids=lambda path: path.name)
def test_stall_that_the_user_ended_is_the_verdict(folder: Path) -> None:
    one = report(folder)
    assert one.verdict == "stalled"
    assert one.motion is not None and one.motion.kind == "stopped"
    first = one.findings[0]
    assert (first.id, first.rule, first.confidence) == ("dist.straggler", "dist.stopped-process", "certain")
    assert first.step == one.motion.step == one.step
    assert f"kill -CONT {one.motion.pid}" in first.fixes[0].title["en"]
    assert one.facts["stall.waiting"].value == ("APIServer", "EngineCore")


def test_silent_storage_and_two_stops_are_told_apart_from_slow_storage() -> None:
    """300 kB/s, silent for 25 s, the worker stopped while it loads and again while it warms up."""
    folder = FIXTURES / "stall" / "session-storage-silent-vllm-0.32.0"
    seen = list(motions(folder, stall_after=15.0))
    states = groupby(seen, key=lambda m: (m.state == "stalled", m.kind))
    firsts = [next(group) for (stalled, _), group in states if stalled]
    assert [(m.kind, m.process, m.step) for m in firsts] == [
        ("storage", "Worker", "weight_load.read"),
        ("stopped", "Worker", "weight_load.read"),
        ("stopped", "Worker", "kv_init.compile"),
    ]
    assert {m.waiting for m in firsts} == {("APIServer", "EngineCore")}
    assert "reading" in {m.doing for m in seen if m.state != "stalled"}
    # With the patience that is built in a storage that is silent for 25 s is no stall.
    assert "storage" not in {m.kind for m in motions(folder)}


@pytest.mark.parametrize("folder", SESSIONS, ids=lambda path: path.name)
def test_verdict_comes_from_the_observations_alone(folder: Path) -> None:
    """Asked at every line or only now and then, fed in pieces or at once: the same answers."""
    whole = {motion.t: motion for motion in motions(folder)}
    assert {motion.t: motion for motion in motions(folder, chunk=700)} == whole
    session = Session(folder)
    seldom = examination(session)
    for number, observation in enumerate(session.observations()):
        seldom.feed([observation])
        if number % 50 == 0 and seldom.exit is None and (motion := seldom.motion) is not None:
            assert (not isinstance(observation, Line) and motion == whole[motion.t]) or isinstance(observation, Line)


@pytest.mark.parametrize("folder", STOPPED, ids=lambda path: path.name)
def test_saved_log_of_a_stall_knows_nothing_of_motion(folder: Path) -> None:
    one = Examination(rules(), option_tables.load())
    from tests.cases import lines

    one.feed(lines((folder / "log.txt").read_bytes()))
    report = one.report(Source("file", "log"))
    assert report.motion is None
    assert not [name for name in report.facts if name.startswith(("stall.", "slow."))]
    assert not {
        name for missing in report.not_evaluated for name in missing.missing if name.startswith(("stall.", "slow."))
    }


@pytest.mark.parametrize(("asked", "verdict"), [("SIGINT", "stalled"), ("stop", "stalled"), (None, "failed")])
def test_complaints_of_a_server_that_is_ended_in_a_stall_are_no_cause(asked: str | None, verdict: str) -> None:
    folder = FIXTURES / "stall" / "session-load-stopped-vllm-0.32.0"
    session = Session(folder)
    one = examination(session)
    seen = list(session.observations())[:-1]
    t, number = seen[-1].t if isinstance(seen[-1], Sample) else 130.0, sum(isinstance(o, Line) for o in seen)
    said = [
        "Traceback (most recent call last):",
        '  File "/v/vllm/v1/engine/core.py", line 1, in run_engine_core',
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    one.feed([*seen, *(Line(number + n, text, t + 1) for n, text in enumerate(said, 1)), Exit(t + 2, 1, None, asked)])
    report = one.report(Source("live", "x"))
    assert report.verdict == verdict
    assert report.findings[0].id == "dist.straggler"
    # The wrapper is told only where the server died of the stall by itself.
    told = {finding.id for finding in report.findings} | set(report.findings[0].symptoms)
    assert ("dist.engine-core-failed" in told) is (asked is None)
