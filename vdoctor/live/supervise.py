"""The loop around a keeper: take what the child wrote, forward signals, tick, and see to it that all of it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from vdoctor.live.child import CannotStart, Child, become_subreaper, say_farewell, status_of
from vdoctor.live.forking import fork_keeper, start_child
from vdoctor.live.history import History
from vdoctor.live.inlet import Inlet
from vdoctor.live.link import Closed, Kind, Message
from vdoctor.live.merge import Merger
from vdoctor.live.observer import Observer
from vdoctor.live.output import SELECTOR
from vdoctor.live.signals import Signals
from vdoctor.model import Exit

if TYPE_CHECKING:
    from vdoctor.live.strays import Reaper

#: Without output for so long, ticks come seldom.
_CALM, _SELDOM = 3.0, 0.5
#: Examination is done in slices of this length, so that what comes in is taken.
_SLICE = 0.02
#: What comes out of `kubectl logs -f` in the first seconds was written long before.
_HISTORY = 2.0
#: A keeper that was told to end everything has so long.
_END_GRACE = 5.0
#: The interrupt that kills instead of asking.
_LAST_INTERRUPT = 3


class Supervisor:
    """Runs one child to its end: `start`, then `follow`; or `run`, which does both."""

    def __init__(self, *, quiet: bool = False, stop_grace: float = 10.0) -> None:
        """`quiet` swallows the child's output instead of passing it on.

        A child that we stop and that ignores SIGTERM is killed after `stop_grace` seconds; one that
        the user stops is his.
        """
        self._quiet = quiet
        self._stop_grace = stop_grace
        self._stopped_at: float | None = None
        self._signals = Signals(self._send)
        self._pid = 0
        #: signals that came while the child was being made
        self._early: list[int] | None = []
        self._killed = False
        self._gone: Message | None = None
        self._history: History | None = None
        self._farewell: tuple[Sequence[str], Mapping[str, str]] = ((), {})

    def run(self, observer: Observer, argv: Sequence[str], env: Mapping[str, str], *, tick: float = 0.1) -> Exit:
        """Start the child and stay with it. Raises CannotStart; all its processes are gone afterwards."""
        self.start(argv, env)
        end = self.follow(observer, tick=tick)
        assert end is not None
        return end

    def start(self, argv: Sequence[str], env: Mapping[str, str], farewell: Sequence[str] = ()) -> None:
        """Start the child; its output is passed on from now on. `farewell`: a command to be run when it is gone, whoever
        ended it and whatever became of us. Raises CannotStart."""
        self._farewell = farewell, env
        self._start(lambda: start_child(list(argv), dict(env), farewell), 2)

    def start_input(self) -> None:
        """Pass standard input on, in place of a child's output."""
        self._history = History()
        self._start(lambda: Inlet, 1)

    def _start(self, prepare: Callable[[], Callable[[], Child | Inlet]], streams: int) -> None:
        self._signals.open()
        try:
            become_subreaper()
            self._keeper, self._link, self._ring = fork_keeper(prepare(), quiet=self._quiet)
            first = self._first()
        except BaseException:
            self._signals.close()
            raise
        self._started = first.t
        self._inlet = self._history is not None
        self._pid = first.number
        self._merger = Merger(streams)
        early, self._early = self._early or [], None
        for signum in early:
            self._send(signum)

    def _first(self) -> Message:
        """Whether it started. Raises CannotStart."""
        with SELECTOR() as selector:
            selector.register(self._link, 1)
            while True:
                selector.select()
                try:
                    message = next(self._link.receive(1), None)
                except Closed:
                    raise OSError("the process that starts the command ended") from None
                if message is not None and message.kind is Kind.STARTED:
                    return message
                if message is not None:
                    raise CannotStart(message.stream, message.text.decode("utf-8", "replace"))

    def follow(self, observer: Observer, *, tick: float = 0.1) -> Exit | None:
        """Stay with what was started to its end; all its processes are gone afterwards. None: there was no child."""
        self._observer = observer
        try:
            try:
                observer.started(self._pid)
                self._loop(tick)
                t = self.now()
                self._record(self._merger.close(), t)
                self._end_history(t)
            except BaseException:
                # The observer failed: nothing may stay behind.
                self._end_all()
                raise
        finally:
            self._close()
        if self._inlet:
            return None
        code = self._gone.number if self._gone else self._end_orphans()
        self._pid = 0
        return self._exit(t, code)

    def _exit(self, t: float, code: int) -> Exit:
        status, name = status_of(code)
        asked = self._signals.asked
        return Exit(t, status, name, "stop" if self._stopped_at is not None and not asked else asked)

    def _end_orphans(self) -> int:
        """The keeper was killed; the child's return code."""
        from vdoctor.live.strays import end

        code = end(self._pid) if self._pid else 0
        say_farewell(*self._farewell)
        return code

    def stop(self) -> None:
        """End the child (SIGTERM, later SIGKILL); may be called from the observer."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._send(signal.SIGTERM)

    @property
    def pid(self) -> int:
        """The child's, 0 when there is none."""
        return self._pid

    @property
    def asked(self) -> str | None:
        """The signal by which the user ended it."""
        return self._signals.asked

    def now(self) -> float:
        """Seconds since the launch."""
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """Whole lines for standard error, between those of the child."""
        self._tell(Message(Kind.SAY, text=text.encode("utf-8", "backslashreplace")))

    def show(self, lines: Sequence[str]) -> None:
        """Lines below the child's output on a terminal, instead of those before."""
        self._tell(Message(Kind.SHOW, text="\n".join(lines).encode("utf-8", "replace")))

    def _tell(self, message: Message) -> None:
        # A keeper that waits for our reader draws nothing: no use in piling up.
        if message.kind is not Kind.SHOW or not self._link.waiting:
            with contextlib.suppress(Closed):
                self._link.send(message)

    def _send(self, signum: int) -> None:
        """Signal the whole process group of the child; its id is not reused before it is gone for us."""
        if self._early is not None:
            self._early.append(signum)
        elif self._pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signum)
        elif signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self._tell(Message(Kind.END))

    def _loop(self, tick: float) -> None:
        reaper = self._reaper()
        interrupts, more = 0, False
        with SELECTOR() as selector:
            selector.register(self._signals.wake, 1)
            selector.register(self._link, 1)
            due = last = time.monotonic()
            # What came together with the first message.
            if not self._receive():
                return
            while self._gone is None:
                ready = selector.select(0 if more else max(0.0, due - time.monotonic()))
                now = time.monotonic()
                for key, _ in ready:
                    if key.fileobj is self._link:
                        last = now
                        if not self._receive():
                            return
                    else:
                        self._signals.drain()
                if self._signals.resized:
                    self._signals.resized = False
                    self._tell(Message(Kind.RESIZE))
                if self._signals.interrupts != interrupts:
                    interrupts = self._signals.interrupts
                    self._interrupted(interrupts)
                more = self._observer.work(_SLICE)
                if now >= due:
                    due = now + (tick if now - last < _CALM else max(tick, _SELDOM))
                    self._tick(reaper)

    def _reaper(self) -> Reaper | None:
        """Process 1 of a container gets every orphan."""
        if os.getpid() != 1:
            return None
        from vdoctor.live.strays import Reaper

        return Reaper(self._keeper)

    def _tick(self, reaper: Reaper | None) -> None:
        now = self.now()
        self._record(self._merger.idle(now), now)
        if now >= _HISTORY:
            self._end_history(now)
        if self._link.waiting:
            with contextlib.suppress(Closed):
                self._link.flush()
        if reaper is not None:
            reaper.work()
        if self._observer.tick(now):
            self.stop()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at > self._stop_grace:
            self._send(signal.SIGKILL)

    def _interrupted(self, times: int) -> None:
        if times >= _LAST_INTERRUPT and not self._killed:
            self._killed = True
            self._send(signal.SIGKILL)
        self._observer.interrupted(times)

    def _receive(self) -> bool:
        """Take what the keeper has; False when it ended without a word."""
        taken = 0
        pieces: list[bytes] = []
        stream, t = 0, 0.0
        alive = True
        try:
            for message in self._link.receive():
                if message.kind is not Kind.OUTPUT or message.stream != stream:
                    self._merge(stream, pieces, t)
                if message.kind is Kind.OUTPUT:
                    pieces.append(self._ring.take(message.number))
                    stream, t = message.stream, message.t
                    taken += message.number
                elif message.kind is Kind.LOST:
                    self._observer.lost(message.number)
                elif message.kind is Kind.LEFT:
                    self._observer.left(message.number)
                elif message.kind is Kind.UNWRITTEN:
                    self._observer.unwritten(message.stream, os.strerror(message.number))
                elif message.kind is Kind.DIED:
                    self._observer.died(self._exit(max(0.0, message.t - self._started), message.number))
                elif message.kind is Kind.GONE:
                    self._gone = message
        except Closed:
            alive = self._gone is not None
        self._merge(stream, pieces, t)
        if taken and self._gone is None:
            with contextlib.suppress(Closed):
                self._link.send(Message(Kind.FREED, number=taken))
        return alive

    def _merge(self, stream: int, pieces: list[bytes], t: float) -> None:
        if pieces:
            at = max(0.0, t - self._started)
            self._record(self._merger.feed(stream, b"".join(pieces), at), at)
            pieces.clear()

    def _record(self, data: bytes, t: float) -> None:
        if self._history is not None and t < _HISTORY:
            if old := self._history.feed(data):
                self._observer.output(t, old, old=True)
        elif data:
            self._end_history(t)
            self._observer.output(t, data)

    def _end_history(self, t: float) -> None:
        if self._history is not None:
            if rest := self._history.close():
                self._observer.output(t, rest)
            self._history = None

    def abandon(self) -> None:
        """Instead of `follow`: end what was started."""
        try:
            self._end_all()
        finally:
            self._close()

    def _close(self) -> None:
        self._signals.close()
        self._link.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._keeper, 0)

    def _end_all(self) -> None:
        """End everything without an observer."""
        end = time.monotonic() + _END_GRACE
        self._tell(Message(Kind.END))
        with contextlib.suppress(Closed):
            while self._gone is None and time.monotonic() < end:
                for message in self._link.receive():
                    if message.kind is Kind.GONE:
                        return
                    if message.kind is Kind.OUTPUT:
                        self._link.send(Message(Kind.FREED, number=message.number))
                time.sleep(0.01)
