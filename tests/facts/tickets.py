"""Lines of a ticket for the readers of facts."""

from __future__ import annotations

from typing import Protocol

from vdoctor.intake.reader import EventReader
from vdoctor.model import Event, Fact, FactValue, Line


class Reader(Protocol):
    """What the tests feed."""

    @property
    def facts(self) -> dict[str, Fact]: ...

    def feed(self, event: Event) -> None: ...


def read(reader: Reader, text: str) -> dict[str, Fact]:
    """The facts after a text, read as a log is read."""
    for event in EventReader().read(Line(no, line) for no, line in enumerate(text.split("\n"), 1)):
        reader.feed(event)
    return reader.facts


def values(reader: Reader, text: str) -> dict[str, FactValue]:
    """Names and values alone."""
    return {name: fact.value for name, fact in read(reader, text).items()}
