"""What observations mean: spans, phases, facts, motion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vdoctor.model.words import FactValue, StallKind, phase_of


@dataclass(frozen=True, slots=True)
class Span:
    """A step of one process. Times in seconds from the first line; `end` None: not left."""

    process: str
    step: str
    start: float | None
    end: float | None
    first_line: int
    last_line: int

    @property
    def phase(self) -> str:
        return phase_of(self.step)


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """A phase of the whole server, from the first process that entered it to the next phase."""

    phase: str
    start: float | None
    end: float | None


@dataclass(frozen=True, slots=True)
class Fact:
    """A named value and where it was read (`log:118`, `argv`, `nvml`, `derived`)."""

    value: FactValue
    source: str


Facts = Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Motion:
    """Whether the start moves, at one moment: the verdict on "hung or just slow?".

    `process` (and `pid`) is the one that everything waits for; `waiting` names those that wait for it; `since` is the
    number of seconds in which nothing moved there; `percent`, `rate` (bytes per second) and `eta` (seconds) where known;
    `doing` says what was seen to move (`reading`, `compiling`, ...).
    """

    t: float
    state: Literal["progressing", "slow", "stalled"]
    step: str | None
    since: float
    kind: StallKind | None = None
    process: str | None = None
    pid: int | None = None
    waiting: tuple[str, ...] = ()
    doing: str | None = None
    percent: float | None = None
    rate: float | None = None
    eta: float | None = None
