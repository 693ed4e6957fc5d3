"""What a search is made of: steps to try, candidates made of steps, outcomes of trials. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from vdoctor.launch.change import apply
from vdoctor.launch.command import print_words
from vdoctor.launch.options import OptionTable
from vdoctor.model import STEPS, Change, Fact, Finding, Fix, FlagValue, Launch, Report, Safety

TrialVerdict = Literal["confirmed", "same failure", "other failure", "timed out"]
Purpose = Literal["fix", "ladder", "drop", "raise", "control"]


@dataclass(frozen=True, slots=True)
class Step:
    """One change that may help. `answers`: the finding that it is meant for, None for a rung of the ladder."""

    id: str
    change: Change
    safety: Safety
    title: Mapping[str, str] = field(default_factory=dict)
    cost: Mapping[str, str] | None = None
    answers: str | None = None

    def atoms(self) -> list[Step]:
        """The step cut into changes of one name each."""
        change = self.change
        parts = [Change(flags={name: value}) for name, value in change.flags.items()]
        parts += [Change(env={name: text}) for name, text in change.env.items()]
        parts += [Change(container={name: setting}) for name, setting in change.container.items()]
        return [replace(self, change=part) for part in parts]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one launch. `came` is the index in STEPS of the furthest step it reached, -1 for none."""

    verdict: TrialVerdict
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    came: int = -1
    seconds: float = 0.0
    #: It got ready and answered, whatever is wrong with it.
    served: bool = False

    @property
    def finding(self) -> str | None:
        """The id of the leading finding."""
        return self.findings[0].id if self.findings else None

    @property
    def step(self) -> str | None:
        """The furthest step."""
        return STEPS[self.came] if self.came >= 0 else None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A launch to try: `steps` applied to the failing one."""

    steps: tuple[Step, ...]
    launch: Launch
    purpose: Purpose

    @property
    def key(self) -> tuple[str, ...]:
        """What tells two trials apart: the command as a whole."""
        return tuple(print_words(self.launch))

    @property
    def fix(self) -> Fix:
        """All steps as one fix."""
        safety: Safety = "lossy" if any(step.safety == "lossy" for step in self.steps) else "safe"
        name = " + ".join(dict.fromkeys(step.id for step in self.steps)) or "unchanged"
        return Fix(name, {}, safety, merged(self.steps))


def furthest(report: Report) -> int:
    """Index in STEPS of the furthest step that a report shows, -1 when it shows none."""
    return max((STEPS.index(span.step) for span in report.timeline if span.step in STEPS), default=-1)


def outcome_of(report: Report, verdict: TrialVerdict, seconds: float, *, served: bool = False) -> Outcome:
    """The outcome that a report on a launch shows."""
    grave = tuple(finding for finding in report.findings if finding.severity != "info")
    return Outcome(verdict, grave, report.facts, furthest(report), seconds, served)


def merged(steps: Iterable[Step]) -> Change:
    """One change with the effect of all, in order: of one name the last setting holds."""
    flags: dict[str, FlagValue] = {}
    env: dict[str, str | None] = {}
    container: dict[str, str | bool] = {}
    for step in steps:
        flags |= step.change.flags
        env |= step.change.env
        container |= step.change.container
    return Change(flags, env, container)


def compose(launch: Launch, steps: Iterable[Step], options: OptionTable, version: str | None) -> Launch | None:
    """The launch with all steps applied in order; None when one has no place in it."""
    changed: Launch | None = launch
    for step in steps:
        changed = apply(changed, step.change, options, version) if changed is not None else None
    return changed


def hypotheses(outcome: Outcome) -> list[Step]:
    """The steps that the findings propose, best first; advice that no code applies is left out."""
    found: dict[tuple[str, str], Step] = {}
    for finding in outcome.findings:
        for fix in finding.fixes:
            if fix.change and fix.safety != "manual":
                step = Step(fix.id, fix.change, fix.safety, fix.title, fix.cost, finding.id)
                found.setdefault((fix.id, repr(fix.change)), step)
    return list(found.values())


def with_value(step: Step, flag: str, value: str) -> Step:
    """The step with another number, in its texts, too."""
    old = str(step.change.flags.get(flag))
    if flag not in step.change.flags or old == value:
        return step
    change = replace(step.change, flags={**step.change.flags, flag: value})
    spelt = re.compile(rf"(?<![\w.]){re.escape(old)}(?![\w.])")

    def told(texts: Mapping[str, str]) -> dict[str, str]:
        return {lang: spelt.sub(value, text) for lang, text in texts.items()}

    return replace(step, change=change, title=told(step.title), cost=told(step.cost) if step.cost else step.cost)
