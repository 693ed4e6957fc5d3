"""Real processes and terminals for tests: start them, wait for what they say, see what they leave behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
VDOCTOR = (sys.executable, "-m", "vdoctor")
#: The same, for stalls that a test need not wait 10 s for.
IMPATIENT = (sys.executable, str(ROOT / "tests" / "impatient.py"))
#: A deadline for things that take a fraction of a second: reached only when something hangs.
DEADLINE = 60.0
_MARK = "VDOCTOR_TEST_MARK"


class Mark:
    """An environment variable that all processes of one test inherit, however they are started."""

    def __init__(self) -> None:
        self.value = uuid.uuid4().hex

    @property
    def env(self) -> dict[str, str]:
        """The environment for the processes of the test: plain, English, without the caller's terminal."""
        dropped = (
            *("NO_COLOR", "COLUMNS", "LINES", "LC_ALL", "LC_MESSAGES", "PYTHONIOENCODING", "VDOCTOR_DEBUG"),
            *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"),
        )
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        return kept | {_MARK: self.value, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}

    def alive(self) -> list[psutil.Process]:
        """Processes of the test that are still there."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(_MARK) == self.value and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def left(self, seconds: float = 5.0) -> list[str]:
        """What is left behind; a process that was just killed gets a moment to go."""
        until(lambda: not self.alive(), seconds)
        return [" ".join(process.cmdline()) for process in self.alive()]

    def kill(self) -> None:
        """End them all."""
        for process in self.alive():
            with contextlib.suppress(psutil.Error):
                process.kill()


@contextlib.contextmanager
def marked() -> Iterator[Mark]:
    """A mark whose processes do not outlive the test, whatever happens."""
    mark = Mark()
    try:
        yield mark
    finally:
        mark.kill()


def until(condition: Callable[[], object], seconds: float = DEADLINE) -> bool:
    """Wait for a condition; False when the deadline came first."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def default_signals() -> None:
    """For `preexec_fn`: a suite that runs in the background ignores SIGINT, its processes must not."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    cwd: Path | None = None,
    preexec: Callable[[], None] = default_signals,
    stdout: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    """A command run to its end with pipes for all streams, or `stdout` where it says too much for one."""
    return subprocess.run(
        list(argv),
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        timeout=DEADLINE,
        preexec_fn=preexec,
    )


def start(argv: Sequence[str], *, env: Mapping[str, str], **options: object) -> subprocess.Popen[bytes]:
    """A command in the background with pipes for its outputs."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(list(argv), env=dict(env), preexec_fn=default_signals, **(streams | options))  # type: ignore[call-overload, no-any-return]


def hold(path: Path) -> str:
    """A shell command that waits until somebody creates the file."""
    return f"while [ ! -e '{path}' ]; do sleep 0.05; done"


def read_until(fd: int, wanted: bytes) -> bytes:
    """What comes out of `fd` up to and with `wanted` and whatever came with it."""
    data = b""
    end = time.monotonic() + DEADLINE
    while wanted not in data:
        ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{wanted!r} did not come: {data!r}"
        chunk = _read(fd)
        assert chunk, f"the output ended before {wanted!r}: {data!r}"
        data += chunk
    return data


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        # A terminal whose last user is gone.
        return b""


class Terminal:
    """A command on a terminal of its own. `streams` names the descriptors that are the terminal."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        rows: int = 24,
        columns: int = 100,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self.fd, slave = pty.openpty()
        self.resize(rows, columns)
        self._data = b""
        self.process = subprocess.Popen(
            list(argv),
            env=dict(env) | {"TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave if stderr is None else stderr,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(slave)

    def resize(self, rows: int, columns: int) -> None:
        """As when somebody drags the corner of the window."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.fd, keys)

    def wait_for(self, wanted: bytes) -> bytes:
        """All output so far, when `wanted` is in it."""
        if wanted not in self._data:
            self._data += read_until(self.fd, wanted)
        return self._data

    def finish(self) -> tuple[int, bytes]:
        """Exit status and all output."""
        end = time.monotonic() + DEADLINE
        while select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0]:
            chunk = _read(self.fd)
            if not chunk:
                break
            self._data += chunk
        status = self.process.wait(DEADLINE)
        os.close(self.fd)
        return status, self._data


def _own_terminal() -> None:
    default_signals()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
