"""What one process did lately: its use of the processor, the bytes that it moved, its state."""

from __future__ import annotations

from collections import deque

from vdoctor.model import ProcessSample

#: Use of the processor is averaged over so many seconds; the system counts in hundredths of a second.
WINDOW, _SHORTEST = 5.0, 1.5
#: Below this share of a core a process waits. Measured: 0.000 for main process and engine while a worker loads or is
#: stopped; 0.01 to 0.04 for a worker whose storage is silent, by its background threads, on two cores under a load of 9.
BUSY = 0.06
#: From this share on a process computes or spins.
SPINS = 0.5
#: A process that wants the processor at every look for so long computes or spins, however little of it it gets: on
#: a machine with fewer cores than ranks none of them comes to half a core. In seconds, that is five looks.
_WANTS = 5.0
#: Less than this is noise: a page of the interpreter that is touched again, a wake-up.
_BYTES, _MEMORY = 64 << 10, 1 << 20


class Pulse:
    """One process. Times are those of the caller's clock, in seconds."""

    def __init__(self, t: float, sample: ProcessSample) -> None:
        self.sample = sample
        self.role = sample.role
        #: last time on the processor; last time that bytes or memory moved; since when it is in its state
        self.busy_at = self.moved_at = self.state_since = t
        #: share of a core; bytes a second, from the storage and as memory grows
        self.share: float | None = None
        self.read_rate = self.growth_rate = 0.0
        self._window: deque[tuple[float, ProcessSample]] = deque([(t, sample)])
        self._io, self._memory, self._chars = _moved(sample), sample.rss, sample.read_chars or 0

    @property
    def pid(self) -> int:
        return self.sample.pid

    @property
    def state(self) -> str:
        return self.sample.state or "?"

    @property
    def is_helper(self) -> bool:
        """A process that never carries the start."""
        return self.role == "resource_tracker"

    @property
    def is_compiler(self) -> bool:
        return self.role == "compiler"

    @property
    def is_worker(self) -> bool:
        return self.role is not None and self.role.startswith(("Worker", "RayWorker", "VllmWorker"))

    @property
    def is_engine(self) -> bool:
        return self.role is not None and self.role.startswith(("EngineCore", "DPEngineCore"))

    @property
    def spins(self) -> bool:
        """It computes or spins: half a core and more, or all that others leave it."""
        return (self.share or 0.0) >= SPINS or self._wants

    @property
    def _wants(self) -> bool:
        """At every look of the last seconds it was running or waited for a core."""
        return self.state == "R" and bool(self.share) and self._window[-1][0] - self.state_since >= _WANTS

    def feed(self, t: float, sample: ProcessSample) -> None:
        """The next measurement of the same process."""
        if sample.state != self.sample.state:
            self.state_since = t
        self.sample = sample
        self.role = sample.role or self.role
        window = self._window
        window.append((t, sample))
        while len(window) > 2 and t - window[1][0] >= WINDOW:
            window.popleft()
        begin, first = window[0]
        span = t - begin
        if span >= _SHORTEST:
            self.share = max(0.0, sample.cpu_seconds - first.cpu_seconds) / span
            self.read_rate = max(0, (sample.read_bytes or 0) - (first.read_bytes or 0)) / span
            self.growth_rate = max(0, sample.rss - first.rss) / span
            if self.share >= BUSY or self._wants:
                self.busy_at = t
        self._notice(t, sample)

    def _notice(self, t: float, sample: ProcessSample) -> None:
        moved, chars = _moved(sample), sample.read_chars or 0
        if moved - self._io >= _BYTES or sample.rss - self._memory >= _MEMORY or chars - self._chars >= _MEMORY:
            self._io, self._memory, self._chars = moved, sample.rss, chars
            self.moved_at = t
        # What was given back may be taken again.
        self._memory = min(self._memory, sample.rss)


def _moved(sample: ProcessSample) -> int:
    return (sample.read_bytes or 0) + (sample.write_bytes or 0)
