"""vdoctor bundle: pack a recorded session for support, redacted, the same bytes every time."""

from __future__ import annotations

import contextlib
import gzip
import json
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from vdoctor import __version__
from vdoctor.commands.examine import emit, examine_session, tell
from vdoctor.commands.privacy import counts
from vdoctor.errors import UserError
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch import options as option_tables
from vdoctor.live.packed import MARKER, is_packed
from vdoctor.live.session import is_session
from vdoctor.model import Line
from vdoctor.report.json import to_dict
from vdoctor.report.page_words import say
from vdoctor.report.redact import Redactor, redact
from vdoctor.store import load_rules

SCHEMA = "vdoctor.bundle/1"
_CHUNK = 1 << 18


def bundle(session: Path, *, output: str | None, lang: str, rules: Sequence[Path], check_redaction: bool) -> int:
    """Write the archive and print its name. Raises UserError when the session cannot be read or the file written."""
    if is_packed(session) or not is_session(session):
        raise UserError(f"{session}: is no recorded session", "give a folder that vdoctor watch recorded")
    target = Path(output or f"{session.resolve().name}.tar.gz")
    report = examine_session(session, load_rules(rules), option_tables.load())
    redactor = Redactor()
    redactor.learn(_log_texts(session / "log.txt"))
    hidden = redact(report, redactor)
    with tempfile.TemporaryDirectory(prefix="vdoctor-") as name:
        folder = Path(name)
        _write_recording(session, folder, redactor)
        for file in ("session.json", "case.json"):
            if (data := _json(session / file)) is not None:
                _write(folder / file, redactor.value(data))
        _write(folder / "report.json", to_dict(hidden, lang))
        about = {"schema": SCHEMA, "vdoctor": __version__, "replaced": redactor.names.distinct()}
        _write(folder / MARKER, about)
        if check_redaction:
            emit(counts(redactor, "text", lang), None)
            return 0
        _pack(folder, target)
    emit(f"{target}\n", None)
    kinds = ", ".join(f"{count} {kind}" for kind, count in redactor.names.distinct().items())
    tell(f"vdoctor: {say('packed', lang, kinds=kinds or '0', file=target)}\n")
    return 0


def _write_recording(session: Path, folder: Path, redactor: Redactor) -> None:
    """log.txt line by line, and samples.jsonl with the new sizes of what arrived."""
    samples = session / "samples.jsonl"
    try:
        with (session / "log.txt").open("rb") as log, (folder / "log.txt").open("wb") as new:
            writer = _Log(new, redactor)
            with (folder / "samples.jsonl").open("w", encoding="utf-8") as entries:
                for entry in _entries(samples) if samples.is_file() else ():
                    for changed in _replayed(entry, log, writer, redactor):
                        entries.write(json.dumps(changed, separators=(",", ":")) + "\n")
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

    def __init__(self, file: BinaryIO, redactor: Redactor) -> None:
        self._file = file
        self._redactor = redactor
        self._splitter = LineSplitter()
        self._number = 1

    def feed(self, data: bytes) -> int:
        """Take bytes of the original; returns how many were written."""
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


def _log_texts(path: Path) -> Iterator[str]:
    """All lines of the log, for a first look at what is private."""
    splitter = LineSplitter()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield from (line.text for line in splitter.feed(chunk))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    yield from (line.text for line in splitter.close())


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            entry = None
            # The last line of a session that was killed is cut off.
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
            if isinstance(entry, dict):
                yield entry


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace")


def _pack(folder: Path, target: Path) -> None:
    """Sorted members, no times, no owners: the same session gives the same bytes."""
    part = target.with_name(f"{target.name}.part")
    try:
        with (
            part.open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            for path in sorted(folder.iterdir()):
                member = tarfile.TarInfo(f"session/{path.name}")
                member.size, member.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    archive.addfile(member, file)
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UserError(f"{target}: cannot be written: {error.strerror}", "give --output another path") from None
