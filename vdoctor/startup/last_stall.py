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
        #: the last line before it began
        self.line = 0
        self._over: float | None = None

    def feed(self, now: Motion | None, t: float, tree: Tree, line: int) -> None:
        """The verdict after a measurement, and the number of the last line."""
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

    def forget(self) -> None:
        """The start went a step further."""
        self.motion = None

    def at_end(self, t: float) -> Motion | None:
        """The stall that an end at `t`, which somebody asked for, put an end to."""
        if self._over is None or t - self._over <= _LAST_WORDS:
            return self.motion
        return None
