"""Lines to events: the one place that knows all formats."""

from __future__ import annotations

from collections.abc import Iterable

from vdoctor.intake import record as records
from vdoctor.intake.bars import bars
from vdoctor.intake.blocks import START, BlockAssembler
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
            # JSON is unpacked before it is cleaned: its strings hold escapes of their own.
            unpacked = records.unpack_json(line.text) if line.text[:1] == "{" else None
            if not unpacked:
                events.extend(self._events(line, clean(line.text)))
                continue
            text, stamp, outer = unpacked
            sent = iso_seconds(stamp) if stamp else None
            # A JSON formatter keeps a message of several lines, traceback included, in one.
            for part in text.split("\n"):
                events.extend(self._events(line, clean(part), sent, outer))
        return events

    @property
    def clock(self) -> str | None:
        """Where the last time came from: arrived, shipped, own; None before the first stamp."""
        return self._clock.kind

    def time_of(self, stamp: str) -> float | None:
        """Seconds on the log's clock of a record with vLLM's own stamp, which is all that is read of it."""
        return self._clock.read(None, None, stamp)

    def open_writers(self) -> list[tuple[str | None, int | None, tuple[str | None, str] | None]]:
        """Process, pid and (source, level) of the writers whose next line may still belong to a traceback."""
        return self._blocks.open_keys()  # type: ignore[return-value]

    def traceback(self, number: int) -> Traceback:
        """The block with this number as far as it is known."""
        return self._blocks.blocks[number].freeze()

    def tracebacks(self) -> list[Traceback]:
        """All blocks that are kept: the first and the latest few hundred, in order."""
        return [block.freeze() for block in self._blocks.blocks.values()]

    def _events(
        self, line: Line, text: str, sent: float | None = None, outer: records.Record | None = None
    ) -> list[Event]:
        return [event for part in records.split_inner(text) for event in self._read(line, part, sent, outer)]

    def _read(self, line: Line, text: str, sent: float | None, outer: records.Record | None) -> list[Event]:
        stripped = strip(text)
        record = records.parse(stripped.text)
        if text[:1] in " \t" and stripped.process is None and record is None:
            # A log inside a Markdown list or a YAML block is indented as a whole; lines of code stay as they are.
            outdented = strip(text.lstrip(" \t"))
            inner = records.parse(outdented.text)
            if outdented.process is not None or (inner is not None and inner.stamp):
                stripped, record = outdented, inner
        process, pid, rank = stripped.process, stripped.pid, stripped.rank
        if outer and not (record and record.stamp):
            record = outer._replace(message=text)
            if outer.process and outer.process != "MainProcess":
                process, pid = outer.process, outer.pid
        message = record.message if record else stripped.text
        if record and message.startswith("("):
            message = strip(message).text
        time = self._clock.read(line.arrived, stripped.time or sent, record.stamp if record else None)
        found = bars(message)
        # Bars are drawn by others than the writer of a traceback that they interrupt.
        block = None if found else self._block(line.no, message, record, process, pid)
        kind: EventKind = "traceback" if block is not None else "record" if record else "text"
        base = Event(
            line.no,
            kind,
            message,
            text,
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
        if record and record.source == "uvicorn":
            # Only the first line of a traceback has uvicorn's header.
            return self._blocks.place((process, pid, None), no, message, process) if START.match(message) else None
        # logger.exception copies the header to every line of a traceback: file and level tell it apart.
        place = (record.source, record.level) if record else None
        if record:
            self._blocks.interrupt((process, pid, None))
        return self._blocks.place((process, pid, place), no, message, process)


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
