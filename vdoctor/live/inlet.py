"""Standard input in the place of a child: passed on and recorded like one's output, ends with it."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from vdoctor.live.child import Stream

if TYPE_CHECKING:
    import psutil


class Inlet:
    """Has the methods of a Child that a keeper uses; there is no process to signal or to wait for."""

    def __init__(self, fd: int = 0) -> None:
        self.streams = [Stream(fd, 1, False)]
        self.pid = 0
        self.code: int | None = None

    def poll(self) -> int | None:
        """0 when the input has ended."""
        if not self.streams:
            self.code = 0
        return self.code

    def read(self, stream: Stream, room: memoryview) -> int:
        """Put what came in into `room`; the number of bytes, 0 at the end."""
        try:
            return os.readv(stream.fd, [room])
        except OSError as error:
            if error.errno in (errno.EIO, errno.EBADF, errno.EISDIR):
                return 0
            raise

    def close(self, stream: Stream) -> None:
        """Stop reading. Descriptor 0 goes: its writer meets a closed pipe."""
        with contextlib.suppress(OSError):
            os.close(stream.fd)
        self.streams = []

    def close_streams(self) -> None:
        """Stop reading."""
        for stream in self.streams:
            self.close(stream)

    def send(self, signum: int) -> None:
        """Nobody is there."""

    def living(self) -> bool:
        """Nobody is there."""
        return False

    def farewell(self) -> None:
        """Nothing is out of our reach."""

    def descendants(self) -> list[psutil.Process]:
        """Nobody is there."""
        return []

    def resize(self) -> None:
        """Nobody is there."""

    def reap(self) -> None:
        """Nobody is there."""

    def collect(self) -> None:
        """Nobody is there."""
