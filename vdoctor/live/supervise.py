"""The loop around a child: pass on output, forward signals, tick, and clean up at the end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Protocol

from vdoctor.live.child import Child, Stream, reap, status_of
from vdoctor.live.merge import Merger
from vdoctor.model import Exit

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: After the end of the child its other processes have so long to end by themselves, then after SIGTERM.
_GRACE, _TERM_GRACE, _KILL_GRACE = 0.5, 1.5, 0.2
#: A pipe holds 1 MiB at most, and we read 64 KiB at a time.
_LATE_READS = 16


class Observer(Protocol):
    """Who wants to know. All times in seconds since the launch."""

    def started(self, pid: int) -> None:
        """The child runs; time 0."""

    def output(self, t: float, data: bytes) -> None:
        """Bytes for the record, whole lines."""

    def before_write(self, target: int) -> None:
        """Output is about to be passed on to 1 or 2."""

    def after_write(self, target: int, data: bytes) -> None:
        """Output was passed on."""

    def tick(self, t: float) -> bool:
        """Called about ten times a second; True asks to stop the child."""


class Supervisor:
    """Runs one child to its end."""

    def __init__(
        self,
        observer: Observer,
        *,
        quiet: bool = False,
        stop_grace: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`quiet` swallows the child's output instead of passing it on.

        A child that we stop and that ignores SIGTERM is killed after `stop_grace` seconds; one that
        the user stops is his.
        """
        self._observer = observer
        self._quiet = quiet
        self._stop_grace = stop_grace
        self._clock = clock
        self._asked: str | None = None
        self._stopped_at: float | None = None
        self._resized = False

    def run(self, argv: Sequence[str], env: Mapping[str, str], *, tick: float = 0.1) -> Exit:
        """Start the child and stay with it. Raises CannotStart; all its processes are gone afterwards."""
        with self._signals() as wake:
            child = Child(argv, env)
            self._child = child
            self._started = self._clock()
            if self._asked is not None:
                # The signal came while the child was being made.
                child.send(signal.Signals[self._asked])
            try:
                self._observer.started(child.pid)
                self._merger = Merger(len(child.streams))
                code = self._follow(child, wake, tick)
                self._clean_up(child)
            except BaseException:
                # The observer failed: nobody reads any more, and nothing may stay behind.
                child.close_streams()
                self._clean_up(child)
                raise
            child.close_streams()
            t = self.now()
            self._record(self._merger.close(), t)
        status, name = status_of(code)
        return Exit(t, status, name, "stop" if self._stopped_at is not None and not self._asked else self._asked)

    def stop(self) -> None:
        """End the child (SIGTERM); may be called from the observer."""
        if self._stopped_at is None:
            self._stopped_at = self._clock()
            self._child.send(signal.SIGTERM)

    @property
    def asked(self) -> bool:
        """The user wants an end."""
        return self._asked is not None

    def now(self) -> float:
        """Seconds since the launch."""
        return self._clock() - self._started

    def _follow(self, child: Child, wake: int, tick: float) -> int:
        with selectors.DefaultSelector() as selector:
            selector.register(wake, selectors.EVENT_READ)
            for stream in child.streams:
                selector.register(stream.fd, selectors.EVENT_READ, stream)
            due = self._clock() + tick
            while True:
                ready = selector.select(max(0.0, due - self._clock()))
                for key, _ in ready:
                    if key.data is None:
                        with contextlib.suppress(BlockingIOError):
                            os.read(wake, 4096)
                    elif not self._pump(child, key.data):
                        selector.unregister(key.fd)
                        child.close(key.data)
                if self._resized:
                    self._resized = False
                    child.resize()
                if self._clock() >= due:
                    due = self._clock() + tick
                    self._record(self._merger.idle(self.now()), self.now())
                    if self._observer.tick(self.now()):
                        self.stop()
                    if self._stopped_at is not None and self._clock() - self._stopped_at > self._stop_grace:
                        child.send(signal.SIGKILL)
                code = child.poll()
                if code is not None:
                    return code

    def _pump(self, child: Child, stream: Stream) -> bool:
        """Pass one chunk on; False at the end of the stream."""
        data = child.read(stream)
        if not data:
            return False
        if not self._quiet:
            self._observer.before_write(stream.target)
            if not _write_all(stream.target, data):
                # Our reader is gone: let the child meet a closed pipe as it would without us.
                return False
            self._observer.after_write(stream.target, data)
        self._record(self._merger.feed(stream.target, data, self.now()), self.now())
        return True

    def _record(self, data: bytes, t: float) -> None:
        if data:
            self._observer.output(t, data)

    def _clean_up(self, child: Child) -> None:
        """Read what is left, and leave no process behind."""
        self._drain(child, _GRACE)
        if child.living():
            child.send(signal.SIGTERM)
            for process in child.descendants():
                with contextlib.suppress(Exception):
                    process.terminate()
            self._drain(child, _TERM_GRACE)
            child.send(signal.SIGKILL)
            for process in child.descendants():
                with contextlib.suppress(Exception):
                    process.kill()
        self._drain(child, _KILL_GRACE)
        reap()

    def _drain(self, child: Child, seconds: float) -> None:
        """Pump until all streams ended and nobody is left, or the time is up."""
        end = self._clock() + seconds
        late = 0
        with selectors.DefaultSelector() as selector:
            for stream in child.streams:
                selector.register(stream.fd, selectors.EVENT_READ, stream)
            while True:
                ready = selector.select(0.02) if selector.get_map() else []
                for key, _ in ready:
                    if not self._pump(child, key.data):
                        selector.unregister(key.fd)
                        child.close(key.data)
                reap()
                if not ready and not child.living():
                    return
                if not ready and not selector.get_map():
                    time.sleep(0.01)
                if self._clock() >= end:
                    # What a pipe held by then is passed on however slow our reader is; a chatterer is not waited for.
                    late += 1
                    if not ready or late > _LATE_READS:
                        return

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Forward signals to the child's group while it runs; wakes the loop through a pipe."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        previous_wake = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def forward(signum: int, frame: FrameType | None) -> None:
            self._asked = signal.Signals(signum).name
            child = getattr(self, "_child", None)
            if child is not None:
                child.send(signum)

        def resized(signum: int, frame: FrameType | None) -> None:
            self._resized = True

        # Whoever made us ignore a signal (nohup, a background job) means the child, too.
        heard = [signum for signum in FORWARDED if signal.getsignal(signum) is not signal.SIG_IGN]
        previous = {signum: signal.signal(signum, forward) for signum in heard}
        previous[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, resized)
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        try:
            yield reader
        finally:
            for signum, handler in previous.items():
                signal.signal(signum, handler)
            signal.set_wakeup_fd(previous_wake)
            os.close(reader)
            os.close(writer)


def _write_all(fd: int, data: bytes) -> bool:
    """False when the reader is gone."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            time.sleep(0.005)
        except BrokenPipeError:
            return False
        except OSError:
            # A full disk, a closed descriptor: the output is lost, the child and the record go on.
            return True
    return True
