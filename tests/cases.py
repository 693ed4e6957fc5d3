"""Fixture cases for tests: find them, examine them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdoctor.diagnose import Examination
from vdoctor.intake.reader import EventReader
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch import options as option_tables
from vdoctor.model import Event, Launch, Line, Report, Source
from vdoctor.rulebase.schema import RuleBase
from vdoctor.store import load_rules

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
SOURCE = Source("file", "test")


@dataclass(frozen=True)
class Case:
    """One folder of fixtures/."""

    folder: Path
    label: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.folder.relative_to(FIXTURES))

    @property
    def log(self) -> bytes:
        return (self.folder / "log.txt").read_bytes()


def cases() -> list[Case]:
    """All fixtures, by name."""
    return [Case(p.parent, json.loads(p.read_text())) for p in sorted(FIXTURES.glob("*/*/case.json"))]


@functools.lru_cache(maxsize=1)
def rules() -> RuleBase:
    """The shipped rules."""
    return load_rules(full=True)


def lines(data: bytes, chunk: int | None = None) -> Iterator[Line]:
    """The lines of a log, fed in chunks."""
    splitter = LineSplitter()
    size = chunk or max(len(data), 1)
    for start in range(0, len(data), size):
        yield from splitter.feed(data[start : start + size])
    yield from splitter.close()


def events_of(text: str) -> list[Event]:
    """The events of a log."""
    reader = EventReader()
    return list(reader.read(tuple(lines(text.encode()))))


def examine(
    data: bytes | str, base: RuleBase | None = None, chunk: int | None = None, launch: Launch | None = None
) -> Report:
    """The report on a log."""
    raw = data.encode() if isinstance(data, str) else data
    examination = Examination(base or rules(), option_tables.load(), launch)
    examination.feed(lines(raw, chunk))
    return examination.report(SOURCE)


def report_lines(report: Report) -> dict[str, Any]:
    """What two paths over the same observations must agree on: all but the source."""
    return {name: getattr(report, name) for name in report.__dataclass_fields__ if name != "source"}
