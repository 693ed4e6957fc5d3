"""Proof of rules: every rule file carries examples, and they must come out as written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vdoctor.diagnose import Examination
from vdoctor.facts.derive import derive
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch.command import parse_text, print_text
from vdoctor.launch.options import OptionTable
from vdoctor.model import Fact, Report, Source
from vdoctor.rulebase.causes import CAUSES
from vdoctor.rulebase.conditions import all_hold
from vdoctor.rulebase.draft import TODO
from vdoctor.rulebase.schema import LANGUAGES, Example, Rule, RuleBase
from vdoctor.rulebase.template import facts_of


def lint(base: RuleBase, options: OptionTable, only: frozenset[str] | None = None) -> list[str]:
    """Every fault of the rules (of those whose id is in `only`): place, reason and help in one text each."""
    faults: list[str] = []
    for rule in base.rules:
        if only is not None and rule.id not in only:
            continue
        faults += [f"{rule.place}: {fault}" for fault in _rule_faults(rule, base)]
        faults += [f"{rule.place}: {fault}" for fault in example_faults(rule, options)]
        faults += [f"{rule.place}: {fault}" for fault in _rivals(rule, base, options)]
    return faults + _cycles(base)


def examine_example(example: Example, base: RuleBase, options: OptionTable) -> Report:
    """The report on an example's log."""
    given = _given(example)
    launch = parse_text(example.before) if example.before else None
    examination = Examination(base, options, launch, given)
    splitter = LineSplitter()
    lines = splitter.feed(example.log.encode())
    examination.feed([*lines, *splitter.close()])
    return examination.report(Source("file", "example"))


def _given(example: Example) -> dict[str, Fact]:
    return {name: Fact(value, "example") for name, value in example.facts.items()}


def _rule_faults(rule: Rule, base: RuleBase) -> Iterator[str]:
    if rule.cause not in CAUSES:
        yield f"cause: {rule.cause!r} is no finding id\n  help: use one of docs/findings.md, or add it to vdoctor/rulebase/causes.py"
    if any(TODO in text for table in rule.texts.values() for text in table.values()) or TODO in rule.references:
        yield "text: still holds TODO"
    if not rule.references and not rule.wrapper:
        yield "references: missing\n  help: an issue, a pull request or a source file that shows the message"
    known = {r.id for r in base.rules} | set(CAUSES) | {cause.partition(".")[0] + ".*" for cause in CAUSES}
    for name in rule.explains:
        if name not in known:
            yield f"explains: {name!r} is neither a rule nor a finding id"
    fix_ids = [fix.id for fix in rule.fixes]
    if len(set(fix_ids)) != len(fix_ids):
        yield "fix: an id is used twice"
    for language in LANGUAGES:
        texts = rule.texts.get(language, {})
        wanted = {"title", "cause", *(f"fix.{name}" for name in fix_ids)}
        wanted |= {f"cost.{fix.id}" for fix in rule.fixes if fix.safety == "lossy"}
        allowed = wanted | {f"cost.{name}" for name in fix_ids}
        for key in sorted(wanted - set(texts)):
            yield f"text.{language}.{key}: missing"
        for key in sorted(set(texts) - allowed):
            yield f"text.{language}.{key}: belongs to no fix"
    english, chinese = rule.texts.get("en", {}), rule.texts.get("zh", {})
    for key in sorted(set(english) & set(chinese)):
        if facts_of(english[key]) != facts_of(chinese[key]):
            yield f"text.zh.{key}: mentions other facts than the English text"
        if not re.search(r"[\u4e00-\u9fff]", chinese[key]):
            yield f"text.zh.{key}: is not Chinese"


def example_faults(rule: Rule, options: OptionTable) -> list[str]:
    """What does not come out of the rule's examples as written; empty when all is well."""
    return list(_examples(rule, options))


def _examples(rule: Rule, options: OptionTable) -> Iterator[str]:
    if not any(example.match for example in rule.examples):
        yield "example: no positive one\n  help: add [[example]] with match = true and a log"
    if not any(not example.match for example in rule.examples):
        yield "example: no negative one\n  help: add the nearest message that this rule must leave alone, with why"
    alone = RuleBase((rule,))
    proven: set[int] = set()
    for at, example in enumerate(rule.examples):
        report = examine_example(example, alone, options)
        finding = next((f for f in report.findings if f.rule == rule.id), None)
        if example.match is not (finding is not None):
            yield f"example[{at}]: {'does not match' if example.match else 'matches'}\n    {example.log.strip()[:300]}"
            continue
        if finding is None:
            continue
        for number, signal in enumerate(rule.signals):
            if (signal.regex is None and signal.ends) or (
                signal.regex and any(re.search(signal.regex, line) for line in example.log.splitlines())
            ):
                proven.add(number)
        if example.fix and (not finding.fixes or finding.fixes[0].id != example.fix):
            yield f"example[{at}].fix: first fix is {finding.fixes[0].id if finding.fixes else None!r}, not {example.fix!r}"
        if example.phase and finding.phase != example.phase:
            yield f"example[{at}].phase: is {finding.phase!r}, not {example.phase!r}"
        if example.after is not None:
            yield from _change_faults(at, example, finding.fixes[0].command if finding.fixes else None)
    for number, signal in enumerate(rule.signals):
        if signal.when and not any(e.match and all_hold(signal.when, derive(_given(e))) for e in rule.examples):
            yield f"signal[{number}].when: no positive example holds by it\n  help: add one with facts, or drop the signal"
        if signal.regex and number not in proven:
            yield f"signal[{number}].regex: no positive example matches it\n  help: add one, or drop the signal"


def _change_faults(at: int, example: Example, command: str | None) -> Iterator[str]:
    wanted = parse_text(example.after or "")
    if wanted is None or command != print_text(wanted):
        yield f"example[{at}].change: gives {command!r}, not {example.after!r}"


def _rivals(rule: Rule, base: RuleBase, options: OptionTable) -> Iterator[str]:
    """A positive example must still be this cause when all rules look at it."""
    for at, example in enumerate(rule.examples):
        if not example.match or rule.wrapper:
            continue
        report = examine_example(example, base, options)
        first = report.findings[0] if report.findings else None
        if first is not None and first.id != rule.cause and first.confidence != "possible":
            yield f"example[{at}]: rule {first.rule} takes it\n  help: narrow one of the two, or let one explain the other"


def _cycles(base: RuleBase) -> list[str]:
    """`explains` must not go round in a circle between causes."""
    graph: dict[str, set[str]] = {}
    for rule in base.rules:
        graph.setdefault(rule.cause, set()).update(rule.explains)
    faults = []
    for cause, explained in graph.items():
        for other in explained:
            if other != cause and cause in graph.get(other, ()):
                faults.append(f"explains: {cause} and {other} explain each other")
    return sorted(set(faults))
