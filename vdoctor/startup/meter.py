"""One GPU's memory over time, as far as the ledger asks for it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from vdoctor.model import GpuProcess, GpuSample

#: More changes than a start-up makes; of more, every second one is dropped.
_MOST_POINTS = 40_000
#: A value holds for so long, in seconds: unchanged ones come once a second.
_HOLDS = 1.5


class Meter:
    """Memory in use at the moments when it changed. Bytes; times on the clock of the samples."""

    def __init__(self) -> None:
        self.first: GpuSample | None = None
        self.last: GpuSample | None = None
        self.peak: int | None = None
        self.total: int | None = None
        self.reserved: int | None = None
        self.holders: tuple[float, tuple[GpuProcess, ...]] | None = None
        self.listing: tuple[GpuProcess, ...] | None = None
        self._step = 0.0
        self._times: list[float] = []
        self._used: list[int] = []

    def feed(self, t: float, gpu: GpuSample, keep: bool) -> None:
        """Take the next row; `keep`: its moment may be asked for later."""
        if gpu.processes is not None:
            self.listing = gpu.processes
            if self.holders is None:
                self.holders = (t, gpu.processes)
        if gpu.memory_used is None:
            self.first = self.first or gpu
            if self.last is None or gpu.lost:
                self.last = gpu
            return
        if self.first is None or self.first.memory_used is None:
            self.first = gpu
        self.last = gpu
        self.total = gpu.memory_total or self.total
        if gpu.memory_free is not None and self.total is not None:
            self.reserved = max(0, self.total - gpu.memory_used - gpu.memory_free)
        self.peak = max(self.peak or 0, gpu.memory_used)
        if keep:
            self._keep(t, gpu.memory_used)

    def _keep(self, t: float, used: int) -> None:
        gap = t - self._times[-1] if self._times else 0.0
        if gap < 0:
            return
        self._step = min(self._step or gap, gap or self._step)
        # Of a stretch without change the two ends are enough.
        if len(self._used) > 1 and self._used[-1] == self._used[-2] == used:
            self._times[-1] = t
            return
        self._times.append(t)
        self._used.append(used)
        if len(self._times) > _MOST_POINTS:
            del self._times[1:-1:2], self._used[1:-1:2]

    def _holds(self) -> float:
        """How old a value may be: a recording may have been made every few seconds."""
        return max(_HOLDS, 2 * self._step)

    def last_time(self) -> float | None:
        """The moment of the last measurement that was kept."""
        return self._times[-1] if self._times else None

    def begin(self) -> float | None:
        """The moment of the first measurement."""
        return self._times[0] if self._times else None

    def at(self, t: float) -> int | None:
        """In use at a moment: the last value before it; None where nothing was measured around that time."""
        place = bisect_right(self._times, t) - 1
        if place < 0:
            return None
        same = place + 1 < len(self._times) and self._used[place + 1] == self._used[place]
        return self._used[place] if same or t <= self._times[place] + self._holds() else None

    def end(self, t: float) -> int | None:
        """In use when a step had ended at `t`: the first value after it where that is the very next measurement."""
        place = bisect_left(self._times, t)
        if place < len(self._times) and self._times[place] <= t + 1.25 * self._step:
            return self._used[place]
        return self.at(t)

    def most(self, start: float, end: float) -> int | None:
        """The highest value within a stretch of time."""
        values = self._used[bisect_left(self._times, start) : bisect_right(self._times, end)]
        return max(values, default=None)

    def peak_time(self) -> float | None:
        """When the most was in use."""
        if not self._used:
            return None
        return self._times[max(range(len(self._used)), key=self._used.__getitem__)]
