"""Bytes between two processes: one writes into shared memory, the other reads; nothing is copied on the way."""

from __future__ import annotations

import mmap

#: What a reader that is busy may leave unread before the writer has to wait. Memory is used only where it was written.
SIZE = 16 << 20


class Ring:
    """Made before a fork; afterwards one side writes and the other reads, each with its own position."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._view = memoryview(mmap.mmap(-1, size))
        self._at = 0
        self._held = 0

    # ------------------------------------------------------------------ writer

    def room(self, limit: int) -> memoryview:
        """Free bytes in one piece, at most `limit`; empty when the reader is behind by the whole ring."""
        length = min(limit, self._size - self._at, self._size - self._held)
        return self._view[self._at : self._at + length]

    def wrote(self, length: int) -> None:
        """So many bytes of the piece hold data now."""
        self._at = (self._at + length) % self._size
        self._held += length

    def freed(self, length: int) -> None:
        """The reader is done with so many bytes."""
        self._held -= length

    # ------------------------------------------------------------------ reader

    def take(self, length: int) -> bytes:
        """A copy of the next piece, as long as the writer said."""
        data = bytes(self._view[self._at : self._at + length])
        self._at = (self._at + length) % self._size
        return data
