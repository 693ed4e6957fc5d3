from __future__ import annotations

import pytest

from tests.rulebase.rulebook import CORE, base, examine, found, line, rule, signal, traceback

OLD_GPU = "[[when]]\nfact = 'gpu.cc'\nop = '<'\nvalue = 75\n"
FORECAST = rule(
    "quant.capability-too-low", signal("too old for the method") + OLD_GPU, "preflight = true\nphases = ['launch']"
)
RULES = base(FORECAST, rule("api.port-in-use", signal("port is taken")))
SLOW_LINK = base(rule("compile.slow", OLD_GPU, "preflight = true\nseverity = 'degraded'\nphases = ['launch']"))

STARTED = line("vLLM API server version 0.11.0", level="INFO")
LOADING = line("Starting to load model m...", level="INFO")
READY = "INFO:     Application startup complete."
TAKEN = line("the port is taken", seconds=9)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", ["quant.capability-too-low"]),
        (STARTED, ["quant.capability-too-low"]),
        # past the phase in which it would have failed
        (f"{STARTED}\n{LOADING}", []),
        (f"{STARTED}\n{READY}", []),
        # it served once; the next start has not come far yet
        (f"{STARTED}\n{LOADING}\n{READY}\n{STARTED}", []),
        # what the log shows comes first, however late
        (f"{STARTED}\n{TAKEN}", ["api.port-in-use", "quant.capability-too-low"]),
    ],
)
def test_a_forecast_stands_until_the_start_refutes_it(log: str, expected: list[str]) -> None:
    assert found(RULES, log, gpu__cc=70) == expected


def test_a_line_of_the_log_needs_no_forecast() -> None:
    log = f"{STARTED}\n{line('too old for the method')}\n{LOADING}"
    (finding,) = examine(RULES, log, gpu__cc=70).findings
    assert (finding.confidence, len(finding.evidence)) == ("certain", 1)


def test_an_unknown_error_comes_before_a_forecast() -> None:
    log = f"{STARTED}\n{line(traceback('acme.PluginError: cannot frobnicate', 'load'))}"
    first, second = examine(RULES, log, gpu__cc=70).findings
    assert (first.id, second.id) == ("unknown.error", "quant.capability-too-low")


@pytest.mark.parametrize(
    ("log", "confidence"),
    [(STARTED, "certain"), (f"{STARTED}\n{line('EngineCore failed to start.', CORE)}", "likely")],
)
def test_a_death_that_shows_something_else_makes_a_forecast_less_certain(log: str, confidence: str) -> None:
    (finding,) = examine(RULES, log, gpu__cc=70).findings
    assert finding.confidence == confidence


def test_what_only_slows_a_server_is_said_of_one_that_serves() -> None:
    assert found(SLOW_LINK, f"{STARTED}\n{READY}", gpu__cc=70) == ["compile.slow"]
