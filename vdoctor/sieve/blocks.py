"""A stretch of whole lines, seen as shapes; the lines themselves are cut out only where somebody asks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate, compress, islice
from typing import NamedTuple, TypeVar

from vdoctor.sieve.needles import VARYING, shape

_T = TypeVar("_T")


class Block:
    """Bytes that end with a newline. Places of lines are counted from 0; `number` is that of the first one in the log."""

    def __init__(self, data: bytes, number: int) -> None:
        self.data = data
        self.number = number
        self.shapes = shape(data).split(b"\n")
        self.shapes.pop()
        self.count = len(self.shapes)
        self.distinct = set(self.shapes)
        self._lines: list[bytes] | None = None
        self._starts: list[int] = []
        self._pids: dict[tuple[str, tuple[tuple[int, str], ...]], frozenset[int]] = {}

    @property
    def lines(self) -> list[bytes]:
        """All lines, without their newlines."""
        if self._lines is None:
            self._lines = self.data.split(b"\n")
            self._lines.pop()
        return self._lines

    def part(self, start: int, end: int) -> bytes:
        """The bytes of these lines."""
        return b"\n".join(self.lines[start:end]) + b"\n" if start < end else b""

    def places(self, shapes: frozenset[bytes], start: int) -> Iterator[int]:
        """Places of the lines of these shapes from `start` on."""
        if len(shapes) == len(self.distinct):
            return iter(range(start, self.count))
        if len(shapes) == 1:
            return self._places_of(next(iter(shapes)), start)
        return compress(range(start, self.count), map(shapes.__contains__, islice(self.shapes, start, None)))

    def _places_of(self, text: bytes, start: int) -> Iterator[int]:
        # Lines of other lengths are passed over without a look: five times as fast as to hash them.
        index, at = self.shapes.index, start - 1
        while True:
            try:
                at = index(text, at + 1)
            except ValueError:
                return
            yield at

    def holding(self, text: bytes, shapes: frozenset[bytes], start: int) -> Iterator[tuple[int, bytes]]:
        """Place and bytes of the lines of these shapes from `start` on. Nearly all lines that hold `text` are of these."""
        # Cutting out all lines takes longer than all the rest: the places come from the shapes, the lines from a search.
        data, end = self.data, 0
        for at in self.places(shapes, 0):
            line = b""
            if self._lines is None:
                hit = data.find(text, end)
                begin = data.rfind(b"\n", end, hit) + 1 or end
                end = data.find(b"\n", hit)
                line = data[begin:end]
            if line.translate(None, VARYING) != self.shapes[at]:
                # Another line holds the text as well, or this one only its shape.
                line = self.lines[at]
            if at >= start:
                yield at, line

    def example(self, text: bytes) -> bytes:
        """A line of this shape."""
        return self.lines[self.shapes.index(text)]

    def latest(self, kinds: Mapping[bytes, _T], start: int, end: int) -> dict[_T, int]:
        """Place of the last line of each kind among these lines; `kinds` names that of each shape."""
        wanted = len(set(kinds.values()))
        found: dict[_T, int] = {}
        for at in range(end - 1, start - 1, -1):
            kind = kinds[self.shapes[at]]
            if kind not in found:
                found[kind] = at
                if len(found) == wanted:
                    break
        return found

    def rfind(self, text: bytes, start: int, end: int) -> int | None:
        """The last of these lines that holds `text`."""
        if (start, end) == (0, self.count):
            at = self.data.rfind(text)
            return None if at < 0 else self.count - self.data.count(b"\n", at)
        if not self._starts:
            self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        at = self.data.rfind(text, self._starts[start], self._starts[end])
        return None if at < 0 else start + self.data.count(b"\n", self._starts[start], at)

    def pids(self, process: str, likely: tuple[tuple[int, str], ...]) -> frozenset[int]:
        """Pids in the tags of processes with a name of this shape; `likely` ones, with their names, are looked for first.

        One process writes nearly all lines: a count of its tag tells that nobody else did.
        """
        key = (process, likely)
        if key not in self._pids:
            self._pids[key] = self._find_pids(process, likely)
        return self._pids[key]

    def _find_pids(self, process: str, likely: tuple[tuple[int, str], ...]) -> frozenset[int]:
        if 0 < len(likely) <= 2:
            tags = [f"({name} pid={pid})".encode() for pid, name in likely]
            once = all(text.count(b" pi=") == 1 for text in self.distinct)
            tagged = self.count if once else self.data.count(b" pid=")
            if sum(map(self.data.count, tags)) == tagged:
                return frozenset(pid for pid, _ in likely)
        name = b"[0-9a-f]*".join(re.escape(bytes((byte,))) for byte in process.encode())
        tag = re.compile(rb"\([0-9a-f]*" + name + rb"[0-9a-f]* (?:rank=\d+ )?pid=(\d{1,18})\b")
        return frozenset(int(pid) for pid in tag.findall(self.data))

    def forget_shapes(self) -> None:
        """Only single lines will be asked for."""
        self.shapes, self.distinct = [], set()
        self._lines, self._starts = None, []


class Kept(NamedTuple):
    """A line that was left out for now."""

    view: Block
    at: int

    @property
    def number(self) -> int:
        return self.view.number + self.at

    @property
    def line(self) -> bytes:
        return self.view.lines[self.at]

    def alone(self) -> Kept:
        """The same without the block around it."""
        return self if self.view.count == 1 else Kept(Block(self.line + b"\n", self.number), 0)
