"""The live panel of `watch`: a few lines that say where the start is, what moves, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from vdoctor.model import PHASES, Bar, PhaseTime, Sample
from vdoctor.report.status import memory

_GIB = 1 << 30
_TICKS = "▁▂▃▄▅▆▇█"
#: Points of a curve that is drawn: wide enough for a start, narrow enough for 80 columns.
_CURVE_WIDTH = 24
_BAR_WIDTH = 12
_MOST_GPUS = 4


class Curve:
    """Memory of one GPU over the whole run, in a bounded number of points: the highest of each stretch of time."""

    def __init__(self, points: int = 4 * _CURVE_WIDTH) -> None:
        """`points`: kept at most; beyond that, neighbours are put together and each point stands for twice the time."""
        self._most = points
        self._step = 0.25
        self._points: list[float] = []

    def add(self, t: float, value: float) -> None:
        """`value` (0 to 1) at `t` seconds; times do not run backwards."""
        at = max(int(t / self._step), len(self._points) - 1)
        while at >= self._most:
            pairs = [self._points[i : i + 2] for i in range(0, len(self._points), 2)]
            self._points = [max(pair) for pair in pairs]
            self._step *= 2
            at = max(int(t / self._step), len(self._points) - 1)
        last = self._points[-1] if self._points else value
        # A stretch without a sample keeps the level of the one before.
        self._points += [last] * (at - len(self._points))
        if at == len(self._points):
            self._points.append(value)
        else:
            self._points[at] = max(self._points[at], value)

    def draw(self, width: int = _CURVE_WIDTH) -> str:
        """At most `width` ticks; the whole run, oldest first."""
        count = len(self._points)
        if not count or width < 1:
            return ""
        cells = min(width, count)
        bounds = [count * i // cells for i in range(cells + 1)]
        highest = [max(self._points[a:b]) for a, b in pairwise(bounds)]
        return "".join(_TICKS[min(int(max(value, 0.0) * len(_TICKS)), len(_TICKS) - 1)] for value in highest)


@dataclass(frozen=True, slots=True)
class View:
    """What the panel shows at one moment. `elapsed` in seconds; `verdict` is a sentence about the motion."""

    elapsed: float
    step: str | None
    phases: Sequence[PhaseTime]
    sample: Sample | None
    bar: Bar | None
    curves: Mapping[int, Curve]
    verdict: str | None = None
    ready: bool = False


def panel(view: View, *, width: int) -> list[str]:
    """The lines, each cut to `width` columns and without control sequences; the first one alone tells the state."""
    lines = [_headline(view), _phases(view), *_gpus(view)]
    if not _gpus(view) and (rest := memory(view.sample)):
        lines.append(" " + "  ".join(rest))
    room = max(width - 1, 10)
    return [line if cell_len(line) <= room else set_cell_size(line, room) for line in lines if line]


def _headline(view: View) -> str:
    said = view.verdict or _progress(view.bar)
    state = view.step or "launch"
    return f"vdoctor {view.elapsed:5.0f} s  {state}" + (f"  {said}" if said else "")


def _progress(bar: Bar | None) -> str:
    if bar is None or not bar.total or bar.done >= bar.total:
        return ""
    return f"{100 * bar.done // bar.total} % ({bar.done}/{bar.total})"


def _phases(view: View) -> str:
    """`launch 18 s · weight_load ━━━━╸─── 12 s · kv_init · graph_capture · runtime`"""
    seen = {phase.phase: phase for phase in view.phases}
    if not seen:
        # A program that says nothing of vLLM has none.
        return ""
    parts = []
    for name in PHASES:
        phase = seen.get(name)
        if phase is None or phase.start is None:
            parts.append(f"{name} –")
        elif phase.end is not None:
            parts.append(f"{name} {max(0.0, phase.end - phase.start):.0f} s")
        elif name == "runtime" and view.ready:
            parts.append(f"{name} ✓")
        else:
            parts.append(f"{name} {_bar(view.bar)}".rstrip())
    return " " + " · ".join(parts)


def _bar(bar: Bar | None) -> str:
    if bar is None or not bar.total:
        return "…"
    full = round(_BAR_WIDTH * min(bar.done / bar.total, 1.0))
    return "━" * full + "─" * (_BAR_WIDTH - full)


def _gpus(view: View) -> list[str]:
    gpus = [g for g in (view.sample.gpus if view.sample else ()) if g.memory_used is not None and g.memory_total]
    lines = []
    for gpu in gpus[:_MOST_GPUS]:
        used, total = gpu.memory_used or 0, gpu.memory_total or 1
        curve = view.curves[gpu.index].draw() if gpu.index in view.curves else ""
        busy = f"  {gpu.utilization:3d} %" if gpu.utilization is not None else ""
        lines.append(f" GPU{gpu.index} {curve:<{_CURVE_WIDTH}} {used / _GIB:5.1f}/{total / _GIB:.1f} GiB{busy}")
    if len(gpus) > _MOST_GPUS:
        rest = [(g.memory_used or 0) / _GIB for g in gpus[_MOST_GPUS:]]
        lines.append(f" +{len(rest)} GPUs {min(rest):.1f}–{max(rest):.1f} GiB")
    return lines
