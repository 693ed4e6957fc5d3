"""Signals of vdoctor itself: passed on to the child, counted, and turned into a wake-up of the loop."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType

from vdoctor.live.keeper import PASSED, STOPPING


class Signals:
    """Hears signals from `open` to `close`; `wake` is readable when one came."""

    def __init__(self, send: Callable[[int], None]) -> None:
        """`send` is called for every signal that the child should get, inside the handler."""
        self._send = send
        #: The name of the last signal by which the user asked for an end.
        self.asked: str | None = None
        #: How often Ctrl-C was pressed.
        self.interrupts = 0
        self.resized = False

    def open(self) -> None:
        """Install the handlers. Whoever made us ignore a signal (nohup, a background job) means the child, too."""
        self.wake, self._writer = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self._writer, False)
        self._previous_wake = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        heard = [one for one in (*STOPPING, *PASSED) if signal.getsignal(one) is not signal.SIG_IGN]
        self._previous = {signum: signal.signal(signum, self._forward) for signum in heard}
        for signum in (signal.SIGWINCH, signal.SIGCHLD):
            self._previous[signum] = signal.signal(signum, self._note)

    def close(self) -> None:
        """Restore what was before."""
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_wake)
        os.close(self.wake)
        os.close(self._writer)

    def drain(self) -> None:
        """The loop is awake."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)

    def _forward(self, signum: int, frame: FrameType | None) -> None:
        if signum in STOPPING:
            self.asked = signal.Signals(signum).name
        self.interrupts += signum == signal.SIGINT
        self._send(signum)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.resized = self.resized or signum == signal.SIGWINCH
