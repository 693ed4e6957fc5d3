"""Session folders: the recording of one watched launch, and its replay.

`log.txt` holds the output as captured; `samples.jsonl` one JSON object a line in order of time:
`{"t": seconds, "log": bytes}` (so many bytes of log.txt arrived then; `"old": true`: were there by then), a sample (records.py), `{"t", "exit"}`,
or `{"t", "skip": [offset, bytes]}` (lines of log.txt that came too fast to be examined, see skipping.py),
or `{"t", "late": [offset, bytes, line]}` (of these, lines that were examined at the end after all); `session.json` the launch; `case.json` the label, as in fixtures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from vdoctor import __version__
from vdoctor.errors import UserError
from vdoctor.intake.inputs import json_lines, small_file
from vdoctor.live.records import Reader, Writer, finite
from vdoctor.live.skipping import MOST_LATE, Range, SkippingSplitter, late_lines, pieces
from vdoctor.model import Exit, Fact, Observation, Sample

SCHEMA = "vdoctor.session/1"
_MAX_DESCRIPTION = 16 << 20


class Recorder:
    """Writes a session while it happens. A disk that fails stops the recording, not the child."""

    def __init__(self, folder: Path, command: list[str], env: Mapping[str, str], facts: Mapping[str, Fact]) -> None:
        """Create the folder. Raises UserError when it cannot be written or holds a session already."""
        self.folder = folder
        self.failed: OSError | None = None
        self._command = command
        self._cwd = _where()
        self._env = dict(env)
        self._facts = dict(facts)
        self._writer = Writer()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("session.json", "log.txt", "samples.jsonl", "case.json"):
                if (folder / name).exists():
                    raise UserError(f"{folder}: holds a {name} already", "give --session another folder")
            self._log: BinaryIO = (folder / "log.txt").open("xb")
            self._samples: TextIO = (folder / "samples.jsonl").open("x", encoding="utf-8")
            self._write_session(None)
        except OSError as error:
            raise UserError(
                f"{folder}: cannot be written: {error.strerror}", "give --session another folder, or --no-session"
            ) from None

    def log(self, t: float, data: bytes, *, old: bool = False) -> None:
        """Output that arrived at `t` seconds after the launch; `old`: it was written before anybody looked."""
        if self.failed:
            return
        try:
            self._log.write(data)
            self._log.flush()
            self._line({"t": round(t, 4), "log": len(data)} | ({"old": True} if old else {}))
        except OSError as error:
            self.failed = error

    def skip(self, t: float, start: int, length: int) -> None:
        """Lines of the log that were not examined."""
        self._line({"t": round(t, 4), "skip": [start, length]})

    def fact(self, name: str, fact: Fact) -> None:
        """What is known about the watching itself; `close` writes it down."""
        self._facts[name] = fact

    def late(self, t: float, start: int, length: int, line: int) -> bytes:
        """Lines that were skipped and are examined at the end after all; returns them."""
        self._line({"t": round(t, 4), "late": [start, length, line]})
        with (self.folder / "log.txt").open("rb") as log:
            log.seek(start)
            return log.read(length)

    def sample(self, sample: Sample) -> None:
        """One measurement."""
        if not self.failed:
            self._line(self._writer.row(sample))

    def close(self, end: Exit | None, label: Mapping[str, Any]) -> None:
        """Write the end and the label, each as far as the disk lets us."""
        if end is not None:
            self._line({"t": round(end.t, 4), "exit": {"status": end.status, "signal": end.signal, "asked": end.asked}})
        for finish in (
            self._log.close,
            self._samples.close,
            lambda: self._write_session(end),
            lambda: _write_json(self.folder / "case.json", label),
        ):
            try:
                finish()
            except OSError as error:
                self.failed = self.failed or error

    def _line(self, entry: Mapping[str, Any]) -> None:
        if self.failed:
            return
        try:
            self._samples.write(json.dumps(entry, separators=(",", ":")) + "\n")
            self._samples.flush()
        except OSError as error:
            self.failed = error

    def _write_session(self, end: Exit | None) -> None:
        _write_json(
            self.folder / "session.json",
            {
                "schema": SCHEMA,
                "vdoctor": __version__,
                "command": self._command,
                "cwd": self._cwd,
                "env": self._env,
                "facts": {name: {"value": fact.value, "source": fact.source} for name, fact in self._facts.items()},
                "exit": {"status": end.status, "signal": end.signal, "asked": end.asked} if end else None,
            },
        )


def _where() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        # The folder has been removed.
        return None


def is_session(folder: Path) -> bool:
    """Whether the folder was recorded by `watch`, or the file was packed from such a folder by `bundle`."""
    try:
        if folder.is_file():
            return _is_packed(folder)
        return (folder / "session.json").is_file() and (folder / "log.txt").is_file()
    except OSError:
        # A name too long, a folder that may not be entered: whoever opens it says so.
        return False


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return False
    # The libraries of archives take as long to load as a small log takes to read.
    from vdoctor.live.packed import is_packed

    return is_packed(path)


class Session:
    """A recorded session, for replay. Raises UserError when its files cannot be read."""

    def __init__(self, folder: Path) -> None:
        """`folder` may be a packed session, too: it is unpacked for as long as this object lives."""
        if folder.is_file():
            import tempfile

            from vdoctor.live.packed import unpack

            self._unpacked = tempfile.TemporaryDirectory(prefix="vdoctor-")
            unpack(folder, Path(self._unpacked.name))
            folder = Path(self._unpacked.name)
        self.folder = folder
        try:
            data = json.loads(small_file(folder / "session.json", _MAX_DESCRIPTION))
            self.command = [str(word) for word in data["command"]]
            #: Where it was started: relative paths of the command are meant from there. None where that is not known.
            self.cwd = str(data["cwd"]) if data.get("cwd") else None
            self.env = {str(k): str(v) for k, v in data.get("env", {}).items()}
            self.facts = {name: _fact(entry) for name, entry in data.get("facts", {}).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{folder / 'session.json'}: is no session description: {error}") from None
        self.lines = self.bytes = 0

    def observations(self, chunk: int | None = None) -> Iterator[Observation]:
        """The observations in the order in which they came; `chunk` cuts the log finer (for tests)."""
        splitter = SkippingSplitter()
        reader = Reader()
        t = 0.0
        try:
            skips = sorted(self._skips())
            with (self.folder / "log.txt").open("rb") as log:
                size = (self.folder / "log.txt").stat().st_size
                for entry in self._entries():
                    t = finite(entry.get("t", t))
                    if "log" in entry:
                        start = log.tell()
                        arrived = None if entry.get("old") else t
                        yield from _fed(splitter, start, log.read(min(int(entry["log"]), size)), arrived, skips, chunk)
                    elif "late" in entry:
                        yield from self._late(entry["late"])
                    elif "exit" in entry:
                        yield from splitter.close(t)
                        yield _exit(t, entry["exit"])
                    elif "skip" not in entry:
                        yield reader.sample(t, entry)
                # A recording that was cut off may have more output than entries.
                while rest := log.read(1 << 16):
                    yield from _fed(splitter, log.tell() - len(rest), rest, t, skips, chunk)
                yield from splitter.close(t)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise UserError(f"{self.folder}: is damaged: {error}") from None
        self.lines, self.bytes = splitter.lines, splitter.size

    def _late(self, entry: Sequence[int]) -> Iterator[Observation]:
        start, length, line = (int(number) for number in entry)
        with (self.folder / "log.txt").open("rb") as log:
            log.seek(max(0, start))
            yield from late_lines(log.read(max(0, min(length, MOST_LATE))), line)

    def _skips(self) -> Iterator[Range]:
        for entry in self._entries("skip"):
            if "skip" in entry:
                offset, length = (int(number) for number in entry["skip"])
                yield offset, length

    def _entries(self, word: str = "") -> Iterator[dict[str, Any]]:
        return json_lines(self.folder / "samples.jsonl", word)


def _fed(
    splitter: SkippingSplitter, start: int, data: bytes, t: float | None, skips: list[Range], chunk: int | None
) -> Iterator[Observation]:
    while skips and sum(skips[0]) <= start:
        del skips[0]
    for piece, skipped in pieces(start, data, skips):
        if skipped:
            splitter.skip(len(piece), piece.count(b"\n"))
            continue
        size = chunk or max(len(piece), 1)
        for at in range(0, len(piece), size):
            yield from splitter.feed(piece[at : at + size], t)


def _exit(t: float, entry: Mapping[str, Any]) -> Exit:
    return Exit(t, int(entry["status"]), _text(entry.get("signal")), _text(entry.get("asked")))


def _fact(entry: Mapping[str, Any]) -> Fact:
    value = entry["value"]
    if not isinstance(value, str | int | float | list):
        raise ValueError(f"{value!r} is no value of a fact")
    return Fact(tuple(value) if isinstance(value, list) else value, str(entry["source"]))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)
