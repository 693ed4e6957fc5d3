"""The part of a record in front of its message: process tag, level, time, place in the code."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vdoctor.intake.reader import EventReader
from vdoctor.model import Line
from vdoctor.sieve.needles import VARYING, shape

_TAG = re.compile(rb"\(([^()]*) pid=(\d+)\)")
_STAMP = re.compile(rb"\d\d-\d\d \d\d:\d\d:\d\d")
_LEVELS = ("DEBUG", "INFO", "WARNING")
_LONGEST = 400


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The head of records that differ in numbers only.

    `process` is the shape of the name, None without a tag; `clock` where their time comes from (`own`: vLLM's stamp,
    `shipped`: that of a log shipper), None without a time.
    """

    shape: bytes
    raw: re.Pattern[bytes]
    process: str | None
    source: str | None
    level: str
    clock: str | None

    def stamp(self, line: bytes) -> str | None:
        """vLLM's own time stamp where the time of the line comes from it."""
        found = _STAMP.search(line, 0, _LONGEST) if self.clock == "own" else None
        return found[0].decode() if found else None

    def end(self, line: bytes, likely: int) -> int | None:
        """Where the message of a line begins; None when it has another head. `likely`: where that of the last line began."""
        # The same as the search finds, for a fifth of its time: the fixed bytes are those of the shape, the last one included.
        if likely and line[likely - 1 : likely] not in VARYING and line[:likely].translate(None, VARYING) == self.shape:
            return likely
        found = self.raw.match(line)
        return found.end() if found else None

    @property
    def is_access(self) -> bool:
        """A line of uvicorn: no traceback of others is touched by it."""
        return self.source == "uvicorn"


def learn(line: bytes) -> Head | None:
    """The head of a line; None unless the line is one plain record below ERROR."""
    text = line.decode("utf-8", "replace").rstrip("\r")
    reader = EventReader()
    events = reader.read([Line(1, text)])
    if len(events) != 1:
        return None
    event = events[0]
    if event.kind != "record" or event.level not in _LEVELS or not event.text or not text.endswith(event.text):
        return None
    start = text[: -len(event.text)].encode()
    if not start or len(start) > _LONGEST or start[-1:] in VARYING or (event.process is not None) != bool(_tags(start)):
        return None
    kept = shape(start)
    name = None if event.process is None else shape(event.process.encode()).decode()
    return Head(kept, re.compile(_loose(kept)), name, event.source, event.level, reader.clock)


def _loose(kept: bytes) -> bytes:
    """Matches the head of every line of this shape, up to its last fixed byte."""
    varying = b"[" + VARYING + b"]*"
    return varying + varying.join(re.escape(kept[at : at + 1]) for at in range(len(kept)))


def _tags(start: bytes) -> list[tuple[bytes, bytes]]:
    return _TAG.findall(start)


def pid(line: bytes) -> int | None:
    """The pid in the tag of a line; None without one."""
    found = _TAG.search(line)
    return int(found[2]) if found and len(found[2]) < 19 else None
