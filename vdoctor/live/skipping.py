"""Output that comes faster than it can be examined: what is left out is known, and a replay leaves out the same.

Whole lines are skipped, never parts; line numbers stay those of the recorded log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vdoctor.intake.splitter import LineSplitter
from vdoctor.model import Line

#: A place in the recorded log: offset and length in bytes.
Range = tuple[int, int]
#: No line range that is examined late is longer.
MOST_LATE = 2 << 20


class SkippingSplitter:
    """A LineSplitter that can pass over whole lines."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()
        self._skipped_lines = 0
        self._passed = 0
        self.skipped = 0

    @property
    def lines(self) -> int:
        """Number of lines so far as an editor counts them, skipped ones included."""
        return self._splitter.lines + self._skipped_lines

    @property
    def size(self) -> int:
        """Bytes so far, skipped ones included."""
        return self._splitter.bytes + self.skipped + self._passed

    def feed(self, data: bytes, arrived: float | None = None) -> list[Line]:
        """Take the next bytes; return the lines that they complete."""
        return self._numbered(self._splitter.feed(data, arrived))

    def skip(self, length: int, newlines: int) -> None:
        """So many bytes, which hold so many newlines and begin and end with a line, are not examined."""
        self.skipped += length
        self._skipped_lines += newlines

    def pass_over(self, length: int) -> None:
        """So many bytes belong to a line that is too long to be read to its end."""
        self._passed += length

    def close(self, arrived: float | None = None) -> list[Line]:
        """The input ended: return what is left."""
        return self._numbered(self._splitter.close(arrived))

    def _numbered(self, lines: list[Line]) -> list[Line]:
        if not self._skipped_lines:
            return lines
        return [Line(line.no + self._skipped_lines, line.text, line.arrived) for line in lines]


def late_lines(data: bytes, line: int) -> list[Line]:
    """Lines that are examined at last, the first of which has that number; nobody knows when each came."""
    splitter = LineSplitter()
    return [Line(one.no + line - 1, one.text) for one in (*splitter.feed(data), *splitter.close())]


def pieces(start: int, data: bytes, ranges: Sequence[Range]) -> Iterator[tuple[bytes, bool]]:
    """Cut `data`, which lies at `start` of the log, into (piece, skipped). `ranges` are sorted and apart."""
    at, end = start, start + len(data)
    for offset, length in ranges:
        if offset + length <= at:
            continue
        if offset >= end:
            break
        first, last = max(offset, at), min(offset + length, end)
        if first > at:
            yield data[at - start : first - start], False
        yield data[first - start : last - start], True
        at = last
    if at < end:
        yield data[at - start :], False
