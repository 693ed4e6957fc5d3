"""Who died, when and by what: waits on the processes of a tree, in a thread that sleeps until one of them ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import selectors
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from vdoctor.live.child import status_of
from vdoctor.model import Death

#: PIDFD_GET_INFO and PIDFD_INFO_EXIT of linux/pidfd.h: from Linux 6.15 on the status of a process that was reaped.
_GET_INFO, _INFO_EXIT = 0xC040FF0B, 1 << 3
_INFO = struct.Struct("<QQ11Ii")
#: A compile storm has hundreds of processes, each of which would hold a descriptor.
_MAX_WATCHED = 400


class DeathWatch:
    """`watch` processes, `take` those that ended. Empty where the system has no pidfd (Linux before 5.3, macOS).

    What ends after the root is no news: it is ended by whoever cleans up.
    """

    def __init__(self, root: int, now: Callable[[], float]) -> None:
        """`root`: the child itself, whose own end is told elsewhere; `now`: seconds since the launch."""
        self._now = now
        self._root = root
        self._queue: queue.SimpleQueue[Death] = queue.SimpleQueue()
        self._names: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake_reader, self._wake_writer = os.pipe()
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._loop, name="vdoctor-deaths", daemon=True)
        self._stopped = False
        #: the root has ended
        self.over = False
        self._thread.start()
        self.watch(root, "")

    def watch(self, pid: int, name: str) -> None:
        """Wait for this process, too. A process that renames itself keeps its latest name."""
        with self._lock:
            known = pid in self._names
            if known or self._stopped or len(self._names) >= _MAX_WATCHED or not hasattr(os, "pidfd_open"):
                if known:
                    self._names[pid] = name
                return
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                return
            self._names[pid] = name
            self._selector.register(fd, selectors.EVENT_READ, pid)
        os.write(self._wake_writer, b".")

    def take(self) -> list[Death]:
        """Deaths since the last call, in the order in which they happened."""
        ready = []
        while not self._queue.empty():
            ready.append(self._queue.get())
        return ready

    def stop(self) -> None:
        """Stop waiting; a second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        os.write(self._wake_writer, b"q")
        self._thread.join(timeout=1.0)

    def _loop(self) -> None:
        try:
            while not self._stopped:
                # An interval as well: a selector may not notice what another thread registers.
                ready = [key for key, _ in self._selector.select(1.0)]
                for key in sorted(ready, key=lambda key: key.data == self._root):
                    if key.data is None:
                        os.read(self._wake_reader, 4096)
                    else:
                        self._ended(key.fd, key.data)
        finally:
            with self._lock:
                for key in list(self._selector.get_map().values()):
                    os.close(key.fd)
                self._selector.close()
                os.close(self._wake_writer)

    def _ended(self, fd: int, pid: int) -> None:
        t = self._now()
        code = exit_code(fd, pid)
        with self._lock:
            self._selector.unregister(fd)
            name = self._names.pop(pid, "")
        os.close(fd)
        self.over = self.over or pid == self._root
        if self.over:
            return
        status, signal = status_of(code) if code is not None else (None, None)
        self._queue.put(Death(round(t, 4), pid, name, status, signal))


def exit_code(pidfd: int, pid: int) -> int | None:
    """How the process ended, as subprocess gives it (negative: signal); None where the kernel does not tell any more."""
    wait_status = _of_zombie(pid)
    if wait_status is None:
        wait_status = _of_pidfd(pidfd)
    return None if wait_status is None else os.waitstatus_to_exitcode(wait_status)


def _of_zombie(pid: int) -> int | None:
    """The last field of /proc/PID/stat, while its parent has not collected it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = (Path("/proc") / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] == "Z":
            return int(fields[-1])
    return None


def _of_pidfd(pidfd: int) -> int | None:
    buffer = bytearray(_INFO.pack(_INFO_EXIT, 0, *([0] * 11), 0))
    with contextlib.suppress(OSError):
        fcntl.ioctl(pidfd, _GET_INFO, buffer)
        values = _INFO.unpack(buffer)
        if values[0] & _INFO_EXIT:
            return int(values[-1])
    return None
