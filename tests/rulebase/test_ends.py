from __future__ import annotations

import pytest

from tests.rulebase.rulebook import CORE, WORKER, base, examine, line, rule, signal

INIT = line("world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://x backend=nccl", WORKER, "INFO")
NCCL = line("vLLM is using nccl==2.27.3", WORKER, "INFO")
LOADING = line("Starting to load model m...", WORKER, "INFO")


def ends(*steps: str, last: str = "", more: str = "") -> str:
    return f"[[signal]]\nends = [{', '.join(map(repr, steps))}]\n" + (f"last = '{last}'\n" if last else "") + more


RULES = base(
    rule("dist.any", ends("launch.distributed_init"), "severity = 'stall'"),
    rule("dist.nccl", ends("launch.distributed_init", last="using nccl=="), "severity = 'stall'"),
    rule("weights.stalled", ends("weight_load.init", "weight_load.read"), "severity = 'stall'"),
    rule(
        "dist.gpus",
        ends("launch.distributed_init", more="[[when]]\nfact = 'gpu.count'\nop = '>'\nvalue = 4\n"),
        "severity = 'stall'",
    ),
)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([INIT], ["dist.any"]),
        # the rule that names the last line comes first
        ([INIT, NCCL], ["dist.nccl", "dist.any"]),
        ([INIT, NCCL, LOADING], ["weights.stalled"]),
        ([line("anything", CORE, "INFO")], []),
    ],
)
def test_a_log_that_just_stops_is_explained_by_where_it_ends(log: list[str], expected: list[str]) -> None:
    report = examine(RULES, "\n".join(log))
    assert report.verdict == "incomplete"
    assert [finding.id for finding in report.findings] == expected
    assert {finding.confidence for finding in report.findings} <= {"possible"}
    assert {finding.severity for finding in report.findings} <= {"stall"}


def test_the_finding_stands_at_the_step_where_the_log_ends() -> None:
    (finding,) = examine(RULES, f"{INIT}\n{LOADING}").findings
    assert (finding.phase, finding.step) == ("weight_load", "weight_load.init")


@pytest.mark.parametrize(("gpus", "expected"), [(8, True), (2, False), (None, False)])
def test_conditions_must_surely_hold(gpus: int | None, expected: bool) -> None:
    facts = {"gpu__count": gpus} if gpus is not None else {}
    report = examine(RULES, INIT, **facts)
    assert ("dist.gpus" in [finding.id for finding in report.findings]) is expected


def test_an_error_in_the_log_leaves_no_room_for_guesses() -> None:
    rules = base(
        rule("weights.stalled", ends("weight_load.init"), "severity = 'stall'"),
        rule("oom.x", signal("the message")),
    )
    assert [finding.id for finding in examine(rules, f"{LOADING}\n{line('the message')}").findings] == ["oom.x"]


def test_a_server_that_serves_hangs_nowhere() -> None:
    rules = base(
        rule("weights.stalled", ends("runtime.ready", "runtime.serving", "weight_load.init"), "severity = 'stall'")
    )
    report = examine(rules, f"{LOADING}\nINFO:     Application startup complete.")
    assert (report.verdict, report.findings) == ("healthy", ())
