"""The answer: findings with evidence and fixes, trials, the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vdoctor.model.launch import Change
from vdoctor.model.observations import Exit
from vdoctor.model.startup import Facts, Motion, PhaseTime, Span
from vdoctor.model.words import Confidence, Safety, Severity, Verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of the log that proves something."""

    line: int
    process: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy. `command` is the whole corrected command where the launch is known."""

    id: str
    title: Mapping[str, str]
    safety: Safety
    change: Change
    cost: Mapping[str, str] | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosed cause. Texts are keyed by language (`en`, `zh`)."""

    id: str
    rule: str
    title: Mapping[str, str]
    why: Mapping[str, str]
    severity: Severity
    confidence: Confidence
    phase: str | None
    step: str | None
    evidence: tuple[Evidence, ...]
    symptoms: tuple[str, ...]
    fixes: tuple[Fix, ...]
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A rule that could not be decided, the facts that would decide it, and why they are missing where that is known."""

    id: str
    missing: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where the observations came from."""

    kind: Literal["file", "stdin", "session", "live", "check"]
    name: str
    lines: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One relaunch: what was changed, what came of it.

    `step` is the furthest step it reached, `forward` whether that is further than the failure before; `reason` says, by
    language, what the log cannot (a canary that failed or was left out); `tokens_per_second` and `latency` (seconds) where measured.
    """

    fix: str
    change: Change
    command: str
    verdict: Literal["confirmed", "same failure", "other failure", "timed out"]
    seconds: float
    finding: str | None = None
    step: str | None = None
    forward: bool | None = None
    reason: Mapping[str, str] | None = None
    session: str | None = None
    tokens_per_second: float | None = None
    latency: float | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """A launch that was seen to work, beside the one that failed: commands, phases, memory, what was given up.

    `price` holds texts by language; `minimal`: every single change was left out again and was needed.
    """

    trial: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    phases: tuple[PhaseTime, ...]
    memory: Mapping[str, Any]
    price: tuple[Mapping[str, str], ...] = ()
    minimal: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The answer. See the JSON schema `vdoctor.report/1` in docs/report.md."""

    source: Source
    verdict: Verdict
    phase: str | None
    step: str | None
    findings: tuple[Finding, ...]
    not_evaluated: tuple[NotEvaluated, ...]
    timeline: tuple[Span, ...]
    phases: tuple[PhaseTime, ...]
    facts: Facts
    elapsed: float | None = None
    generation: str | None = None
    command: tuple[str, ...] | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    looks_like: str | None = None
    exit: Exit | None = None
    trials: tuple[Trial, ...] = ()
    motion: Motion | None = None
    proof: Proof | None = None
