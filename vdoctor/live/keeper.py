"""The keeper: a small process between vdoctor and its child.

It starts the child, passes its output on, and leaves no process of it behind: neither when the child ends nor when
vdoctor does, however it ends. It reads nothing of what it passes on, so that no work of vdoctor's slows the child down.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import time
from collections.abc import Callable
from types import FrameType

from vdoctor.live.child import CannotStart, Child, Stream, become_subreaper, die_with_parent
from vdoctor.live.inlet import Inlet
from vdoctor.live.link import Closed, Kind, Link, Message
from vdoctor.live.output import SELECTOR, write_all
from vdoctor.live.painter import Painter
from vdoctor.live.ring import Ring

#: After the end of the child its other processes have so long to end by themselves, then after SIGTERM.
_GRACE, _TERM_GRACE = 0.5, 1.5
#: SIGKILL is repeated until nobody is left, so long (what forks is met by the next); longer where nobody waits for us.
_KILL_GRACE, _KILL_PATIENCE, _ALONE_PATIENCE = 0.2, 2.0, 60.0
#: Read at once: what a pipe holds.
_CHUNK = 1 << 18
#: What one pipe holds when its writer is gone is passed on however slow our reader is; a chatterer is not waited for.
_LATE_READS = 16
#: A record that nobody takes for so long (a disk that hangs) is given up, and the child goes on.
_PATIENCE = 2.0
#: Signals by which users end a server; and those that only mean something to the child.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PASSED = (signal.SIGUSR1, signal.SIGUSR2)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Sent by the kernel to the keeper when vdoctor ends; nobody else sends it.
_ORPHANED = getattr(signal, "SIGRTMIN", signal.SIGUSR2) + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2


class _Orphan(BaseException):
    """Vdoctor is gone."""


class Keeper:
    """The process between. `run` is its life."""

    def __init__(self, link: Link, ring: Ring, quiet: bool) -> None:
        self._link = link
        self._ring = ring
        self._quiet = quiet
        self._painter = Painter(os.getpgid(os.getppid()))
        self._full_since: float | None = None
        self._lost = 0
        self._end = False
        self._unwritten: set[int] = set()
        #: vdoctor is gone: nobody is told anything any more.
        self._alone = False
        #: The signal of that may raise _Orphan now. Elsewhere the exception could leave a child behind.
        self._armed = False
        self._scratch = memoryview(bytearray(_CHUNK))

    def run(self, start: Callable[[], Child | Inlet], parent: int) -> int:
        """Start the child and stay to the end of its last process."""
        wake = self._signals(parent)
        if os.getppid() != parent:
            return 1
        try:
            self._child = start()
        except CannotStart as error:
            with contextlib.suppress(Closed):
                self._link.send(Message(Kind.REFUSED, error.status, text=str(error).encode("utf-8", "replace")))
            return 0
        try:
            try:  # the signal may raise to the end of `finally`, and the outer `except` takes that
                self._armed = True
                if os.getppid() != parent:
                    raise _Orphan
                self._serve(wake)
            finally:
                self._armed = False
        # A fault of ours included: nobody else would end the child.
        except BaseException as error:
            self._alone = True
            self._child.close_streams()
            self._clean_up()
            if not isinstance(error, _Orphan | Closed):
                raise
            return 1
        return 0

    def _serve(self, wake: int) -> None:
        """The life of the child. Raises Closed and _Orphan when vdoctor is gone."""
        self._link.send(Message(Kind.STARTED, t=time.monotonic(), number=self._child.pid))
        self._follow(wake)
        self._clean_up()
        self._painter.work(end=True)
        self._tell_lost()
        self._link.send(Message(Kind.GONE, t=time.monotonic(), number=self._child.code or 0))
        with contextlib.suppress(Closed):
            self._hear_out()
        self._painter.work(end=True)
        self._child.collect()

    def _hear_out(self) -> None:
        """What vdoctor still has to say between the lines; it closes the link when it is done. Raises Closed."""
        with SELECTOR() as selector:
            selector.register(self._link, selectors.EVENT_READ)
            while True:
                self._link.flush()
                if selector.select(0.01 if self._link.waiting else None):
                    self._listen()

    # ------------------------------------------------------------------ while it runs

    def _follow(self, wake: int) -> None:
        with SELECTOR() as selector:
            selector.register(wake, selectors.EVENT_READ)
            selector.register(self._link, selectors.EVENT_READ)
            reading = False
            while True:
                if reading != (self._room() > 0):
                    reading = not reading
                    for stream in self._child.streams:
                        self._register(selector, stream, reading)
                if self._link.waiting:
                    self._link.flush()
                for key, _ in selector.select(self._wait()):
                    if key.data is not None:
                        self._pump(key.data, selector)
                    elif key.fd == wake:
                        with contextlib.suppress(BlockingIOError):
                            os.read(wake, 4096)
                        # Orphans that we adopted and that have ended.
                        self._child.reap()
                    else:
                        self._listen()
                self._painter.work()
                if self._end or self._child.poll() is not None:
                    return

    def _wait(self) -> float | None:
        """Seconds until something is due without anything coming in."""
        wait = self._painter.wait()
        if self._link.waiting:
            return min(wait or 0.005, 0.005)
        if self._full_since is not None:
            return max(0.0, self._full_since + _PATIENCE - time.monotonic())
        return wait

    def _room(self) -> int:
        """Bytes that may be read now; 0: vdoctor is behind, and the child has to wait a little."""
        if len(self._ring.room(1)) and self._link.waiting < 1 << 20:
            self._full_since = None
            return _CHUNK
        now = time.monotonic()
        if self._full_since is None:
            self._full_since = now
        return _CHUNK if now - self._full_since > _PATIENCE else 0

    def _register(self, selector: selectors.BaseSelector, stream: Stream, reading: bool) -> None:
        with contextlib.suppress(KeyError):
            if reading:
                selector.register(stream.fd, selectors.EVENT_READ, stream)
            else:
                selector.unregister(stream.fd)

    def _pump(self, stream: Stream, selector: selectors.BaseSelector) -> bool:
        """Pass one piece on; False at the end of the stream."""
        room = self._ring.room(_CHUNK) if self._link.waiting < 1 << 20 else memoryview(b"")
        kept = bool(len(room))
        if not kept:
            if self._room() == 0:
                # The ring filled up since the selector looked.
                return True
            room = self._scratch
        length = self._child.read(stream, room)
        t = time.monotonic()
        if length and kept:
            self._ring.wrote(length)
        heard = True
        if length and not self._quiet:
            self._painter.before(stream.target)
            heard = write_all(stream.target, room[:length], lambda error: self._cannot_write(stream.target, error))
            self._painter.after(stream.target, room[:length])
        if length and not kept:
            self._lost += length
        elif length:
            self._tell_lost()
            self._link.send(Message(Kind.OUTPUT, stream.target, t, length))
        if not length or not heard:
            # Where our reader is gone the child meets a closed pipe, as it would without us.
            selector.unregister(stream.fd)
            self._child.close(stream)
            return False
        return True

    def _cannot_write(self, target: int, error: OSError) -> None:
        """A full disk is told once; a closed output is nobody's surprise."""
        if error.errno in _FULL and target not in self._unwritten:
            self._unwritten.add(target)
            self._link.send(Message(Kind.UNWRITTEN, target, number=error.errno))

    def _tell_lost(self) -> None:
        if self._lost:
            self._link.send(Message(Kind.LOST, number=min(self._lost, (1 << 31) - 1)))
            self._lost = 0

    def _listen(self) -> None:
        for message in self._link.receive():
            if message.kind is Kind.FREED:
                self._ring.freed(message.number)
            elif message.kind is Kind.SAY:
                self._painter.say(message.text)
            elif message.kind is Kind.SHOW:
                self._painter.show(message.text)
            elif message.kind is Kind.RESIZE:
                self._painter.resized()
                self._child.resize()
            elif message.kind is Kind.END:
                self._end = True

    # ------------------------------------------------------------------ the end

    def _clean_up(self) -> None:
        """Read what is left, and leave no process behind."""
        if not self._end and not self._alone:
            self._drain(_GRACE)
        if self._child.living():
            left = self._child.descendants()
            if not self._alone and self._child.code is not None:
                # What there is to say need not wait for them.
                self._link.send(Message(Kind.DIED, t=time.monotonic(), number=self._child.code))
                self._link.send(Message(Kind.LEFT, number=len(left)))
            self._child.send(signal.SIGTERM)
            for process in left:
                with contextlib.suppress(Exception):
                    process.terminate()
            self._drain(_TERM_GRACE)
            end = time.monotonic() + (_ALONE_PATIENCE if self._alone else _KILL_PATIENCE)
            while self._child.living() and time.monotonic() < end:
                self._child.send(signal.SIGKILL)
                for process in self._child.descendants():
                    with contextlib.suppress(Exception):
                        process.kill()
                self._drain(_KILL_GRACE)
        self._child.farewell()
        self._drain(_KILL_GRACE)

    def _drain(self, seconds: float) -> None:
        """Pump until all streams ended and nobody is left, or the time is up."""
        end = time.monotonic() + seconds
        late = 0
        with SELECTOR() as selector:
            if not self._alone:
                selector.register(self._link, selectors.EVENT_READ)
            for stream in self._child.streams:
                selector.register(stream.fd, selectors.EVENT_READ, stream)
            while True:
                ready = [key for key, _ in selector.select(0.02)] if selector.get_map() else []
                read = False
                for key in ready:
                    if key.data is None:
                        self._listen()
                    else:
                        read = True
                        self._pump(key.data, selector)
                if not self._alone:
                    self._painter.work()
                self._child.reap()
                if not read and not self._child.living():
                    return
                if not selector.get_map():
                    time.sleep(0.01)
                if time.monotonic() >= end:
                    late += 1
                    if not read or late > _LATE_READS:
                        return

    def _signals(self, parent: int) -> int:
        """Be deaf to what vdoctor forwards, wake up when a process ends, and notice when vdoctor does."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def nothing(signum: int, frame: FrameType | None) -> None:
            """A handler, not SIG_IGN: the child would inherit that."""

        def orphaned(signum: int, frame: FrameType | None) -> None:
            if self._armed and os.getppid() != parent:
                self._armed = False
                raise _Orphan

        for signum in (*STOPPING, *PASSED):
            # What was ignored when we were started (nohup, a background job) stays so for the child.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                signal.signal(signum, nothing)
        for signum in (signal.SIGCHLD, signal.SIGWINCH):
            signal.signal(signum, nothing)
        # In the background of a terminal with `stty tostop` it writes all the same.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.signal(_ORPHANED, orphaned)
        become_subreaper()
        die_with_parent(_ORPHANED)
        return reader
