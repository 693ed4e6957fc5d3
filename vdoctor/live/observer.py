"""What those who bring output expect of whoever watches it."""

from __future__ import annotations

from typing import Protocol

from vdoctor.model import Exit


class Observer(Protocol):
    """Who wants to know. All times in seconds since the launch."""

    def started(self, pid: int) -> None:
        """The child runs; time 0."""

    def output(self, t: float, data: bytes, *, old: bool = False) -> None:
        """Bytes for the record, whole lines; `old` ones were written before we looked."""

    def lost(self, length: int) -> None:
        """So many bytes were passed on, but are in no record: we were too slow."""

    def died(self, end: Exit) -> None:
        """The child has ended, other processes of it have not: the end of all of it is still to come."""

    def unwritten(self, stream: int, reason: str) -> None:
        """What the child writes to 1 or 2 can no longer be passed on."""

    def left(self, number: int) -> None:
        """The child has ended and left so many processes, which are ended now."""

    def interrupted(self, times: int) -> None:
        """The user pressed Ctrl-C; after the second time he should know what a third does."""

    def work(self, seconds: float) -> bool:
        """Do what waits, for about so long; True when there is more."""

    def tick(self, t: float) -> bool:
        """Called up to ten times a second; True asks to stop the child."""
