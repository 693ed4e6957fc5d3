"""A recorded session in brief: memory over time in few points, and the lines of the log around the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vdoctor.model import Report, Sample
from vdoctor.sieve.around import Near

_GIB = 1 << 30
#: Points of a curve: more than a screen has columns to tell apart.
_POINTS = 600
_MAX_GPUS = 16
_MAX_WANTED = 40


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: seconds since the launch and GiB; `total` is what there is, where known."""

    name: str
    points: tuple[tuple[float, float], ...]
    total: float | None = None
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """What a page shows besides the report.

    `offset`: seconds from the launch to the zero of the report's timeline. `around` maps the line of an evidence to
    the numbered lines around it.
    """

    series: tuple[Series, ...] = ()
    offset: float = 0.0
    around: Mapping[int, Near] = field(default_factory=dict)


class Curve:
    """Collects one curve in bounded memory: neighbours are merged, the higher one stays."""

    def __init__(self) -> None:
        self.points: list[tuple[float, float]] = []
        self._every = 1
        self._pending: list[tuple[float, float]] = []

    def add(self, t: float, value: float) -> None:
        """Take the next value."""
        self._pending.append((t, value))
        if len(self._pending) < self._every:
            return
        self.points.append(max(self._pending, key=lambda point: point[1]))
        self._pending.clear()
        if len(self.points) >= 2 * _POINTS:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [max(pair, key=lambda point: point[1]) for pair in pairs]
            self._every *= 2

    def done(self) -> tuple[tuple[float, float], ...]:
        """All points in order of time, the last value included."""
        return (*self.points, *self._pending[-1:])


class Curves:
    """Builds the curves of a session from its samples."""

    def __init__(self) -> None:
        self._gpus: dict[int, Curve] = {}
        self._about: dict[int, tuple[str, float | None]] = {}
        self._host = Curve()

    def feed(self, sample: Sample) -> None:
        """Take the next sample."""
        for gpu in sample.gpus:
            if gpu.memory_used is None or (gpu.index not in self._gpus and len(self._gpus) >= _MAX_GPUS):
                continue
            self._gpus.setdefault(gpu.index, Curve()).add(sample.t, gpu.memory_used / _GIB)
            total = None if gpu.memory_total is None else gpu.memory_total / _GIB
            self._about[gpu.index] = (f"GPU {gpu.index} {gpu.name or ''}".rstrip(), total)
        if sample.host is not None:
            self._host.add(sample.t, sample.host.rss / _GIB)

    def series(self) -> tuple[Series, ...]:
        """The curves of the GPUs, then that of the process tree; one point is no curve."""
        found = [
            Series(self._about[at][0], curve.done(), self._about[at][1], True)
            for at, curve in sorted(self._gpus.items())
        ]
        found.append(Series("host", self._host.done()))
        return tuple(one for one in found if len(one.points) > 1)


def wanted_lines(report: Report) -> frozenset[int]:
    """The lines of the evidence, best findings first, no more than a page can show."""
    lines = [evidence.line for finding in report.findings for evidence in finding.evidence if evidence.line > 0]
    return frozenset(lines[:_MAX_WANTED])
