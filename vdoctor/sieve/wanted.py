"""Which lines of a block must be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from vdoctor.sieve.blocks import Block
from vdoctor.sieve.kinds import Kind

_RUN = 256
#: In every line of statistics.
_STATISTICS = b"Avg prompt throughput: "


class Test(NamedTuple):
    """What makes a message of a serving process worth reading; `literal` is in all messages that do."""

    literal: str
    means: Callable[[str], object]


#: Shape to what is tried on its lines; None: all of them must be read. Shapes that mean nothing are not there.
Tests = dict[bytes, tuple[Test, ...] | None]


class Wanted:
    """Finds the lines of a block that must be read, while what decides about them stays as it is.

    `note` is told of every line of statistics that is left out: its number, its kind, its bytes and its message.
    """

    def __init__(
        self,
        view: Block,
        kinds: dict[bytes, Kind | None],
        tests: Tests,
        note: Callable[[int, Kind, bytes, str], None],
    ) -> None:
        self._view, self._kinds, self._tests, self._note = view, kinds, tests, note
        self._shapes = frozenset(tests)
        known = [kinds[text] for text, some in tests.items() if some is not None]
        self._only_statistics = len(known) == len(tests) and all(kind and kind.statistics for kind in known)

    def next_run(self, start: int) -> tuple[int, int]:
        """Place of the next such line from `start` on, and the place behind the last one that follows it without a gap."""
        view = self._view
        spot = self._next(start) if self._shapes else view.count
        end = spot
        # Only what needs no test: a line must not be judged before those in front of it were read.
        while end < view.count and end - spot < _RUN and (end == spot or self._tests.get(view.shapes[end], ()) is None):
            end += 1
        return spot, end

    def _next(self, start: int) -> int:
        """The place of the next line that must be read. One call, for it runs over all lines of statistics."""
        view, note, first = self._view, self._note, self._view.number
        shapes, kinds, tests_of = view.shapes, self._kinds, self._tests
        end: int | None = 0
        for at, line in self._candidates(start):
            text = shapes[at]
            tests, kind = tests_of.get(text, ()), kinds[text]
            if tests is None or kind is None or (end := kind.head.end(line, end or 0)) is None:
                return at
            message = line[end:].decode("utf-8", "replace").rstrip("\r")
            for literal, means in tests:
                if literal in message and means(message):
                    return at
            if kind.statistics:
                note(first + at, kind, line, message)
        return view.count

    def _candidates(self, start: int) -> Iterator[tuple[int, bytes]]:
        view = self._view
        if self._only_statistics:
            return view.holding(_STATISTICS, self._shapes, start)
        return ((spot, view.lines[spot]) for spot in view.places(self._shapes, start))
