"""Every fixture: the right cause and phase first, quiet where it is healthy, the same by every path."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import Case, cases, examine, report_lines, rules
from vdoctor.diagnose import Examination
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse
from vdoctor.live.session import Recorder, Session, is_session
from vdoctor.model import Exit, Report, Sample, Source

CASES = cases()
HEALTHY = [case for case in CASES if case.label["id"] == "healthy"]
FAULTY = [case for case in CASES if case.label["id"] != "healthy" and case.label.get("offline", True)]


def by_name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", HEALTHY, ids=by_name)
def test_healthy_log_is_quiet(case: Case) -> None:
    report = examine(case.log)
    loud = [finding.id for finding in report.findings if finding.severity != "info"]
    assert (report.verdict, loud) == ("healthy", [])


def test_healthy_fixtures_cover_five_releases() -> None:
    assert len({case.label["vllm_version"] for case in HEALTHY}) >= 5


@pytest.mark.parametrize("case", FAULTY, ids=by_name)
def test_cause_is_named_first(case: Case) -> None:
    report = examine(case.log)
    right = {case.label["id"], *case.label["also"]}
    assert report.findings, report.verdict
    assert report.findings[0].id in right
    assert report.phase == case.label["phase"]


@pytest.mark.parametrize("case", FAULTY, ids=by_name)
def test_evidence_is_in_the_log_at_its_line(case: Case) -> None:
    physical = case.log.decode("utf-8", "replace").split("\n")
    for finding in examine(case.log).findings:
        for evidence in finding.evidence:
            words = evidence.text.split()[-3:]
            assert all(word in physical[evidence.line - 1] for word in words), evidence


@pytest.mark.parametrize("chunk", [1, 7, 4096])
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_chunks_do_not_matter(case: Case, chunk: int) -> None:
    assert report_lines(examine(case.log, chunk=chunk)) == report_lines(examine(case.log))


@pytest.mark.parametrize("chunk", [1, 7, 4096])
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_session_replays_to_the_report_that_watch_gave(case: Case, chunk: int, tmp_path: Path) -> None:
    command = ["vllm", "serve", "m", "--max-model-len", "512"]
    watched = watched_like(case.log, chunk, command, Recorder(tmp_path / "s", command, {}, {}))
    session = Session(tmp_path / "s")
    examination = Examination(rules(), option_tables.load(), parse(session.command), session.facts)
    examination.feed(session.observations())
    assert report_lines(examination.report(Source("session", "s"))) == report_lines(watched)


def watched_like(data: bytes, chunk: int, command: list[str], recorder: Recorder) -> Report:
    """What the watcher does with output that comes in chunks of this size, a hundredth of a second apart."""
    examination = Examination(rules(), option_tables.load(), parse(command))
    splitter = LineSplitter()
    t = 0.0
    for start in range(0, len(data), chunk):
        t = round(t + 0.01, 4)
        recorder.log(t, data[start : start + chunk])
        examination.feed(splitter.feed(data[start : start + chunk], t))
        if start % (chunk * 100) == 0:
            recorder.sample(Sample(t))
            examination.feed([Sample(t)])
    end = Exit(round(t + 0.01, 4), 1)
    examination.feed([*splitter.close(end.t), end])
    report = examination.report(Source("live", "child"))
    recorder.close(end, {"id": "x", "also": [], "phase": None, "kind": "crash"})
    return report


@pytest.mark.parametrize("case", [case for case in CASES if is_session(case.folder)], ids=by_name)
def test_recorded_session_has_times_in_order(case: Case) -> None:
    session = Session(case.folder)
    examination = Examination(rules(), option_tables.load(), parse(session.command), session.facts)
    examination.feed(session.observations())
    starts = [phase.start for phase in examination.report(Source("session", "s")).phases]
    assert starts and None not in starts
    assert starts == sorted(starts, key=lambda start: start or 0.0)
