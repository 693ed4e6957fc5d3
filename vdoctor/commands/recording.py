"""A recording with everything private hidden: log, arrival times and samples stay what a reader of the session sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from vdoctor.errors import UserError
from vdoctor.intake.inputs import json_lines
from vdoctor.intake.splitter import LineSplitter
from vdoctor.model import Line
from vdoctor.report.redact import Redactor

_CHUNK = 1 << 18


def write_recording(session: Path, folder: Path, redactor: Redactor, advance: Callable[[int], None]) -> None:
    """log.txt line by line, and samples.jsonl with the new sizes of what arrived; `advance` is told of bytes read."""
    samples = session / "samples.jsonl"
    try:
        with (session / "log.txt").open("rb") as log, (folder / "log.txt").open("wb") as new:
            writer = _Log(new, redactor, advance)
            with (folder / "samples.jsonl").open("w", encoding="utf-8") as kept:
                for entry in json_lines(samples):
                    for changed in _replayed(entry, log, writer, redactor):
                        kept.write(json.dumps(changed, separators=(",", ":")) + "\n")
            while rest := log.read(_CHUNK):
                writer.feed(rest)
            writer.close()
    except OSError as error:
        raise UserError(f"{session}: cannot be packed: {error.strerror}") from None


def _replayed(entry: dict[str, Any], log: BinaryIO, writer: _Log, redactor: Redactor) -> Iterator[dict[str, Any]]:
    """An entry of samples.jsonl as it belongs to the redacted log."""
    if "log" in entry:
        size = entry["log"]
        left = size if isinstance(size, int) and size > 0 else 0
        written = 0
        while left and (chunk := log.read(min(left, _CHUNK))):
            left -= len(chunk)
            written += writer.feed(chunk)
        yield {**entry, "log": written}
        return
    if "skip" in entry or "late" in entry:
        # Places of the original log: what was left out for lack of time is read by whoever gets the archive.
        return
    if "exit" in entry and (written := writer.close()):
        # A last line without an end arrived, for a reader, when the child ended.
        yield {"t": entry.get("t", 0.0), "log": written}
    yield redactor.value(entry)


class _Log:
    """Writes redacted lines. Each line stands in the file as soon as it ended in the original: its time stays right."""

    def __init__(self, file: BinaryIO, redactor: Redactor, advance: Callable[[int], None]) -> None:
        self._file = file
        self._advance = advance
        self._redactor = redactor
        self._splitter = LineSplitter()
        self._number = 1

    def feed(self, data: bytes) -> int:
        """Take bytes of the original; returns how many were written."""
        self._advance(len(data))
        return self._take(self._splitter.feed(data))

    def close(self) -> int:
        """The original ended: write its last line."""
        lines = self._splitter.close()
        last = lines.pop() if lines and self._splitter.number == lines[-1].no else None
        written = self._take(lines)
        if last is not None:
            written += self._put("\n" * (last.no - self._number) + self._redactor.line(last.text))
            self._number = last.no
        # What follows an exit entry begins anew, as it does for a reader of the session.
        self._splitter = _Continued(self._splitter.number)
        return written

    def _take(self, lines: Sequence[Line]) -> int:
        written = 0
        for at, line in enumerate(lines):
            follows = lines[at + 1].no if at + 1 < len(lines) else self._splitter.number
            text = "\n" * (line.no - self._number) + self._redactor.line(line.text)
            ended = follows > line.no
            written += self._put(text + ("\n" if ended else "\r"))
            self._number = line.no + ended
        return written

    def _put(self, text: str) -> int:
        return self._file.write(text.encode("utf-8", "replace"))


class _Continued(LineSplitter):
    """Goes on counting where the splitter before ended."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._no = number


def log_texts(path: Path, advance: Callable[[int], None]) -> Iterator[str]:
    """All lines of the log, for a first look at what is private."""
    splitter = LineSplitter()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                advance(len(chunk))
                yield from (line.text for line in splitter.feed(chunk))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    yield from (line.text for line in splitter.close())
