"""The words that make a line worth examining when there is no time for all: those of rules and of step markers."""

from __future__ import annotations

from collections.abc import Iterator

from vdoctor.intake.patterns import required_literals
from vdoctor.rulebase.schema import RuleBase
from vdoctor.startup.markers import MARKERS


def words_of(rules: RuleBase) -> Iterator[bytes]:
    """At least one of them is in every line that a rule or a marker matches."""
    for marker in MARKERS:
        yield from (literal.encode() for literal in required_literals(marker.pattern))
    for rule in rules.rules:
        for signal in rule.signals:
            yield from (literal.encode() for literal in signal.literals)
