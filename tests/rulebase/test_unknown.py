from __future__ import annotations

import pytest

from tests.rulebase.rulebook import API, CORE, WORKER, base, examine, line, rule, signal, traceback
from vdoctor.rulebase.schema import RuleBase
from vdoctor.rulebase.unknown import mask, nearest_rule

NONE = base()
LIKE = "The quantization method awq is not supported for the current GPU. Minimum capability: 75."
LIKES = base(rule("quant.x", f"[[signal]]\nlike = '{LIKE}'\n"))
WRAPPERS = [
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
    "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.",
    "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
]


def test_an_error_that_no_rule_knows_is_shown_as_it_is() -> None:
    report = examine(NONE, line(traceback("ValueError: never seen before", "load_model"), WORKER))
    (finding,) = report.findings
    assert (finding.id, finding.confidence, finding.severity) == ("unknown.error", "possible", "fatal")
    assert finding.title["en"] == "ValueError: never seen before"
    assert finding.title["zh"]
    assert (finding.step, finding.fixes) == ("weight_load.read", ())
    assert (finding.evidence[0].process, finding.evidence[0].line) == ("Worker_TP0", 4)
    assert report.verdict == "failed"


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("first", [True, False])
def test_the_error_inside_the_wrappers_is_shown(wrapper: str, first: bool) -> None:
    inner = line(traceback("ValueError: never seen before", "load_model"), WORKER)
    outer = line(traceback(wrapper, "run_engine_core"), CORE)
    log = f"{outer}\n{inner}" if first else f"{inner}\n{outer}"
    (finding,) = examine(NONE, log).findings
    assert finding.title["en"] == "ValueError: never seen before"


def test_wrappers_that_rules_know_become_symptoms() -> None:
    rules = base(rule("dist.engine-core-failed", signal("Engine core initialization failed"), "wrapper = true"))
    log = (
        line(traceback("ValueError: never seen before", "load_model"), CORE)
        + "\n"
        + line(traceback(WRAPPERS[0], "f"), API)
    )
    (finding,) = examine(rules, log).findings
    assert (finding.id, finding.symptoms) == ("unknown.error", ("dist.engine-core-failed",))


@pytest.mark.parametrize("stop", ["KeyboardInterrupt", "SystemExit: 1", "asyncio.exceptions.CancelledError"])
def test_a_stop_is_no_error(stop: str) -> None:
    log = (
        line(traceback(stop, "run_server"), API) + "\n" + line(traceback("ValueError: never seen before", "load_model"))
    )
    assert examine(NONE, log).findings[0].title["en"] == "ValueError: never seen before"


def test_of_a_group_of_exceptions_a_member_is_shown() -> None:
    log = (
        "vllm serve\n"
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "vllm/entrypoints/x.py", line 1, in serve\n'
        "  |     serve()\n"
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "b.py", line 2, in inner\n'
        "    |     inner()\n"
        "    | ValueError: never seen before\n"
        "    +------------------------------------\n"
    )
    (finding,) = examine(NONE, log).findings
    assert finding.title["en"] == "ValueError: never seen before"


def test_of_a_chain_the_first_error_is_shown() -> None:
    log = line(
        traceback("KeyError: 'lm_head'", "load_weights")
        + "\n\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("RuntimeError: load failed", "load_model")
    )
    assert examine(NONE, log).findings[0].title["en"] == "KeyError: 'lm_head'"


def test_a_known_cause_is_not_joined_by_its_own_exception() -> None:
    rules = base(rule("oom.x", signal("never seen before")))
    log = line(traceback("ValueError: never seen before", "load_model"))
    assert [finding.id for finding in examine(rules, log).findings] == ["oom.x"]


def test_a_long_error_is_cut_in_the_title() -> None:
    (finding,) = examine(NONE, line(traceback("ValueError: " + "x" * 5000, "load_model"))).findings
    assert len(finding.title["en"]) < 130
    assert len(finding.evidence[0].text) < 400


def test_braces_in_an_error_are_text() -> None:
    (finding,) = examine(NONE, line(traceback("ValueError: {error} [[{gpu.cc}]]", "load_model")), gpu__cc=75).findings
    assert finding.title["en"] == "ValueError: {error} [[{gpu.cc}]]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LIKE, True),
        ("ValueError: The quantization method awq is not supported for the current GPU. Minimum capability: 80.", True),
        ("The quantization method awq is unsupported on the current GPU. Minimum capability: 75", True),
        ("ValueError: No available memory for the cache blocks.", False),
        ("RuntimeError: CUDA error: out of memory", False),
        ("GPU", False),
        ("", False),
    ],
)
def test_an_error_near_to_a_known_text_names_its_rule(text: str, expected: bool) -> None:
    assert (nearest_rule(LIKES, text) is not None) is expected


def test_a_guess_by_likeness_is_only_possible() -> None:
    log = line(
        traceback(
            "ValueError: The quantization method awq is not supported for the current GPU! Minimum capability: 80",
            "load_model",
        )
    )
    (finding,) = examine(LIKES, log).findings
    assert (finding.id, finding.confidence) == ("quant.x", "possible")


def test_without_likes_nothing_is_near() -> None:
    assert nearest_rule(RuleBase(()), LIKE) is None


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("needs 75, has 7.0.1", "needs N, has N"),
        ("at 0x7f3a00ff of /root/.cache/model-1.safetensors", "at HEX of PATH"),
        ("no numbers", "no numbers"),
    ],
)
def test_numbers_addresses_and_paths_do_not_make_an_error(text: str, masked: str) -> None:
    assert mask(text) == masked
