"""Ready by the log, by /health, by both, by neither."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import SOURCE, lines, rules
from vdoctor.diagnose import Examination
from vdoctor.launch import options as option_tables
from vdoctor.model import Line, Observation, Sample

SAID = "(APIServer pid=7) INFO:     Application startup complete."
LOADING = "(EngineCore pid=9) INFO 01-01 01:01:01 [gpu_model_runner.py:1] Starting to load model org/m...\n"


def examined(*observations: Observation) -> Examination:
    examination = Examination(rules(), option_tables.load())
    examination.feed(lines(LOADING.encode()))
    examination.feed(observations)
    return examination


def facts(examination: Examination) -> dict[str, Any]:
    found = examination.report(SOURCE).facts
    return {name.removeprefix("server."): fact.value for name, fact in found.items() if name.startswith("server.")}


def asked(t: float, status: int) -> Sample:
    return Sample(t, health=status)


@pytest.mark.parametrize(
    ("observations", "ready", "wanted"),
    [
        ((), False, {}),
        ((asked(3.0, 0),), False, {"health": 0}),
        ((Line(2, SAID, 5.0),), True, {"ready_by": "log"}),
        ((asked(4.0, 200),), True, {"ready_by": "health", "health_after_s": 4.0, "health": 200}),
        (
            (asked(4.0, 503), Line(2, SAID, 5.0), asked(5.5, 200)),
            True,
            {"ready_by": "log and health", "health_after_s": 5.5, "health": 200},
        ),
        (
            (Line(2, SAID, 5.0), asked(6.0, 0), asked(50.0, 0)),
            True,
            {"ready_by": "log", "health": 0, "unanswered_s": 44},
        ),
    ],
)
def test_readiness(observations: tuple[Observation, ...], ready: bool, wanted: dict[str, Any]) -> None:
    examination = examined(*observations)
    assert examination.ready is ready
    assert facts(examination) == wanted


def test_a_server_that_logs_nothing_is_healthy_when_it_answers() -> None:
    assert examined(asked(4.0, 200)).report(SOURCE).verdict == "healthy"


def test_a_log_that_says_ready_while_nobody_answers_is_told() -> None:
    report = examined(Line(2, SAID, 5.0), asked(6.0, 0), asked(50.0, 0)).report(SOURCE)
    assert (report.verdict, report.findings[0].id) == ("degraded", "api.no-answer")
