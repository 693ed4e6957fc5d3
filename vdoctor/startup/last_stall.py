"""The stall that a user ends: whoever is told to stop moves once more, and that is no movement of the start."""

from __future__ import annotations

import math

from vdoctor.model import Motion
from vdoctor.startup.tree import Tree

#: A stall that ended so shortly before the end that the user asked for is the stall that he ended.
_LAST_WORDS = 30.0
#: A process that is gone so soon after the stall did not get over it: it was ended.
_DYING = 5.0


class LastStall:
    """Remembers the last stall until the start goes on. Times on the caller's clock, in seconds."""

    def __init__(self) -> None:
        self.motion: Motion | None = None
        #: when the user asked for the end, and how the start stood then
        self.asked: tuple[float, Motion | None] | None = None
        #: the last line before it began
        self.line = 0
        self._over: float | None = None

    def feed(self, now: Motion | None, t: float, tree: Tree, line: int) -> None:
        """The verdict after a measurement, and the number of the last line."""
        if self.asked is not None:
            # A server that hangs on its way out does so for reasons of its own.
            return
        if now is not None and now.state == "stalled":
            if self.motion is None or self._over is not None:
                self.line = line
            self.motion, self._over = now, None
            return
        if self.motion is None:
            return
        if self._over is None:
            self._over = t
        if t - self._over <= _DYING:
            pid = self.motion.pid
            gone = pid not in tree.pulses if pid is not None else bool(tree.dead)
            self._over = math.inf if gone else self._over

    def ask(self, t: float, now: Motion | None) -> None:
        """The user asked for the end at `t` or before, when the verdict was `now`."""
        self.asked = self.asked or (t, now)

    def forget(self) -> None:
        """The start went a step further."""
        if self.asked is None:
            self.motion = None

    def at_end(self, t: float) -> Motion | None:
        """The stall that an end at `t`, which somebody asked for, put an end to."""
        asked_at = self.asked[0] if self.asked is not None else t
        if self._over is None or asked_at - self._over <= _LAST_WORDS:
            return self.motion
        return None
