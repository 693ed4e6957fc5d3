"""The shipped rules keep their promises."""

from __future__ import annotations

import pytest

from tests.cases import ROOT, examine, rules
from vdoctor.launch import options as option_tables
from vdoctor.model import Change
from vdoctor.proof import lint
from vdoctor.report.fact_words import has_words
from vdoctor.rulebase.causes import CAUSES
from vdoctor.rulebase.schema import Rule

RULES = rules().rules
#: Causes that the product promises to know from its first release on.
PROMISED = [
    "env.nvcc-missing",
    "dist.shm-too-small",
    "quant.capability-too-low",
    "tp.heads-not-divisible",
    "oom.kv-none",
    "oom.kv-too-small",
    "oom.gpu-busy",
    "oom.graph-capture",
    "oom.weights",
    "oom.sampler-warmup",
    "api.port-in-use",
    "args.unknown-flag",
    "model.not-found",
    "model.arch-unsupported",
    "model.corrupt-weights",
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rule_passes_lint_and_its_own_examples(rule: Rule) -> None:
    assert lint(rules(), option_tables.load(), frozenset({rule.id})) == []


@pytest.mark.parametrize("cause", PROMISED)
def test_promised_cause_has_a_rule(cause: str) -> None:
    assert rules().by_cause(cause)


def test_every_finding_id_has_a_family_folder() -> None:
    families = {path.name for path in (ROOT / "rules").iterdir()}
    assert {cause.partition(".")[0] for cause in CAUSES} - {"unknown"} <= families


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_fix_uses_options_that_some_release_has(rule: Rule) -> None:
    table = option_tables.load()
    for fix in rule.fixes:
        for flag, value in fix.change.flags.items():
            if value is not None and not flag.startswith("{"):
                assert table.span(flag) is not None, (rule.id, fix.id, flag)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_fix_advises_both_directions_of_utilisation(rule: Rule) -> None:
    """Raising helps oom.kv-none and harms the others; one rule never says both."""
    said = {
        str(fix.change.flags.get("--gpu-memory-utilization"))
        for fix in rule.fixes
        if "--gpu-memory-utilization" in Change(fix.change.flags).flags
    }
    assert not {"{mem.utilization_lower}", "{mem.utilization_higher}"} <= said


def test_plain_text_is_no_vllm_log() -> None:
    report = examine("Dear team,\nthe meeting is at ten.\nRegards\n")
    assert (report.verdict, report.findings) == ("not_vllm", ())


FORETELLING = [rule for rule in RULES if rule.foretold_by]


@pytest.mark.parametrize("rule", FORETELLING, ids=lambda rule: rule.id)
def test_what_holds_before_the_start_is_proven_by_facts_alone(rule: Rule) -> None:
    """A positive example without any log, and words for each fact that decides."""
    by_facts = [example for example in rule.examples if example.match and example.facts and not example.log.strip()]
    assert by_facts, "add [[example]] with match = true and facts"
    whens = [when for group in rule.foretold_by for when in (*rule.whens, *group) if when.op != "unknown"]
    assert [when.fact for when in whens if not has_words(when.fact)] == []


def test_many_rules_foretell() -> None:
    assert len(FORETELLING) > 50
