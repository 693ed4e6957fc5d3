"""Two output streams to one record: whole lines in order of completion, so that neither cuts into the other."""

from __future__ import annotations

#: A line that gets no end for so long (a prompt, a frozen progress bar) is recorded as it is.
IDLE_SECONDS = 1.0
_LIMIT = 1 << 16


class Merger:
    """Holds back the unfinished line of each stream. With one stream nothing is held back."""

    def __init__(self, streams: int) -> None:
        self._single = streams < 2
        self._held: dict[int, bytes] = {}
        self._since: dict[int, float] = {}

    def feed(self, stream: int, data: bytes, t: float) -> bytes:
        """The bytes that may be recorded now."""
        if self._single:
            return data
        whole = self._held.pop(stream, b"") + data
        end = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        if len(whole) - end > _LIMIT:
            end = len(whole)
        if whole[end:]:
            self._held[stream] = whole[end:]
            self._since[stream] = t
        return whole[:end]

    def idle(self, t: float) -> bytes:
        """Unfinished lines that have waited long enough."""
        due = [stream for stream in self._held if t - self._since[stream] >= IDLE_SECONDS]
        return b"".join(self._held.pop(stream) for stream in due)

    def close(self) -> bytes:
        """All that is left at the end."""
        rest = b"".join(self._held.values())
        self._held.clear()
        return rest
