"""A stretch of whole lines, seen as shapes; the lines themselves are cut out only where somebody asks."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from vdoctor.sieve.needles import shape


class Block:
    """Bytes that end with a newline. Lines are counted from 0."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.shapes = shape(data).split(b"\n")
        self.shapes.pop()
        self.count = len(self.shapes)
        #: Each shape with the place of its last line.
        self.last = dict(zip(self.shapes, range(self.count), strict=True))
        self._lines: list[bytes] | None = None
        self._starts: list[int] = []
        self._pids: dict[tuple[str | None, frozenset[int | str | None]], frozenset[int | None]] = {}

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

    def latest(self, start: int, end: int) -> dict[bytes, int]:
        """Each shape of these lines with the place of the last one."""
        if (start, end) == (0, self.count):
            return self.last
        return dict(zip(self.shapes[start:end], range(start, end), strict=True))

    def rfind(self, text: bytes, start: int, end: int) -> int | None:
        """The last of these lines that holds `text`."""
        if (start, end) == (0, self.count):
            at = self.data.rfind(text)
            return None if at < 0 else self.data.count(b"\n", 0, at)
        if not self._starts:
            self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        at = self.data.rfind(text, self._starts[start], self._starts[end])
        return None if at < 0 else start + self.data.count(b"\n", self._starts[start], at)

    def pids(self, process: str | None, likely: frozenset[int | str | None]) -> frozenset[int | None]:
        """Pids in the tags of processes with a name of this shape; `likely` ones are looked for first.

        A few processes write nearly all lines: two counts tell that nobody else did.
        """
        if process is None:
            return frozenset((None,))
        key = (process, likely)
        if key not in self._pids:
            self._pids[key] = self._find_pids(process, likely)
        return self._pids[key]

    def _find_pids(self, process: str, likely: frozenset[int | str | None]) -> frozenset[int | None]:
        known = [pid for pid in likely if isinstance(pid, int)]
        if 0 < len(known) <= 2 and self.data.count(b" pid=") == sum(self.data.count(b" pid=%d)" % pid) for pid in known):
            return frozenset(known)
        name = b"[0-9a-f]*".join(re.escape(bytes((byte,))) for byte in process.encode())
        tags = re.compile(rb"\([0-9a-f]*" + name + rb"[0-9a-f]* (?:rank=\d+ )?pid=(\d{1,18})\b")
        return frozenset(int(pid) for pid in tags.findall(self.data))

    def forget_shapes(self) -> None:
        """Only single lines will be asked for."""
        self.shapes, self.last = [], {}
        self._lines, self._starts = None, []


class Kept(NamedTuple):
    """A line that was left out for now."""

    number: int
    view: Block
    at: int

    @property
    def line(self) -> bytes:
        return self.view.lines[self.at]

    def alone(self) -> Kept:
        """The same without the block around it."""
        return self if self.view.count == 1 else Kept(self.number, Block(self.line + b"\n"), 0)
