"""Our own words on standard error between the child's: whole lines, and on a terminal a few lines below its output."""

from __future__ import annotations

import os
import time

from vdoctor.live.output import same_file, write_all

#: Lines below the output wait so long after it, so that they do not flicker between two lines.
_CALM = 0.25
#: A line of ours waits for the end of the child's line, but not longer than this.
_PATIENCE = 3.0


class Painter:
    """The one writer of everything that is not the child's, while the child runs."""

    def __init__(self, group: int) -> None:
        """`group`: vdoctor's process group. While another one has the terminal (Ctrl-Z, `&`) nothing is drawn there."""
        self._group = group
        self._terminal = os.isatty(2)
        #: Outputs that end where our lines stand; what a redirected one carries does not touch them.
        self._beside = {fd for fd in (1, 2) if fd == 2 or same_file(1, 2)}
        if self._terminal:
            from vdoctor.live.canvas import Canvas

            self._canvas = Canvas(self._write, self._width)
        self._lines: list[str] = []
        self._said = bytearray()
        self._said_at = 0.0
        self._written = 0.0
        self._open = False

    def show(self, text: bytes) -> None:
        """These lines stand below the output from now on; none when empty. Only a terminal shows them."""
        self._lines = text.decode("utf-8", "replace").split("\n") if text else []
        if not self._lines and self._terminal:
            self._clear()

    def say(self, text: bytes) -> None:
        """Write lines of ours as soon as no line of the child's is open."""
        if not self._said:
            self._said_at = time.monotonic()
        self._said += text

    def before(self, target: int) -> None:
        """The child's output is about to be passed on to 1 or 2: it takes the place of our lines."""
        if self._terminal and target in self._beside:
            self._clear()

    def after(self, target: int, data: memoryview) -> None:
        """It was passed on: know where the cursor stands."""
        if target not in self._beside:
            return
        tail = bytes(data[-8192:])
        self._open = not tail.endswith((b"\n", b"\r\n"))
        if self._terminal:
            self._written = time.monotonic()
            self._canvas.follow(tail)

    def resized(self) -> None:
        """The terminal has a new size: what stands there was cut or wrapped anew."""
        if self._terminal:
            self._clear()

    def wait(self) -> float | None:
        """Seconds until there is something to draw; None: nothing."""
        now = time.monotonic()
        times = []
        if self._said:
            times.append(0.0 if not self._open else self._said_at + _PATIENCE - now)
        if self._lines and self._terminal and self._written + _CALM > now:
            times.append(self._written + _CALM - now)
        return max(0.0, min(times)) if times else None

    def work(self, *, end: bool = False) -> None:
        """Draw what is due; all of it at the `end`."""
        now = time.monotonic()
        if self._said and (not self._open or end or now - self._said_at >= _PATIENCE):
            self.before(2)
            text = b"\n" * self._open + bytes(self._said)
            self._said.clear()
            write_all(2, memoryview(text))
            self.after(2, memoryview(text))
            # These are ours: nobody interrupts them.
            self._written = 0.0
        if end:
            self._lines = []
            self.before(2)
        elif self._lines and self._terminal and now - self._written >= _CALM:
            if self._in_front():
                self._canvas.draw(self._lines)
            else:
                self._canvas.forget()

    def _clear(self) -> None:
        """Take our lines away, unless somebody else writes there now."""
        if self._canvas.drawn and not self._in_front():
            self._canvas.forget()
        self._canvas.clear()

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(2) in (0, self._group)
        except OSError:
            # Not the terminal of our session: nobody else's job runs there.
            return True

    def _write(self, text: str) -> None:
        if "\r" in text:
            # Lines that were made for a wider terminal end at its edge instead of going on in the next row.
            text = f"\x1b[?7l{text}\x1b[?7h"
        write_all(2, memoryview(text.encode("utf-8", "replace")))

    def _width(self) -> int:
        try:
            return os.get_terminal_size(2).columns or 100
        except OSError:
            return 100
