"""Logs that just stop: which rules know what hangs at the step where this one ends."""

from __future__ import annotations

import re

from vdoctor.model import Facts
from vdoctor.rulebase.conditions import all_hold
from vdoctor.rulebase.rank import Match
from vdoctor.rulebase.schema import Rule, RuleBase, Signal


def matches(base: RuleBase, step: str | None, last_marker: str, facts: Facts) -> list[Match]:
    """Rules with an `ends` signal for this step; those that name the last line come first."""
    found: list[tuple[int, Match]] = []
    for rule in base.rules:
        for signal in rule.signals:
            if step in signal.ends and _fits(rule, signal, last_marker, facts):
                found.append((0 if signal.last else 1, Match(rule, (), facts)))
                break
    return [match for _, match in sorted(found, key=lambda entry: entry[0])]


def _fits(rule: Rule, signal: Signal, last_marker: str, facts: Facts) -> bool:
    if signal.last and not re.search(signal.last, last_marker):
        return False
    return all_hold(rule.whens, facts) is True
