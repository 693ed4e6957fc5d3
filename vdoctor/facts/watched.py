"""All facts that only a watched server gives, behind one door: its end, its readiness, its jitter, its last dump."""

from __future__ import annotations

import re

from vdoctor.facts.death import DeathFacts
from vdoctor.intake.stacks import FaultReader
from vdoctor.model import Event, Exit, Fact, Motion, Sample
from vdoctor.startup.jitter import Jitter
from vdoctor.startup.readiness import Readiness

#: `torch.OutOfMemoryError: ...`, in whatever process.
_ERROR = re.compile(r"[\w.]{0,80}(?:Error|Exception): \S")
#: Characters of an error line that a fact keeps.
_LONGEST = 200


class WatchedFacts:
    """Fed by the examination with events and samples in order."""

    def __init__(self) -> None:
        self._deaths = DeathFacts()
        self._jitter = Jitter()
        self._readiness = Readiness()
        self.faults = FaultReader()
        self._error_at: float | None = None
        self._last_error: Event | None = None
        self._said_ready = False
        #: seconds since the launch at which the line came whose events are fed; None: a saved log
        self.arrived: float | None = None

    def restart(self) -> None:
        """The server starts again in the same log."""
        self._deaths.restart()
        self._jitter.restart()
        self._readiness.restart()
        self.faults = FaultReader()
        self._said_ready = False
        self._last_error = None

    def feed_event(self, event: Event, *, ready: bool) -> None:
        """Take the next event, of the line that came at `arrived`. `ready`: the log says that the server serves."""
        if event.block is not None or event.level in ("ERROR", "CRITICAL"):
            self._error_at = self.arrived
        if event.level in ("ERROR", "CRITICAL") or _ERROR.match(event.text):
            self._last_error = event
        self._deaths.feed_event(event)
        self._jitter.feed_event(event)
        self.faults.feed(event)
        self._said_ready = ready
        if ready:
            self._readiness.say(self.arrived)

    def glance(self, event: Event) -> None:
        """A line of statistics of a server that serves, of which nothing else is read."""
        self._jitter.feed_event(event)

    def feed(self, sample: Sample, *, orderly: bool) -> None:
        """`orderly`: the server shuts down on purpose."""
        self._deaths.feed(sample, orderly, self._error_at)
        self._readiness.feed(sample)
        self._jitter.feed(sample, self._said_ready or self.answers)

    @property
    def answers(self) -> bool:
        """/health has answered 200."""
        return self._readiness.answers

    def facts(self, end: Exit | None, silent: bool, motion: Motion | None) -> dict[str, Fact]:
        """`silent`: the log shows no sign of an end; `motion`: how it stands, or stood."""
        facts = self._jitter.facts | self._readiness.facts
        faults = self.faults
        if faults.error is not None:
            source = f"log:{faults.line}"
            facts["fault.error"] = Fact(faults.error, source)
            frames = faults.stacks[0].frames if faults.stacks else ()
            if frames:
                facts["fault.frame"] = Fact(frames[-1], source)
        if silent and end is not None and end.asked is None and self._last_error is not None:
            error = self._last_error
            facts["exit.last_error"] = Fact(error.text[:_LONGEST], f"log:{error.line}")
        return facts | self._deaths.facts(end, silent, faults.error, motion)
