"""A rule as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vdoctor.model import Change, Confidence, FactValue, Safety, Severity

LANGUAGES = ("en", "zh")


@dataclass(frozen=True, slots=True)
class When:
    """A condition on a fact. `than` names a second fact to compare with instead of `value`."""

    fact: str
    op: str
    value: Any = None
    than: str | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """What in a log speaks for the rule.

    `regex` is searched in one message (prefixes and log header removed). `stack` and `not_stack`
    are searched in the function names of the traceback around it, joined by newlines, outermost first.
    `ends` lists steps: the signal holds when the log ends there with nothing else wrong; `last` is
    then searched in the last marker line. `repeats`: the line must come so often.
    `phase` is where such a message belongs when no stack around it says more. `like` is the nearest-text match for unknown errors.
    `when` instead of all of these: the signal holds by facts alone, before anything was started (rule with `preflight`).
    """

    regex: str | None = None
    stack: str | None = None
    not_stack: str | None = None
    process: str | None = None
    level: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    phase: str | None = None
    ends: tuple[str, ...] = ()
    last: str | None = None
    like: str | None = None
    gives: Mapping[str, str] | None = None
    set: Mapping[str, FactValue] | None = None
    confidence: Confidence | None = None
    repeats: int = 1
    literals: tuple[str, ...] = ()
    when: tuple[When, ...] = ()


@dataclass(frozen=True, slots=True)
class FixSpec:
    """A remedy before its values are filled in."""

    id: str
    safety: Safety
    change: Change
    when: tuple[When, ...] = ()
    confirm: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A log that the rule must match or must leave alone, with what must come of it."""

    match: bool
    log: str
    facts: Mapping[str, FactValue]
    why: str = ""
    fix: str | None = None
    phase: str | None = None
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One cause and its remedies. `place` is the file it was read from.

    `phase` is where the cause belongs when it surfaces later; `phases` are where hits count.
    """

    id: str
    cause: str
    status: str
    severity: Severity
    confidence: Confidence
    phases: tuple[str, ...]
    phase: str | None
    preflight: bool
    wrapper: bool
    explains: tuple[str, ...]
    references: tuple[str, ...]
    signals: tuple[Signal, ...]
    whens: tuple[When, ...]
    fixes: tuple[FixSpec, ...]
    texts: Mapping[str, Mapping[str, str]]
    examples: tuple[Example, ...]
    place: str

    @property
    def foretold_by(self) -> tuple[tuple[When, ...], ...]:
        """Groups of conditions of which one is enough without any log line; empty when only a log can tell."""
        if not self.preflight:
            return ()
        own = tuple(signal.when for signal in self.signals if signal.when)
        return own or (((),) if self.whens else ())

    def text(self, key: str) -> dict[str, str]:
        """The text of `key` in every language that has it."""
        return {lang: table[key] for lang, table in self.texts.items() if key in table}


@dataclass(frozen=True, slots=True)
class RuleBase:
    """All rules, in order of their ids."""

    rules: tuple[Rule, ...]

    def get(self, name: str) -> Rule | None:
        """The rule with this id."""
        return next((rule for rule in self.rules if rule.id == name), None)

    def by_cause(self, cause: str) -> tuple[Rule, ...]:
        """The rules that share a finding id."""
        return tuple(rule for rule in self.rules if rule.cause == cause)
