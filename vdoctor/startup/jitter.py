"""What goes wrong while a server serves: the cache is full, the queue grows, speed collapses.

Every threshold is a length of time or a ratio that a passing burst does not reach; what they are measured by stands
beside them.
"""

from __future__ import annotations

from collections import deque

from vdoctor.model import Event, Fact, Sample
from vdoctor.startup.drift import Drift, named
from vdoctor.startup.stats import Counters, Stats, from_line

#: Two hours at one page every ten seconds.
_KEPT = 720


class Jitter:
    """Fed with events and samples; `facts` may be asked at any time."""

    def __init__(self) -> None:
        self._from_log: dict[str, deque[Stats]] = {}
        self._from_page: deque[Stats] = deque(maxlen=_KEPT)
        self._counters = Counters()
        self._drift = Drift()
        self._line = 0

    def restart(self) -> None:
        """The server starts again: what it did before is over."""
        self.__init__()  # type: ignore[misc]

    def feed_event(self, event: Event) -> None:
        """Take the next event."""
        if event.time is None or "Avg prompt throughput" not in event.text:
            return
        found = from_line(event.text, event.time)
        if found is not None:
            engine, stats = found
            self._line = event.line
            self._from_log.setdefault(engine, deque(maxlen=_KEPT)).append(stats)

    def feed(self, sample: Sample, ready: bool) -> None:
        """Take the next sample. `ready`: the server serves."""
        if sample.metrics is not None:
            stats = self._counters.feed(sample.t, sample.metrics)
            if stats is not None:
                self._from_page.append(stats)
        if ready:
            self._drift.feed(sample)

    @property
    def facts(self) -> dict[str, Fact]:
        """What holds so far. Pages of /metrics tell more than log lines and go before them."""
        return self._of_rows() | self._drift.facts

    def _of_rows(self) -> dict[str, Fact]:
        by_page = len(self._from_page) > 1
        rows = [self._from_page] if by_page else [row for row in self._from_log.values() if len(row) > 1]
        if not rows:
            return {}
        # Its library takes a tenth of the time that a ticket takes.
        from vdoctor.startup.series import evaluate

        # Several engines (data parallel) report for themselves; the one in most trouble counts.
        each = [evaluate(tuple(row)) for row in rows]
        worst = max(each, key=lambda one: float(one.get("kv.full_s", 0)))  # type: ignore[arg-type]
        return named(worst, "metrics" if by_page else f"log:{self._line}")
