"""Lines to events: the one place that knows all formats."""

from __future__ import annotations

from collections.abc import Iterable

from vdoctor.intake import record as records
from vdoctor.intake.bars import bars
from vdoctor.intake.blocks import BlockAssembler
from vdoctor.intake.clean import clean
from vdoctor.intake.clock import Clock, iso_seconds
from vdoctor.intake.prefix import strip
from vdoctor.model import Bar, Event, EventKind, Line, Traceback


class EventReader:
    """Reads lines in order; keeps the state that spans lines (clock, open tracebacks)."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._blocks = BlockAssembler()

    def read(self, lines: Iterable[Line]) -> list[Event]:
        """Events of the next lines, in order; empty lines give none unless a traceback goes on."""
        events: list[Event] = []
        for line in lines:
            shown = clean(line.text)
            parts = records.split_inner(shown)
            for part in parts:
                events.extend(self._events(line, part, part if len(parts) > 1 else shown))
        return events

    def traceback(self, number: int) -> Traceback:
        """The block with this number as far as it is known."""
        return self._blocks.blocks[number].freeze()

    def tracebacks(self) -> list[Traceback]:
        """All blocks that are kept: the first and the latest few hundred, in order."""
        return [block.freeze() for block in self._blocks.blocks.values()]

    def _events(self, line: Line, text: str, shown: str) -> list[Event]:
        unpacked = records.unpack_json(text) if text[:1] == "{" else None
        json_time: float | None = None
        record: records.Record | None = None
        if unpacked:
            text, stamp, record = unpacked
            json_time = iso_seconds(stamp) if stamp else None
            text = clean(text)
        stripped = strip(text)
        record = record or records.parse(stripped.text)
        process, pid, rank = stripped.process, stripped.pid, stripped.rank
        message = stripped.text
        if record:
            message = record.message
            if record.process and record.process != "MainProcess":
                process, pid = record.process, record.pid
            if message.startswith("("):
                inner = strip(message)
                message = inner.text
        time = self._clock.read(line.arrived, stripped.time or json_time, record.stamp if record else None)
        block = self._block(line.no, message, record, process, pid)
        found = bars(message) if block is None else []
        kind: EventKind = "traceback" if block is not None else "record" if record else "text"
        base = Event(
            line.no,
            kind,
            message,
            shown,
            process,
            pid,
            rank,
            record.level if record else None,
            record.source if record else None,
            time,
            None,
            block,
        )
        if not found:
            return [base] if message or block is not None or record else []
        return [_with_bar(base, bar) for bar in found]

    def _block(
        self, no: int, message: str, record: records.Record | None, process: str | None, pid: int | None
    ) -> int | None:
        # logger.exception copies the header to every line of a traceback: file and level tell it apart.
        place = (record.source, record.level) if record else None
        key = (process, pid, place)
        if record and place != ("uvicorn", record.level):
            self._blocks.interrupt((process, pid, None))
        return self._blocks.place(key, no, message, process)


def _with_bar(base: Event, bar: Bar) -> Event:
    return Event(
        base.line,
        "bar",
        base.text,
        base.shown,
        base.process,
        base.pid,
        base.rank,
        base.level,
        base.source,
        base.time,
        bar,
    )
