"""Processes that nobody else looks after: orphans of a container, and what a killed keeper left."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

#: Ended children that are ours to collect are collected at once; what is still there after so long is an orphan.
_PATIENCE = 5.0
_TERM_GRACE, _KILL_GRACE = 1.5, 1.0


class Reaper:
    """For process 1 of a container, which inherits every orphan: collects those that have ended."""

    def __init__(self, keep: int) -> None:
        """`keep`: a child that somebody else waits for."""
        self._keep = keep
        self._due = 0.0
        self._seen: set[int] = set()

    def work(self) -> None:
        """Collect what was ended already the last time."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _PATIENCE
        ended = {child.pid for child in psutil.Process().children() if _ended(child)} - {self._keep}
        for pid in ended & self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = ended - self._seen


def end(pid: int) -> int:
    """End all processes that came from the child `pid` when its keeper was killed; the child's return code."""
    _signal_all(pid, signal.SIGTERM)
    code = _wait(pid, _TERM_GRACE)
    _signal_all(pid, signal.SIGKILL)
    code = _wait(pid, _KILL_GRACE) if code is None else code
    return -signal.SIGKILL if code is None else code


def _signal_all(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)
    for process in _others():
        with contextlib.suppress(psutil.Error):
            process.send_signal(signum)


def _others() -> list[psutil.Process]:
    """Processes below us that are in no session of ours: our own helpers share it, the child's never do."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) != os.getsid(0) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _wait(pid: int, seconds: float) -> int | None:
    """The child's return code once nobody is left, None when the time is up and it lives."""
    code = None
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if code is None:
            with contextlib.suppress(ChildProcessError):
                done, status = os.waitpid(pid, os.WNOHANG)
                code = os.waitstatus_to_exitcode(status) if done else None
        if not _others() and code is not None:
            break
        time.sleep(0.02)
    return code


def _ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
