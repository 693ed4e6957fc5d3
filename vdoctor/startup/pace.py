"""How far and how fast: percent, bytes a second, seconds left."""

from __future__ import annotations

from collections import deque

from vdoctor.model import Bar, HostSample

_WINDOW = 15.0
#: So much that comes to a whole machine is more than chatter, in bytes.
_CHATTER = 64 << 10


class Meter:
    """A growing number of bytes; its rate over the last seconds. What falls (a finished file) starts anew."""

    def __init__(self, least: int = 1) -> None:
        """Growth of less than `least` in all since it moved last is noise."""
        self._least = least
        self._window: deque[tuple[float, int]] = deque()
        self._total = 0
        self._last: int | None = None
        #: last time that it grew; None: never measured
        self.moved_at: float | None = None
        self._told = 0

    def feed(self, t: float, value: int | None) -> None:
        """The value now; None: not measured."""
        if value is None:
            return
        if self._last is None:
            self.moved_at = t
        else:
            self._total += max(0, value - self._last)
            if self._total - self._told >= self._least or value < self._last:
                self._told, self.moved_at = self._total, t
        self._last = value
        self._window.append((t, self._total))
        while len(self._window) > 2 and t - self._window[1][0] >= _WINDOW:
            self._window.popleft()

    @property
    def rate(self) -> float:
        """Bytes a second; 0 when unknown."""
        if len(self._window) < 2:
            return 0.0
        (begin, first), (end, last) = self._window[0], self._window[-1]
        return (last - first) / (end - begin) if end > begin else 0.0


class Network:
    """What arrives: at the server's own connections or, where these are not known, at the whole machine."""

    def __init__(self) -> None:
        self._own, self._all = Meter(), Meter(_CHATTER)

    def feed(self, t: float, host: HostSample) -> None:
        """Take a measurement."""
        self._own.feed(t, host.tcp_received)
        self._all.feed(t, host.net_received)

    @property
    def is_own(self) -> bool:
        """Other traffic of the machine is told apart."""
        return self._own.moved_at is not None

    @property
    def moved_at(self) -> float | None:
        """Last time that bytes came; None: never measured."""
        return self._own.moved_at if self.is_own else self._all.moved_at

    @property
    def rate(self) -> float:
        """Bytes a second; 0 when unknown."""
        return self._own.rate if self.is_own else self._all.rate


class Progressed:
    """The progress bar of the step: percent and seconds left."""

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._first: tuple[float, int] | None = None
        self._at = 0.0

    def restart(self) -> None:
        """Another step."""
        self._bar = self._first = None

    def feed(self, t: float, bar: Bar) -> bool:
        """The bar at time `t`; returns whether it says something new."""
        old = self._bar
        if old is not None and (bar.desc, bar.total) == (old.desc, old.total) and bar.done == old.done:
            return False
        if old is None or bar.desc != old.desc or bar.total != old.total or bar.done < old.done:
            self._first = (t, bar.done)
        self._bar, self._at = bar, t
        return True

    @property
    def percent(self) -> float | None:
        """Of the bar; None without one."""
        bar = self._bar
        return None if bar is None or bar.total <= 0 else min(100.0, 100.0 * bar.done / bar.total)

    def left(self, t: float) -> float | None:
        """Seconds until the bar is full, at its speed so far; None when that is unknown or it is late already."""
        bar, first = self._bar, self._first
        if bar is None or first is None or bar.total <= 0 or bar.done <= first[1] or bar.done >= bar.total:
            return None
        each = (self._at - first[0]) / (bar.done - first[1])
        left = each * (bar.total - bar.done) - (t - self._at)
        return left if left > 0 else None
