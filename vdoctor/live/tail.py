"""One file that grows, is renamed, truncated, or is not there yet."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vdoctor.errors import UserError

#: The beginning of a file by which it is known again: one that was emptied and filled anew between two looks differs.
_HEAD = 64


class Tail:
    """`read` gives what was added, from the beginning of the file on."""

    def __init__(self, path: Path) -> None:
        """Raises UserError when it is there and no file that can be read."""
        self.path = path
        self._fd: int | None = None
        self._at = 0
        self._head = b""
        self._open_line = False
        self.missing = False
        self._check()
        self._open()

    def read(self, limit: int = 1 << 18) -> bytes:
        """The next bytes; empty when there are none now."""
        if self._fd is None and not self._open():
            return b""
        start = b""
        if self._was_emptied():
            self._at, self._head = 0, b""
            start = self._ended_line()
        data = start + self._more(limit)
        if not data and self._was_replaced():
            # The writer may have written to the old file after our last look at it.
            data = self._more(limit)
            if not data:
                self.close()
                data = self._ended_line() + (self._more(limit) if self._open() else b"")
        if data:
            self._open_line = not data.endswith((b"\n", b"\r"))
        return data

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _more(self, limit: int) -> bytes:
        if self._fd is None:
            return b""
        try:
            data = os.pread(self._fd, limit, self._at)
        except OSError:
            # A network file system that is away: it may come back.
            return b""
        if len(self._head) < _HEAD and data and self._at == len(self._head):
            self._head += data[: _HEAD - len(self._head)]
        self._at += len(data)
        return data

    def _was_emptied(self) -> bool:
        """Smaller than what was read, or another beginning."""
        if self._fd is None:
            return False
        try:
            size = os.fstat(self._fd).st_size
            return size < self._at or (size > 0 and os.pread(self._fd, len(self._head), 0) != self._head)
        except OSError:
            return False

    def _was_replaced(self) -> bool:
        if self._fd is None:
            return False
        try:
            now, ours = self.path.stat(), os.fstat(self._fd)
        except OSError:
            # Gone, or not there for a moment: the one that we have may still grow.
            return False
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino)

    def _ended_line(self) -> bytes:
        """Half a line at the end of the old file does not become the beginning of one of the new."""
        return b"\n" if self._open_line else b""

    def _check(self) -> None:
        try:
            mode = self.path.stat().st_mode
        except FileNotFoundError:
            self.missing = True
            return
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read: {error.strerror}") from None
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
            raise UserError(f"{self.path}: is a pipe or a device", f"vdoctor watch - < {self.path}")
        if not stat.S_ISREG(mode):
            raise UserError(f"{self.path}: is a folder, not a log", "give the log file itself")
        if not os.access(self.path, os.R_OK):
            raise UserError(f"{self.path}: cannot be read: Permission denied")

    def _open(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        self._at, self._head = 0, b""
        self.missing = False
        return True
