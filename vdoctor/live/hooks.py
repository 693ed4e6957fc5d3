"""What whoever shows a watched server is told of; nothing happens where nobody wants to know."""

from __future__ import annotations

from vdoctor.model import Event, Report


class Hooks:
    """Called by a Watcher, always between two observations."""

    def on_started(self, pid: int) -> None:
        """The child runs (0: there is none)."""

    def on_events(self, events: list[Event]) -> None:
        """New events were examined."""

    def on_died(self, report: Report) -> None:
        """The child has ended by itself, others of its processes have not."""

    def on_tick(self, t: float) -> None:
        """About ten times a second, seldom when nothing happens."""

    def on_unseen(self) -> None:
        """A stall could not be looked at with all means."""

    def interrupted(self, times: int) -> None:
        """The user pressed Ctrl-C."""

    def unwritten(self, stream: int, reason: str) -> None:
        """What the child writes to 1 or 2 can no longer be passed on."""

    def left(self, number: int) -> None:
        """The child ended before its other processes."""

    def on_record_failed(self, error: OSError) -> None:
        """The recording stopped."""
