"""A second look at what came too fast to be examined, once the server has died: the line that says why may be in it."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from vdoctor.live.backlog import AFTER, BEFORE, searcher

#: Read at once; so much overlaps with the next piece, so that no word is cut in two.
_PIECE, _OVERLAP = 1 << 20, 1 << 10
#: A word that comes often says nothing more after so many times; so much is examined at most.
_OFTEN, _MOST = 20, 1 << 20
#: Measured: 180 MB a second with the words of all rules, on one of two busy cores. Nobody waits longer than this.
SECONDS = 10.0
_GAPS = 20_000


class Range(NamedTuple):
    """Bytes of the recorded log: where they begin, how many, the number of the line that they begin in."""

    start: int
    length: int
    line: int


class Late:
    """Remembers what was left out, the latest gaps at least, and searches it."""

    def __init__(self, words: Callable[[], Iterable[bytes]]) -> None:
        """`words` are asked for when the search begins."""
        self._words = words
        self._gaps: deque[Range] = deque(maxlen=_GAPS)

    def note(self, start: int, length: int, line: int) -> None:
        """Whole lines from `start` on, the first one with that number, are not examined."""
        self._gaps.append(Range(start, length, line))

    def search(self, log: Path) -> list[Range]:
        """Whole lines around words, in the order of the log; the latest gaps are searched first. Raises OSError."""
        find = searcher(self._words())
        seen: Counter[int] = Counter()
        found: list[Range] = []
        size, end = 0, time.monotonic() + SECONDS
        with log.open("rb") as file:
            for gap in reversed(self._gaps):
                for one in _in_gap(file.fileno(), gap, find, seen):
                    found.append(one)
                    size += one.length
                if size > _MOST or time.monotonic() > end:
                    break
        return sorted(found)


def _in_gap(
    fd: int, gap: Range, find: Callable[[bytes], list[tuple[int, int, int]]], seen: Counter[int]
) -> Iterator[Range]:
    """Ranges of whole lines inside one gap."""
    at, line, last = gap.start, gap.line, gap.start + gap.length
    done = gap.start
    while at < last:
        data = os.pread(fd, min(_PIECE, last - at), at)
        if not data:
            return
        for word, begin, _ in find(data):
            if seen[word] >= _OFTEN or at + begin < done:
                continue
            seen[word] += 1
            first = max(data.rfind(b"\n", 0, max(begin - BEFORE, 0)) + 1, done - at, 0)
            stop = (data.find(b"\n", begin + AFTER) + 1) or data.rfind(b"\n") + 1
            if stop <= first:
                # A line without an end in this piece: the rest of it is of no use.
                continue
            yield Range(at + first, stop - first, line + data.count(b"\n", 0, first))
            done = at + stop
        step = len(data) if at + len(data) >= last else max(len(data) - _OVERLAP, 1)
        line += data.count(b"\n", 0, step)
        at += step
