"""Session folders: the recording of one watched launch, and its replay.

`log.txt` holds the output as captured; `samples.jsonl` one JSON object a line in order of time:
`{"t": seconds, "log": bytes}` (so many bytes of log.txt arrived then), a sample (records.py), or
`{"t", "exit"}`; `session.json` the launch; `case.json` the label, as in fixtures.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from vdoctor import __version__
from vdoctor.errors import UserError
from vdoctor.intake.splitter import LineSplitter
from vdoctor.live.records import Reader, Writer, finite
from vdoctor.model import Exit, Fact, Observation, Sample

SCHEMA = "vdoctor.session/1"


class Recorder:
    """Writes a session while it happens. A disk that fails stops the recording, not the child."""

    def __init__(self, folder: Path, command: list[str], env: Mapping[str, str], facts: Mapping[str, Fact]) -> None:
        """Create the folder. Raises UserError when it cannot be written or holds a session already."""
        self.folder = folder
        self.failed: OSError | None = None
        self._command = command
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

    def log(self, t: float, data: bytes) -> None:
        """Output that arrived at `t` seconds after the launch."""
        if self.failed:
            return
        try:
            self._log.write(data)
            self._log.flush()
            self._line({"t": round(t, 4), "log": len(data)})
        except OSError as error:
            self.failed = error

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
                "env": self._env,
                "facts": {name: {"value": fact.value, "source": fact.source} for name, fact in self._facts.items()},
                "exit": {"status": end.status, "signal": end.signal, "asked": end.asked} if end else None,
            },
        )


def is_session(folder: Path) -> bool:
    """Whether the folder was recorded by `watch`."""
    try:
        return (folder / "session.json").is_file() and (folder / "log.txt").is_file()
    except OSError:
        # A name too long, a folder that may not be entered: whoever opens it says so.
        return False


class Session:
    """A recorded session, for replay. Raises UserError when its files cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            data = json.loads((folder / "session.json").read_text(encoding="utf-8"))
            self.command = [str(word) for word in data["command"]]
            self.env = {str(k): str(v) for k, v in data.get("env", {}).items()}
            self.facts = {name: _fact(entry) for name, entry in data.get("facts", {}).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{folder / 'session.json'}: is no session description: {error}") from None
        self.lines = self.bytes = 0

    def observations(self, chunk: int | None = None) -> Iterator[Observation]:
        """The observations in the order in which they came; `chunk` cuts the log finer (for tests)."""
        splitter = LineSplitter()
        reader = Reader()
        t = 0.0
        try:
            with (self.folder / "log.txt").open("rb") as log:
                size = (self.folder / "log.txt").stat().st_size
                for entry in self._entries():
                    t = finite(entry.get("t", t))
                    if "log" in entry:
                        yield from _fed(splitter, log.read(min(int(entry["log"]), size)), t, chunk)
                    elif "exit" in entry:
                        yield from splitter.close(t)
                        yield _exit(t, entry["exit"])
                    else:
                        yield reader.sample(t, entry)
                # A recording that was cut off may have more output than entries.
                while rest := log.read(1 << 16):
                    yield from _fed(splitter, rest, t, chunk)
                yield from splitter.close(t)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise UserError(f"{self.folder}: is damaged: {error}") from None
        self.lines, self.bytes = splitter.lines, splitter.bytes

    def _entries(self) -> Iterator[dict[str, Any]]:
        path = self.folder / "samples.jsonl"
        if not path.is_file():
            return
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                entry = None
                # The last line of a session that was killed is cut off.
                with contextlib.suppress(ValueError, RecursionError):
                    entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry


def _fed(splitter: LineSplitter, data: bytes, t: float, chunk: int | None) -> Iterator[Observation]:
    size = chunk or max(len(data), 1)
    for start in range(0, len(data), size):
        yield from splitter.feed(data[start : start + size], t)


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
