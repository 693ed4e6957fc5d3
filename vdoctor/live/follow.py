"""Attached to a server that somebody else started: its log files, its processes, its end."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from vdoctor.errors import UserError
from vdoctor.live.history import History
from vdoctor.live.merge import Merger
from vdoctor.live.observer import Observer
from vdoctor.live.output import SELECTOR
from vdoctor.live.painter import Painter
from vdoctor.live.signals import Signals
from vdoctor.live.tail import Tail
from vdoctor.model import Exit

#: Between two looks at the files while nothing comes; and after the end of the process, until its last lines are there.
_LOOK, _LAST_LOOK = 0.2, 0.3
_SLICE = 0.05


class Follower:
    """Follows files to the end of a process, or until the user stops it. `why` is the word for what ended it."""

    def __init__(self, tails: Sequence[Tail], pid: int | None) -> None:
        self._tails = tails
        self._pid = pid
        self._process: psutil.Process | None = None
        if pid is not None:
            # It may end while vdoctor starts.
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process = psutil.Process(pid)
        self._signals = Signals(lambda signum: None)
        self._painter = Painter(os.getpgrp())
        self._started = time.monotonic()
        self._over = False
        self.why: str | None = None

    @property
    def asked(self) -> str | None:
        """The signal by which the user ended it."""
        return self._signals.asked or ("stop" if self._over else None)

    def follow(self, observer: Observer, *, tick: float = 0.1) -> Exit | None:
        """Stay to the end. None: the exit status of a process is known to its parent alone."""
        self._signals.open()
        try:
            if any(tail.missing for tail in self._tails):
                self.say(f"vdoctor: {self._tails[0].path}: is not there yet\n")
            observer.started(self._process.pid if self._process is not None else 0)
            self._loop(observer)
        finally:
            self._painter.work(end=True)
            self._signals.close()
            for tail in self._tails:
                tail.close()
        return None

    def now(self) -> float:
        """Seconds since we began to follow."""
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """Whole lines for standard error."""
        self._painter.say(text.encode("utf-8", "backslashreplace"))
        self._painter.work()

    def show(self, lines: Sequence[str]) -> None:
        """Lines at the bottom of a terminal."""
        self._painter.show("\n".join(lines).encode("utf-8", "replace"))
        self._painter.work()

    def stop(self) -> None:
        """End the following; the server goes on."""
        self._over = True

    def _loop(self, observer: Observer) -> None:
        merger = Merger(len(self._tails))
        # What is written into a file that was not there comes before our eyes.
        history = None if self._missing() else History()
        gone_at: float | None = None
        more = False
        with SELECTOR() as selector:
            selector.register(self._signals.wake, 1)
            while not self._over and self._signals.asked is None:
                data = b"" if more else self._read(merger)
                came = bool(data)
                now = self.now()
                if history is not None and came:
                    data, old = b"", history.feed(data)
                    if old:
                        observer.output(now, old, old=True)
                elif history is not None and not more:
                    data, history = history.close(), None
                if data:
                    observer.output(now, data)
                more = observer.work(_SLICE)
                if history is None and (data := merger.idle(now)):
                    observer.output(now, data)
                if observer.tick(now):
                    self._over = True
                if gone_at is None and self._is_gone():
                    gone_at = now
                    self.why = "process_ended"
                if gone_at is not None and not came and not more and now - gone_at >= _LAST_LOOK:
                    break
                if selector.select(0 if came or more else _LOOK):
                    self._signals.drain()
                if self._signals.resized:
                    self._signals.resized = False
                    self._painter.resized()
        rest = (history.close() if history is not None else b"") + merger.close()
        if rest:
            observer.output(self.now(), rest)

    def _missing(self) -> bool:
        return bool(self._tails) and all(tail.missing for tail in self._tails)

    def _read(self, merger: Merger) -> bytes:
        """What came on all files, whole lines."""
        data = b""
        for number, tail in enumerate(self._tails):
            data += merger.feed(number, tail.read(), self.now())
        return data

    def _is_gone(self) -> bool:
        if self._process is None:
            return self._pid is not None
        try:
            # A zombie has ended; whether its parent has noticed is another matter.
            return not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return True


def command_of(pid: int) -> list[str]:
    """The command line of a process; empty when it overwrote it with a title. Raises UserError when there is no such process."""
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        raise UserError(f"--pid {pid}: no such process", "pgrep -af vllm shows what runs") from None
    except psutil.AccessDenied:
        return []
    return words if len(words) > 1 else []


def outputs_of(pid: int) -> list[Tail]:
    """Followers of the files that its outputs lead to; none for a terminal, a pipe, or where /proc may not be read."""
    found: dict[tuple[int, int], Tail] = {}
    for fd in (1, 2):
        # Through /proc the file is found under whatever name and in whatever container it lies.
        path = Path(f"/proc/{pid}/fd/{fd}")
        try:
            place = path.stat()
            if stat.S_ISREG(place.st_mode) and os.access(path, os.R_OK):
                found.setdefault((place.st_dev, place.st_ino), Tail(path))
        except (OSError, UserError):
            continue
    return list(found.values())
