"""What waits to be examined, in order, in bounded memory.

Output that comes faster than it can be examined is thinned out from the middle: first lines that hold none of the words
that rules and markers look for, then, should that not be enough, all of it. Beginning, end and what is in work stay.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vdoctor.model import Exit, Sample

#: Around a line that may mean something, so much is kept before and after it (a traceback, the lines that led to it).
BEFORE, AFTER = 2048, 4096
#: Of one piece of output at most this part is kept for its words: a flood of errors is a flood.
_SHARE = 4
#: The splitter drops what a line holds beyond 64 KiB of characters; in bytes that is at most four times as much.
_ENDLESS = 4 << 16
#: Words of errors; those of rules and markers come on top.
WORDS = (b"rror", b"ERROR", b"raceback", b"WARN", b"CRITICAL", b"FATAL", b"atal ", b"xception", b"illed")


#: Output waits in pieces of at most this size.
_PIECE = 1 << 16
#: Of a flood the first so many bytes are searched for words, then so many a second, and this part of what exceeds them:
#: the search must not take the processor from the child.
_SEARCH_FIRST, _SEARCH_SECOND, _SEARCH_SHARE = 32 << 20, 10 << 20, 8


@dataclass(slots=True)
class Output:
    """Bytes of the log at `start`; `sifted`: only what may mean something is left of the piece that it belonged to."""

    t: float | None
    start: int
    data: bytes
    sifted: bool = False
    #: Half of a line that was cut in two; between two gaps it is worth nothing.
    edge: bool = False


@dataclass(slots=True)
class Gap:
    """Whole lines of the log at `start` that are not examined."""

    start: int
    length: int
    newlines: int


@dataclass(slots=True)
class Rest:
    """The middle of a line that is longer than any line is read: counted, not looked at."""

    length: int


Item = Output | Gap | Rest | Sample | Exit


class Backlog:
    """A queue: `output` and `put` at one end, `take` at the other, `shrink` when too much waits."""

    def __init__(self, words: Callable[[], Iterable[bytes]] = lambda: ()) -> None:
        """`words` are asked for when something has to go: they make a line worth keeping."""
        self._words = words
        self._automaton: Callable[[bytes], list[tuple[int, int, int]]] | None = None
        self._items: deque[Item] = deque()
        self._end = 0
        self._line = 0
        #: Bytes that may be searched; reckoned last at that time and that end of the log.
        self._credit, self._shrunk, self._shrunk_end = float(_SEARCH_FIRST), 0.0, 0
        self.waiting = 0

    def __len__(self) -> int:
        return len(self._items)

    def output(self, t: float | None, data: bytes) -> None:
        """The next bytes of the log; `t` None: nobody saw them come."""
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE] if len(data) > _PIECE else data
            end = _last_end(piece)
            if not end and self._line > _ENDLESS:
                self._items.append(Rest(len(piece)))
            else:
                self._items.append(Output(t, self._end, piece))
                self.waiting += len(piece)
            self._line = len(piece) - end + (0 if end else self._line)
            self._end += len(piece)

    def put(self, observation: Sample | Exit) -> None:
        """Something else that was seen."""
        self._items.append(observation)

    def take(self, size: int) -> Item | None:
        """The next one, output in pieces of at most `size` bytes; None: nothing waits."""
        if not self._items:
            return None
        item = self._items[0]
        if isinstance(item, Output):
            data = item.data[:size]
            self.waiting -= len(data)
            if len(data) < len(item.data):
                self._items[0] = Output(item.t, item.start + size, item.data[size:], item.sifted)
                return Output(item.t, item.start, data)
        return self._items.popleft()

    def shrink(self, limit: int) -> None:
        """Thin out until no more than about `limit` bytes wait."""
        kept: list[Item] = []
        last = self._tail()
        now = time.monotonic()
        more = (now - self._shrunk) * _SEARCH_SECOND + (self._end - self._shrunk_end) / _SEARCH_SHARE
        self._credit = min(self._credit + more, _SEARCH_FIRST)
        self._shrunk, self._shrunk_end = now, self._end
        for number, item in enumerate(self._items):
            if isinstance(item, Output) and not item.sifted and 0 < number < last:
                for piece in self._sift(item, self._credit > 0):
                    _join(kept, piece)
                self._credit -= len(item.data) if self._credit > 0 else 0
            else:
                _join(kept, item)
        self._replace(kept)
        if self.waiting > limit:
            self._replace(_without_middles(kept))

    def _tail(self) -> int:
        """Where the end begins that is kept: a piece's worth of output."""
        size, number = 0, len(self._items)
        while number and size < _PIECE:
            number -= 1
            item = self._items[number]
            size += len(item.data) if isinstance(item, Output) else 0
        return number

    def _replace(self, items: list[Item]) -> None:
        self._items = deque(items)
        self.waiting = sum(len(item.data) for item in items if isinstance(item, Output))

    def _sift(self, item: Output, search: bool) -> list[Item]:
        """Its first and last line and, when there is time to `search`, what is around words; the rest as gaps."""
        data = item.data
        first, last = _first_end(data), _last_end(data)
        if last <= first:
            item.sifted = True
            return [item]
        wanted = self._wanted(data, first, last) if search else []
        keep = [(0, first), *wanted, (last, len(data))]
        edges = (keep[0], keep[-1])
        found: list[Item] = []
        at = 0
        for begin, end in keep:
            if begin > at:
                found.append(Gap(item.start + at, begin - at, data.count(b"\n", at, begin)))
            if end > begin:
                found.append(Output(item.t, item.start + begin, data[begin:end], True, (begin, end) in edges))
            at = max(at, end)
        return found

    def _wanted(self, data: bytes, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges of whole lines between `first` and `last`, sorted and apart."""
        ranges: list[tuple[int, int]] = []
        room = (last - first) // _SHARE
        for spot in self._spots(data):
            if spot < (ranges[-1][1] if ranges else first):
                continue
            begin = max(first, data.rfind(b"\n", 0, max(spot - BEFORE, 0)) + 1, ranges[-1][1] if ranges else 0)
            end = min(last, (data.find(b"\n", spot + AFTER) + 1) or last)
            if end > begin:
                ranges.append((begin, end))
                room -= end - begin
            if room < 0:
                break
        return ranges

    def _spots(self, data: bytes) -> Iterable[int]:
        """Offsets of words, ascending."""
        if self._automaton is None:
            self._automaton = searcher(self._words())
        return [start for _, start, _ in self._automaton(data)]


def searcher(words: Iterable[bytes]) -> Callable[[bytes], list[tuple[int, int, int]]]:
    """Finds these words and those of errors: (number of the word, begin, end) in the order of the data."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    # Twice as fast as the automaton that is chosen for so many words, for a few MB.
    automaton = BytesAhoCorasick(list(dict.fromkeys((*WORDS, *words))), implementation=Implementation.DFA)
    return automaton.find_matches_as_indexes


def _first_end(data: bytes) -> int:
    """Where the first line ends, 0 when none does. A carriage return ends a line, too (progress bars)."""
    newline = data.find(b"\n") + 1
    return data.find(b"\r", 0, newline or len(data)) + 1 or newline


def _last_end(data: bytes) -> int:
    newline = data.rfind(b"\n") + 1
    return data.rfind(b"\r", newline) + 1 or newline


def _join(items: list[Item], item: Item) -> None:
    """Append; a gap takes the edges before it and the gap before them into itself."""
    if isinstance(item, Gap):
        at = len(items)
        while at and isinstance(before := items[at - 1], Output) and before.edge:
            at -= 1
        if at and isinstance(items[at - 1], Gap):
            run = [one for one in (*items[at - 1 :], item) if isinstance(one, Output | Gap)]
            items[at - 1 :] = _one_gap(run)
            return
    items.append(item)


def _without_middles(items: list[Item]) -> list[Item]:
    """Between the first and the last gap of each run of output nothing is kept; neighbouring gaps become one."""
    found: list[Item] = []
    run: list[Output | Gap] = []
    for item in items:
        if isinstance(item, Output | Gap):
            run.append(item)
            continue
        found += _one_gap(run)
        found.append(item)
        run = []
    return found + _one_gap(run)


def _one_gap(run: list[Output | Gap]) -> list[Output | Gap]:
    gaps = [number for number, item in enumerate(run) if isinstance(item, Gap)]
    if len(gaps) < 2:
        return run
    middle = run[gaps[0] : gaps[-1] + 1]
    length = sum(item.length if isinstance(item, Gap) else len(item.data) for item in middle)
    newlines = sum(item.newlines if isinstance(item, Gap) else item.data.count(b"\n") for item in middle)
    return [*run[: gaps[0]], Gap(middle[0].start, length, newlines), *run[gaps[-1] + 1 :]]
