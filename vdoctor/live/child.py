"""The edge to the operating system: a child in its own session, its output, its end, its leftovers."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdoctor.live.output import same_file

if TYPE_CHECKING:
    import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: A child that writes faster than that is waited for; what is in the pipe when the child ends is still read.
PIPE_SIZE = 1 << 18
#: A container runtime that does not answer is not waited for longer.
_FAREWELL_SECONDS = 60.0
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


@dataclass(slots=True)
class Stream:
    """One output of the child: read at `fd`, passed on to `target` (1 or 2)."""

    fd: int
    target: int
    terminal: bool


class CannotStart(OSError):
    """The command was not found (status 127) or cannot be executed (126)."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Child:
    """A started command. Where our own output is a terminal the child gets one, too.

    The child leads a session of its own, so that signals reach it only through us and reach all of
    it. On Linux we adopt its orphans (subreaper), and it gets SIGTERM should we be killed.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], farewell: Sequence[str] = ()) -> None:
        """Start `argv`; `farewell` is a command that ends what it started out of our reach. Raises CannotStart."""
        self._farewell, self._env = list(farewell), dict(env)
        become_subreaper()
        self.code: int | None = None
        self.streams, slaves = _open_streams()
        keeper = os.getpid()
        try:
            self._process = subprocess.Popen(
                list(argv),
                env=dict(env),
                stdin=None if not sys.stdin or not sys.stdin.isatty() else subprocess.DEVNULL,
                stdout=slaves[0],
                stderr=slaves[1],
                start_new_session=True,
                preexec_fn=lambda: _before_exec(keeper),
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            self.close_streams()
            raise CannotStart(127, f"{argv[0]}: command not found") from error
        except OSError as error:
            self.close_streams()
            raise CannotStart(126, f"{argv[0]}: cannot be executed: {error.strerror}") from error
        finally:
            for fd in set(slaves):
                os.close(fd)
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The child's wait status as subprocess gives it (negative: signal), None while it lives.

        Its process id stays taken until `collect`: a late signal cannot reach a stranger.
        """
        if self.code is None:
            if not hasattr(os, "waitid"):
                self.code = self._process.poll()
                return self.code
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if info is not None:
                self.code = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        return self.code

    def collect(self) -> None:
        """Take the status off the kernel's hands, and those of all adopted orphans that have ended."""
        self._process.wait()
        self.reap()

    def reap(self) -> None:
        """Collect adopted orphans that have ended; the child itself is left to `collect`."""
        if not hasattr(os, "waitid"):
            return
        with contextlib.suppress(ChildProcessError):
            while True:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if info is None or (info.si_pid == self.pid and self._process.returncode is None):
                    return
                os.waitpid(info.si_pid, 0)

    def send(self, signum: int) -> None:
        """Signal the whole process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)

    def living(self) -> bool:
        """Whether the child or a process that came from it lives."""
        return self.poll() is None or bool(self.descendants())

    def descendants(self) -> list[psutil.Process]:
        """Living processes that came from the child, adopted orphans included."""
        import psutil

        mine = psutil.Process()
        found: list[psutil.Process] = mine.children(recursive=True) if sys.platform == "linux" else self._below()
        return [process for process in found if process.pid != self.pid and _alive(process)]

    def _below(self) -> list[psutil.Process]:
        import psutil

        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def read(self, stream: Stream, room: memoryview) -> int:
        """Put what the child wrote into `room`; the number of bytes, 0 at the end of the stream."""
        try:
            return os.readv(stream.fd, [room])
        except OSError as error:
            # A terminal whose last writer is gone reports EIO instead of an end.
            if error.errno in (errno.EIO, errno.EBADF):
                return 0
            raise

    def close(self, stream: Stream) -> None:
        """Stop reading a stream."""
        with contextlib.suppress(OSError):
            os.close(stream.fd)
        self.streams = [other for other in self.streams if other is not stream]

    def resize(self) -> None:
        """Give the child's terminals the size of ours."""
        for stream in self.streams:
            if stream.terminal:
                _copy_size(stream.target, stream.fd)
        # Its terminal controls no session, so the kernel tells nobody.
        self.send(signal.SIGWINCH)

    def farewell(self) -> None:
        """End what is out of our reach (a container); it may be gone already."""
        say_farewell(self._farewell, self._env)

    def close_streams(self) -> None:
        """Stop reading."""
        for stream in list(self.streams):
            self.close(stream)


def say_farewell(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Run a command that ends something, without a word, for a bounded time."""
    if command:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                list(command),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=_FAREWELL_SECONDS,
                check=False,
            )


def status_of(code: int) -> tuple[int, str | None]:
    """subprocess's return code to (status as a shell shows it, name of the signal)."""
    if code >= 0:
        return code, None
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return 128 - code, name


def _alive(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _open_streams() -> tuple[list[Stream], tuple[int, int]]:
    """Pipes, or terminals where our outputs are terminals; one for both when both are one (a terminal, `2>&1`): what
    the child writes here and there keeps its order.
    """
    if same_file(1, 2):
        stream, slave = _open_stream(1)
        return [stream], (slave, slave)
    (out, first), (err, second) = _open_stream(1), _open_stream(2)
    return [out, err], (first, second)


def _open_stream(target: int) -> tuple[Stream, int]:
    """What is read to be passed on to `target`, and the child's end of it."""
    terminal = _is_terminal(target)
    if terminal:
        reader, writer = _terminal(target)
    else:
        reader, writer = os.pipe()
        _enlarge(reader)
    return Stream(reader, target, terminal), writer


def _enlarge(pipe: int) -> None:
    """A larger pipe: fewer turns between a child that writes much and us. As large as the system allows."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_SIZE)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _terminal(like: int) -> tuple[int, int]:
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    # The bytes must pass unchanged: our own terminal turns newlines into CR LF, the child's must not.
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    _copy_size(like, master)
    return master, slave


def _copy_size(source: int, target: int) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)


def become_subreaper() -> None:
    """Orphans below this process become its children (Linux)."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _before_exec(parent: int) -> None:
    """Between fork and exec: system calls alone, nothing that could take a lock."""
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    die_with_parent()
    if os.getppid() != parent:
        # It ended before we asked to be told.
        os._exit(1)


def die_with_parent(signum: int = signal.SIGTERM) -> None:
    """Get a signal when the parent ends (Linux). One system call: it may run between fork and exec."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)


def close_others(keep: int) -> None:
    """What the parent holds open is not held open by its fork, too; the standard streams and `keep` stay."""
    try:
        fds = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    except OSError:
        fds = list(range(3, 64))
    for fd in fds:
        if fd > 2 and fd != keep:
            with contextlib.suppress(OSError):
                os.close(fd)
