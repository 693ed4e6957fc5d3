from __future__ import annotations

import itertools

import pytest

from tests.rulebase.rulebook import API, CORE, WORKER, base, examine, found, line, rule, signal

ONE, TWO, THREE = signal("first message"), signal("second message"), signal("third message")
FIRST, SECOND, THIRD = "first message", "second message", "third message"
WRAPPER = signal("Engine core initialization failed")
WRAPPER_LINE = line("RuntimeError: Engine core initialization failed. See root cause above.", API)


def symptoms(rules: object, log: str) -> tuple[str, ...]:
    return examine(rules, log).findings[0].symptoms  # type: ignore[arg-type]


# ------------------------------------------------------------------ wrappers


@pytest.mark.parametrize("severity", ["fatal", "stall"])
@pytest.mark.parametrize("before", [True, False])
def test_a_wrapper_is_a_symptom_of_whatever_is_grave(severity: str, before: bool) -> None:
    rules = base(
        rule("dist.engine-core-failed", WRAPPER, "wrapper = true"), rule("oom.x", ONE, f"severity = '{severity}'")
    )
    lines = [WRAPPER_LINE, line(FIRST)]
    log = "\n".join(lines if before else lines[::-1])
    assert found(rules, log) == ["oom.x"]
    assert symptoms(rules, log) == ("dist.engine-core-failed",)


@pytest.mark.parametrize("severity", ["degraded", "info"])
def test_what_is_not_grave_explains_no_death(severity: str) -> None:
    rules = base(
        rule("dist.engine-core-failed", WRAPPER, "wrapper = true"), rule("oom.x", ONE, f"severity = '{severity}'")
    )
    assert found(rules, f"{line(FIRST)}\n{WRAPPER_LINE}")[0] == "dist.engine-core-failed"


def test_a_wrapper_alone_is_the_finding() -> None:
    rules = base(rule("dist.engine-core-failed", WRAPPER, "wrapper = true"))
    assert found(rules, WRAPPER_LINE) == ["dist.engine-core-failed"]


def test_a_wrapper_never_explains_a_cause() -> None:
    rules = base(
        rule("dist.engine-core-failed", WRAPPER, "wrapper = true\nexplains = ['oom.*']"),
        rule("oom.x", ONE, "severity = 'degraded'"),
    )
    assert "oom.x" in found(rules, f"{WRAPPER_LINE}\n{line(FIRST)}")


# ------------------------------------------------------------------ explains


@pytest.mark.parametrize("name", ["oom.y", "oom.z", "oom.*"])
def test_explained_by_rule_by_finding_or_by_family(name: str) -> None:
    rules = base(rule("env.x", ONE, f"explains = ['{name}']"), rule("oom.y", TWO, cause="oom.z"))
    for log in (f"{line(FIRST)}\n{line(SECOND)}", f"{line(SECOND)}\n{line(FIRST)}"):
        assert found(rules, log) == ["env.x"]
        assert symptoms(rules, log) == ("oom.z",)


def test_a_family_is_not_a_prefix_of_another_word() -> None:
    rules = base(rule("env.x", ONE, "explains = ['oom.*']"), rule("oomph.y", TWO))
    assert sorted(found(rules, f"{line(FIRST)}\n{line(SECOND)}")) == ["env.x", "oomph.y"]


def test_a_rule_that_does_not_match_explains_nothing() -> None:
    rules = base(rule("env.x", ONE, "explains = ['oom.*']"), rule("oom.y", TWO))
    assert found(rules, line(SECOND)) == ["oom.y"]


@pytest.mark.parametrize("order", list(itertools.permutations([FIRST, SECOND, THIRD])))
def test_a_chain_of_explanations_has_one_root_in_every_order(order: tuple[str, ...]) -> None:
    rules = base(
        rule("env.a", ONE, "explains = ['dist.b']"),
        rule("dist.b", TWO, "explains = ['oom.c']"),
        rule("oom.c", THREE),
    )
    log = "\n".join(line(text, seconds=9 * n) for n, text in enumerate(order))
    assert found(rules, log) == ["env.a"]
    assert set(symptoms(rules, log)) == {"dist.b", "oom.c"}


def test_two_that_explain_each_other_leave_the_earlier() -> None:
    rules = base(rule("env.a", ONE, "explains = ['oom.b']"), rule("oom.b", TWO, "explains = ['env.a']"))
    assert found(rules, f"{line(FIRST)}\n{line(SECOND, seconds=9)}") == ["env.a"]
    assert found(rules, f"{line(SECOND)}\n{line(FIRST, seconds=9)}") == ["oom.b"]


# ------------------------------------------------------------------ order


def test_severity_comes_before_everything() -> None:
    rules = base(
        rule("env.info", ONE, "severity = 'info'"),
        rule("env.degraded", TWO, "severity = 'degraded'"),
        rule("env.fatal", THREE, "confidence = 'possible'"),
    )
    log = "\n".join(line(text) for text in (FIRST, SECOND, THIRD))
    assert found(rules, log) == ["env.fatal", "env.degraded", "env.info"]


def test_the_surer_comes_first() -> None:
    rules = base(rule("env.likely", ONE, "confidence = 'likely'"), rule("env.sure", TWO))
    assert found(rules, f"{line(FIRST)}\n{line(SECOND, seconds=60)}") == ["env.sure", "env.likely"]


def test_the_earliest_fault_comes_first() -> None:
    rules = base(rule("env.late", ONE), rule("env.early", TWO))
    assert found(rules, f"{line(SECOND)}\n{line(FIRST, WORKER, seconds=60)}") == ["env.early", "env.late"]


@pytest.mark.parametrize("order", list(itertools.permutations([(FIRST, API), (SECOND, CORE), (THIRD, WORKER)])))
def test_within_one_burst_the_innermost_process_comes_first(order: tuple[tuple[str, str], ...]) -> None:
    rules = base(rule("env.api", ONE), rule("env.core", TWO), rule("env.worker", THREE))
    log = "\n".join(line(text, process) for text, process in order)
    assert found(rules, log) == ["env.worker", "env.core", "env.api"]


def test_without_times_the_innermost_comes_first_too() -> None:
    rules = base(rule("env.api", ONE), rule("env.worker", TWO))
    assert found(rules, f"({API}) {FIRST}\n({WORKER}) {SECOND}") == ["env.worker", "env.api"]


# ------------------------------------------------------------------ merging


def test_rules_of_one_cause_are_one_finding() -> None:
    rules = base(rule("oom.x", ONE, cause="oom.z"), rule("oom.y", TWO, "confidence = 'likely'", cause="oom.z"))
    (finding,) = examine(rules, f"{line(SECOND)}\n{line(FIRST)}").findings
    assert (finding.id, finding.rule, finding.confidence) == ("oom.z", "oom.x", "certain")


def test_merged_findings_keep_the_symptoms_of_both() -> None:
    rules = base(
        rule("oom.x", ONE, "explains = ['dist.a']", cause="oom.z"),
        rule("oom.y", TWO, "explains = ['dist.b']", cause="oom.z"),
        rule("dist.a", THREE),
        rule("dist.b", signal("fourth message")),
    )
    log = "\n".join(line(text) for text in (FIRST, SECOND, THIRD, "fourth message"))
    (finding,) = examine(rules, log).findings
    assert set(finding.symptoms) == {"dist.a", "dist.b"}


def test_a_rule_of_the_same_cause_is_no_symptom() -> None:
    rules = base(rule("oom.x", ONE, "explains = ['oom.*']", cause="oom.z"), rule("oom.y", TWO, cause="oom.z"))
    (finding,) = examine(rules, f"{line(FIRST)}\n{line(SECOND)}").findings
    assert finding.symptoms == ()


@pytest.mark.parametrize("times", [1, 2, 100])
def test_repetition_never_raises_confidence(times: int) -> None:
    rules = base(rule("oom.x", ONE, "confidence = 'possible'"))
    (finding,) = examine(rules, "\n".join([line(FIRST)] * times)).findings
    assert finding.confidence == "possible"
    assert len(finding.evidence) == 1


@pytest.mark.parametrize(
    ("log", "confidence"),
    [(FIRST, "likely"), (SECOND, "certain"), (f"{FIRST}\n{SECOND}", "certain"), (f"{SECOND}\n{FIRST}", "certain")],
)
def test_the_strongest_signal_gives_the_confidence(log: str, confidence: str) -> None:
    rules = base(rule("oom.x", signal(FIRST, "confidence = 'likely'") + TWO))
    (finding,) = examine(rules, line(log)).findings
    assert finding.confidence == confidence


def test_evidence_is_one_line_of_each_signal_and_no_more_than_three() -> None:
    texts = [f"message number {name}" for name in ("one", "two", "three", "four")]
    rules = base(rule("oom.x", "".join(map(signal, texts))))
    (finding,) = examine(rules, "\n".join(line(text) for text in texts for _ in range(3))).findings
    assert [evidence.line for evidence in finding.evidence] == [1, 4, 7]


# ------------------------------------------------------------------ conditions

CC = "[[when]]\nfact = 'gpu.cc'\nop = '<'\nvalue = 75\n"


def test_a_signal_with_a_condition_that_holds() -> None:
    rules = base(rule("quant.x", ONE + CC))
    assert found(rules, line(FIRST), gpu__cc=70) == ["quant.x"]
    assert found(rules, line(FIRST), gpu__cc=80) == []


def test_an_unknown_fact_makes_a_rule_not_evaluated() -> None:
    rules = base(rule("quant.x", ONE + CC))
    report = examine(rules, line(FIRST))
    assert [finding.id for finding in report.findings if finding.id != "unknown.error"] == []
    assert [(one.id, one.missing) for one in report.not_evaluated] == [("quant.x", ("gpu.cc",))]


def test_a_rule_whose_signal_is_not_there_is_not_undecided() -> None:
    assert examine(base(rule("quant.x", ONE + CC)), line(SECOND)).not_evaluated == ()


def test_a_capture_of_the_signal_decides_its_own_condition() -> None:
    rules = base(rule("quant.x", signal(r"capability: (?P<cc>\d+)", "gives = { 'gpu.cc' = 'cc' }") + CC))
    assert found(rules, line("capability: 70")) == ["quant.x"]
    assert found(rules, line("capability: 90")) == []


def test_preflight_needs_no_line_of_a_log() -> None:
    rules = base(rule("quant.x", ONE + CC, "preflight = true"), rule("quant.y", ONE + CC))
    assert found(rules, line("anything else"), gpu__cc=70) == ["quant.x"]
    assert found(rules, line("anything else"), gpu__cc=80) == []


def test_a_rule_of_conditions_alone_holds_without_a_log() -> None:
    assert found(base(rule("quant.x", CC)), line("anything"), gpu__cc=70) == ["quant.x"]


# ------------------------------------------------------------------ texts and fixes

FIXES = """
[[fix]]
id = "shorter"
safety = "safe"
changes = { flags = { "--max-model-len" = "{kv.fit_len}" } }
[[fix]]
id = "when"
safety = "safe"
when = [{ fact = "gpu.cc", op = ">=", value = 80 }]
changes = { flags = { "--enforce-eager" = true }, env = { A = "{port}" } }
[[fix]]
id = "box"
safety = "lossy"
changes = { container = { "--shm-size" = "{shm.need_mib}m" } }
[[fix]]
id = "advice"
safety = "manual"
"""
FIX_TEXTS = 'fix.shorter = "at most {kv.fit_len}"\nfix.when = "eager"\nfix.box = "more"\ncost.box = "memory"\nfix.advice = "look"'


def fixes(command: str = "", **facts: object) -> dict[str, str | None]:
    rules = base(rule("oom.x", ONE + FIXES, en=FIX_TEXTS, zh=FIX_TEXTS))
    (finding,) = examine(rules, line(FIRST), command, **facts).findings  # type: ignore[arg-type]
    return {fix.id: fix.command for fix in finding.fixes}


def test_a_fix_whose_value_is_unknown_is_not_offered() -> None:
    assert set(fixes()) == {"advice"}
    assert set(fixes(kv__estimated_len=26200)) == {"shorter", "advice"}


@pytest.mark.parametrize(
    ("facts", "offered"),
    [
        ({"gpu__cc": 80, "port": 1}, True),
        ({"gpu__cc": 70, "port": 1}, False),
        ({"port": 1}, False),
        ({"gpu__cc": 80}, False),
    ],
)
def test_a_fix_is_offered_only_when_its_condition_surely_holds(facts: dict[str, int], offered: bool) -> None:
    assert ("when" in fixes(**facts)) is offered


def test_a_fix_without_a_text_is_not_offered() -> None:
    rules = base(rule("oom.x", ONE + "[[fix]]\nid = 'a'\nsafety = 'manual'\n"))
    (finding,) = examine(rules, line(FIRST)).findings
    assert finding.fixes == ()


def test_a_fix_shows_the_whole_changed_command() -> None:
    assert (
        fixes("vllm serve m --max-model-len 9000", kv__estimated_len=26200)["shorter"]
        == "vllm serve m --max-model-len 26112"
    )
    assert fixes("docker run --rm img m", shm__need_mib=512)["box"] == "docker run --rm --shm-size=512m img m"


def test_a_fix_without_a_place_in_the_command_shows_none() -> None:
    assert fixes("vllm serve m", shm__need_mib=512)["box"] is None
    assert fixes("bash start.sh", kv__estimated_len=26200)["shorter"] is None


def test_an_option_that_the_release_does_not_have_is_never_proposed() -> None:
    text = "[[fix]]\nid = 'a'\nsafety = 'safe'\nchanges = { flags = { '--swap-space' = '0' } }"
    rules = base(rule("oom.x", ONE + text, en='fix.a = "a"', zh='fix.a = "a"'))
    (old,) = examine(rules, line(FIRST), vllm__version="0.8.5").findings
    (new,) = examine(rules, line(FIRST), vllm__version="0.32.0").findings
    assert [fix.id for fix in old.fixes] == ["a"]
    assert new.fixes == ()


def test_a_title_with_an_unknown_fact_is_shown_with_a_gap() -> None:
    text = rule("oom.x", ONE).replace('title = "title of oom.x"', 'title = "on port {port}[[ of {gpu.name}]]"')
    (finding,) = examine(base(text), line(FIRST)).findings
    assert finding.title["en"] == "on port ?"


HOSTILE = "{model.name}[[x]]{gpu.cc}"


def test_a_captured_value_with_braces_is_shown_as_text() -> None:
    text = rule(
        "model.x",
        signal(r"no such model (?P<m>\S+)", "gives = { 'model.path' = 'm' }")
        + "[[fix]]\nid = 'a'\nsafety = 'safe'\nchanges = { flags = { '--tokenizer' = '{model.path}' } }",
        en='fix.a = "use {model.path}"',
        zh='fix.a = "{model.path}"',
    ).replace('title = "title of model.x"', 'title = "[[{model.path} is missing]]"')
    (finding,) = examine(
        base(text), line(f"no such model {HOSTILE}"), "vllm serve m", gpu__cc=75, model__name="secret"
    ).findings
    assert finding.title["en"] == f"{HOSTILE} is missing"
    assert finding.fixes[0].title["en"] == f"use {HOSTILE}"
    assert finding.fixes[0].change.flags == {"--tokenizer": HOSTILE}
    assert finding.fixes[0].command == f"vllm serve m --tokenizer '{HOSTILE}'"


def test_a_captured_value_cannot_leave_its_word_in_a_command() -> None:
    text = rule(
        "model.x",
        signal(r"no such model <(?P<m>[^>]+)>", "gives = { 'model.path' = 'm' }")
        + "[[fix]]\nid = 'a'\nsafety = 'safe'\nchanges = { flags = { '--tokenizer' = '{model.path}' } }",
        en='fix.a = "a"',
        zh='fix.a = "a"',
    )
    (finding,) = examine(base(text), line("no such model <-x; rm -rf / #>"), "vllm serve m").findings
    assert finding.fixes[0].command == "vllm serve m '--tokenizer=-x; rm -rf / #'"


def test_unknown_options_are_removed_all_at_once() -> None:
    text = rule(
        "args.unknown-flag",
        signal(r"unrecognized arguments: (?P<a>.+)", "gives = { 'args.unknown' = 'a' }")
        + "[[fix]]\nid = 'a'\nsafety = 'safe'\nchanges = { remove = ['{args.unknown_flags}'] }",
        en='fix.a = "without {args.unknown_flags}"',
        zh='fix.a = "{args.unknown_flags}"',
    )
    log = "vllm: error: unrecognized arguments: --enable-metrics --swap-pages 4"
    (finding,) = examine(base(text), log, "vllm serve --enable-metrics m --swap-pages 4 --port 1").findings
    assert finding.fixes[0].command == "vllm serve m --port 1"
    assert finding.fixes[0].title["en"] == "without --enable-metrics, --swap-pages"


def test_captures_of_a_strong_signal_replace_those_of_a_weak_one_before_it() -> None:
    weak = signal(r"counted so far: (?P<n>\d)$", 'confidence = "possible"\ngives = { "kv.preemptions" = "n" }')
    strong = signal(r"counted so far: (?P<n>\d{2,})", 'gives = { "kv.preemptions" = "n" }')
    fix = "[[fix]]\nid = 'f'\nsafety = 'manual'\n"
    text = "fix.f = '{kv.preemptions} times'"
    rules = base(rule("runtime.x", f"{weak}\n{strong}\n{fix}", en=text, zh=text))
    log = "\n".join(line(f"counted so far: {n}") for n in (1, 51, 101))
    assert examine(rules, log).findings[0].fixes[0].title["en"] == "51 times"
