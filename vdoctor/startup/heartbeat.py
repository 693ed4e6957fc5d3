"""Lines that come while nothing moves."""

from __future__ import annotations

import re
from collections import Counter

from vdoctor.model import Event

#: Notices of waiting and lines that a prober causes, vLLM 0.5.5 to 0.33.0.
_HEARTBEATS = re.compile(
    r"Waiting for \d+ local, \d+ remote core engine proc"
    r"|No available (?:shared memory broadcast )?block found in \d+ second"
    r"|[Ss]till waiting|Waiting for (?:creating|other|all|the) |waiting for clients|Waiting for output from "
    r"|Retrying in [\d.]+ ?s|TCP client failed to connect"
    r'|"(?:GET|HEAD) /(?:health|metrics|ping|version|load|v1/models|docs|favicon\.ico)?/?(?:\?\S*)? HTTP/'
)
_STATS = re.compile(
    r"Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s, Avg generation throughput: (?P<generation>[\d.]+) tokens/s, "
    r"Running: (?P<running>\d+) reqs?, (?:Swapped: \d+ reqs?, )?(?:Waiting|Pending): (?P<waiting>\d+) reqs?"
)
_NUMBERS = re.compile(r"\d+")
#: What is said for the third time, numbers aside, is no news; so many different lines are remembered.
_OFTEN, _KEPT = 3, 1000


class Heartbeats:
    """Tells news from repetition. Also keeps what the periodic statistics say about the work at hand."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        #: requests that run or wait by the last statistics line; None before the first one
        self.requests: int | None = None
        #: the broadcast notice was the last word on a wait between processes
        self.broadcast_wait = False

    def new_step(self) -> None:
        """Another step: its lines are news again."""
        self._seen.clear()

    def is_news(self, event: Event) -> bool:
        """Whether the line says that something moved."""
        if event.bar is not None:
            return True
        text = event.text
        if not text:
            return False
        if "Avg prompt throughput" in text and (found := _STATS.search(text)):
            self.requests = int(found["running"]) + int(found["waiting"])
            return float(found["prompt"]) + float(found["generation"]) > 0
        if "block found in" in text:
            self.broadcast_wait = True
        if _HEARTBEATS.search(text):
            return False
        shape = _NUMBERS.sub("#", text[:200])
        if len(self._seen) >= _KEPT:
            self._seen.clear()
        self._seen[shape] += 1
        if self._seen[shape] >= _OFTEN:
            return False
        self.broadcast_wait = False
        return True
