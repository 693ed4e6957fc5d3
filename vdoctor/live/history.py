"""The part of a log that was written before anybody looked: when its lines came is told by their own stamps alone."""

from __future__ import annotations


class History:
    """Holds the last line back: it is the one that stands while we look, and from when on the silence counts."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The old part that is surely not its last line."""
        whole = self._held + data
        end = whole.rfind(b"\n", 0, max(len(whole) - 1, 0)) + 1
        self._held = whole[end:]
        return whole[:end]

    def close(self) -> bytes:
        """The last line; it counts as coming now."""
        rest, self._held = self._held, b""
        return rest
