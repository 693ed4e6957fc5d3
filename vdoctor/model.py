"""The vocabulary that all rooms share. Frozen data, no behaviour beyond itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PHASES = ("launch", "weight_load", "kv_init", "graph_capture", "runtime")

#: Steps in the order in which a start-up passes them. Names are fixed; new ones may be added.
STEPS = (
    "launch.config",
    "launch.engine_start",
    "launch.distributed_init",
    "weight_load.download",
    "weight_load.init",
    "weight_load.read",
    "weight_load.process",
    "kv_init.compile",
    "kv_init.profile",
    "kv_init.allocate",
    "graph_capture.warmup",
    "graph_capture.capture",
    "graph_capture.sampler",
    "runtime.startup",
    "runtime.ready",
    "runtime.serving",
)

Severity = Literal["fatal", "stall", "degraded", "info"]
Confidence = Literal["confirmed", "certain", "likely", "possible"]
Verdict = Literal["failed", "stalled", "degraded", "healthy", "incomplete", "not_vllm"]
Safety = Literal["safe", "lossy", "manual"]
EventKind = Literal["record", "bar", "traceback", "text"]

SEVERITIES: tuple[Severity, ...] = ("fatal", "stall", "degraded", "info")
CONFIDENCES: tuple[Confidence, ...] = ("confirmed", "certain", "likely", "possible")

FactValue = str | int | float | bool | tuple[Any, ...]
#: The value of a changed option: text or number to set, True for a bare flag, None to remove it.
FlagValue = str | bool | None


def phase_of(step: str) -> str:
    """`kv_init.profile` -> `kv_init`."""
    return step.partition(".")[0]


# ----------------------------------------------------------------------------- observations


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output, terminator removed.

    `no` counts newline characters from 1, as an editor does; the parts of a line that carriage
    returns rewrite (progress bars) share one number. `arrived` is in seconds since the launch.
    """

    no: int
    text: str
    arrived: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A tqdm progress bar at one moment. `rate` is in items per second, `elapsed` in seconds."""

    desc: str
    done: int
    total: int
    elapsed: float | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class Event:
    """One line, understood: who wrote it, when, what it says.

    `text` is the message without prefixes, control sequences and log header; `shown` is the whole
    line as a person may see it (control sequences removed). `time` is in seconds on the log's own
    clock, of which only differences mean anything.
    """

    line: int
    kind: EventKind
    text: str
    shown: str
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    level: str | None = None
    source: str | None = None
    time: float | None = None
    bar: Bar | None = None
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Traceback:
    """A Python traceback as a block. `frames` are function names, outermost first; `line` is the exception's."""

    number: int
    process: str | None
    first_line: int
    last_line: int
    line: int
    frames: tuple[str, ...]
    exception: str
    message: str


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment; memory in bytes, utilisation in percent; None = not supported."""

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: int | None = None


@dataclass(frozen=True, slots=True)
class HostSample:
    """The process tree under watch; `rss` in bytes, `cpu_seconds` user + system, `processes` alive."""

    processes: int
    rss: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured `t` seconds after the launch."""

    t: float
    gpus: tuple[GpuSample, ...] = ()
    host: HostSample | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How the child ended: `status` as a shell shows it (128 + N after signal N).

    `asked` names the signal that the user sent through vdoctor, when there was one.
    """

    t: float
    status: int
    signal: str | None = None
    asked: str | None = None


Observation = Line | Sample | Exit


# ----------------------------------------------------------------------------- start-up


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


# ----------------------------------------------------------------------------- launch and changes


@dataclass(frozen=True, slots=True)
class Change:
    """An edit of a launch as data.

    Flags are keyed by their long name; a value of None removes the option, True sets a bare flag.
    """

    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    container: Mapping[str, str | bool] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.flags or self.env or self.container)


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line taken apart: ENV... WRAPPER... PROGRAM ARGS..., printable without loss.

    `env` holds the assignments in front; `container` the tokens of a container runtime up to and
    including the image; `program` the tokens up to the server's own arguments; `args` the rest.
    """

    env: tuple[tuple[str, str], ...]
    container: tuple[str, ...]
    program: tuple[str, ...]
    args: tuple[str, ...]


# ----------------------------------------------------------------------------- report


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
    """A rule that could not be decided, and the facts that would decide it."""

    id: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the observations came from."""

    kind: Literal["file", "stdin", "session", "live", "check"]
    name: str
    lines: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One relaunch: what was changed, what came of it."""

    fix: str
    change: Change
    command: str
    verdict: Literal["confirmed", "same failure", "other failure", "timed out"]
    seconds: float
    finding: str | None = None


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
