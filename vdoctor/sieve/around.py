"""The lines around others, kept while a log goes by: what was piped in cannot be read a second time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from vdoctor.intake.clean import clean
from vdoctor.model import Event, Line
from vdoctor.rulebase.match import Matcher

_BEFORE, _AFTER, _MAX_TEXT = 8, 5, 600
#: Places that may become evidence: the first ones and the latest ones are kept, 14 lines each.
_KEPT = 200

#: The numbered lines around a line.
Near = tuple[tuple[int, str], ...]


class Around:
    """Some lines before and after each wanted one; what a carriage return rewrote is left out."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[int, str]]] = {}
        self._open: list[int] = []
        self._before: deque[tuple[int, str]] = deque(maxlen=_BEFORE + 1)
        self._latest: deque[int] = deque()

    def want(self, number: int) -> None:
        """A line that comes next, or is one of the last few."""
        if number in self._found:
            return
        self._found[number] = [entry for entry in self._before if entry[0] <= number + _AFTER]
        self._open.append(number)
        if len(self._found) > _KEPT:
            self._latest.append(number)
        if len(self._latest) > _KEPT:
            del self._found[gone := self._latest.popleft()]
            self._open = [at for at in self._open if at != gone]

    def line(self, line: Line) -> None:
        """The next line."""
        entry = (line.no, clean(line.text[:_MAX_TEXT]))
        if self._before and self._before[-1][0] == line.no:
            self._before.pop()
        self._before.append(entry)
        for at in self._open:
            kept = self._found[at]
            if line.no <= at:
                # It is to come: what stands before it is what was last seen.
                kept[:] = self._before
            elif line.no <= at + _AFTER:
                if kept and kept[-1][0] == line.no:
                    kept.pop()
                kept.append(entry)
        if self._open and line.no > min(self._open) + _AFTER:
            self._open = [at for at in self._open if line.no <= at + _AFTER]

    def near(self, wanted: Collection[int]) -> dict[int, Near]:
        """The lines around those of the wanted ones that were seen."""
        seen = {at: tuple(kept) for at, kept in self._found.items() if at in wanted}
        return {at: kept for at, kept in seen.items() if any(number == at for number, _ in kept)}


class AroundHits(Around):
    """Keeps the lines around all that may become evidence: hits of rules, and the errors of tracebacks."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__()
        self._matcher = matcher

    def feed(self, lines: Sequence[Line], events: Iterable[Event]) -> None:
        """Lines that were examined just now, and the events read from them."""
        for number in sorted(
            {hit.evidence.line for hit in self._matcher.hits}
            | {event.line for event in events if event.block is not None and event.text[:1] not in (" ", "\t", "")}
        ):
            self.want(number)
        for line in lines:
            self.line(line)


def around(lines: Iterable[Line], wanted: Collection[int]) -> dict[int, Near]:
    """The lines around the wanted ones."""
    found = Around()
    for number in sorted(wanted):
        found.want(number)
    for line in lines:
        found.line(line)
    return found.near(wanted)
