"""Lines that state facts: a pattern, and which of its groups is which fact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vdoctor.intake.patterns import PatternSet, required_literals
from vdoctor.model import Fact, FactValue

#: Text to value; None for a text that states nothing.
Convert = Callable[[str], FactValue | None]


class Spot(NamedTuple):
    """A line that states facts: group name -> (fact, conversion).

    `literals`: texts of which one is in every match, where they are known without a look at the pattern.
    """

    pattern: str
    facts: Mapping[str, tuple[str, Convert]]
    literals: tuple[str, ...] = ()


class SpotSet:
    """A table of spots, tried at the price of one pass over a line."""

    def __init__(self, spots: Sequence[Spot]) -> None:
        self._spots = spots
        literals = [spot.literals or sorted(required_literals(spot.pattern)) for spot in spots]
        self._patterns = PatternSet([spot.pattern for spot in spots], literals)

    def read(self, text: str) -> Iterator[tuple[str, FactValue]]:
        """Name and value of each fact that the line states."""
        for index, found in self._patterns.hits(text):
            for group, (name, convert) in self._spots[index].facts.items():
                value = _converted(convert, found[group]) if found[group] is not None else None
                if value is not None:
                    yield name, value


def state(facts: dict[str, Fact], name: str, value: FactValue, line: int) -> None:
    """Note a fact with the line that it was read from; the first value stays."""
    facts.setdefault(name, Fact(value, f"log:{line}"))


def _converted(convert: Convert, text: str) -> FactValue | None:
    """None for digits that are no number: a hostile or damaged line states nothing."""
    try:
        value = convert(text)
    except ValueError:
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else value
