"""The trials of a session on disk: `trials.jsonl` beside the recording, one session folder for each in `trials/`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.intake.inputs import text_lines
from vdoctor.launch.command import parse
from vdoctor.launch.options import OptionTable
from vdoctor.live.session import Session, is_session
from vdoctor.model import Change, Report, Source, Trial
from vdoctor.rulebase.schema import RuleBase

_VERDICTS = ("confirmed", "same failure", "other failure", "timed out")
_PLAIN = ("fix", "command", "verdict", "seconds", "finding", "step", "forward", "reason", "session")
_NUMBER = re.compile(r"\d{3,6}")
_MEASURED = ("tokens_per_second", "latency")


def key_of(words: Sequence[str]) -> str:
    """Names a command without showing it: keys and tokens may stand in it."""
    import hashlib

    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()


class Book:
    """What was tried for one session. Raises UserError when it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "trials.jsonl"
        self._trials: dict[str, Trial] = dict(self._read())

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials in their order."""
        return tuple(self._trials.values())

    def get(self, words: Sequence[str]) -> Trial | None:
        """The trial of this very command, when there was one."""
        return self._trials.get(key_of(words))

    def changes(self) -> list[Change]:
        """What was changed in the trials so far."""
        return [trial.change for trial in self._trials.values()]

    def new_folder(self) -> Path:
        """Where the next trial is recorded; the number goes on after trials that were cut off."""
        number = len(self._trials) + 1
        while (self.folder / "trials" / f"{number:03}").exists():
            number += 1
        return self.folder / "trials" / f"{number:03}"

    def add(self, words: Sequence[str], trial: Trial) -> None:
        """Write a trial down, now: the next one may be cut off."""
        key = key_of(words)
        entry: dict[str, Any] = {"key": key, **{name: getattr(trial, name) for name in (*_PLAIN, *_MEASURED)}}
        change = trial.change
        entry["changes"] = {"flags": dict(change.flags), "env": dict(change.env), "container": dict(change.container)}
        try:
            with self._path.open("ab") as file:
                # Behind half a line (cut off by a kill, a full disk) a new one begins.
                gap = b"" if file.tell() == 0 or _ends_line(self._path) else b"\n"
                line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
                file.write(gap + line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(
                f"{self._path}: cannot be written: {error.strerror}", "make room or copy the session"
            ) from None
        self._trials[key] = trial

    def _read(self) -> list[tuple[str, Trial]]:
        """Lines that are no trials (cut off, edited) are passed over."""
        try:
            lines = list(text_lines(self._path))
        except OSError as error:
            raise UserError(f"{self._path}: cannot be read: {error.strerror}") from None
        return [found for line in lines if (found := _parsed(line)) is not None]


def _check_whole(folder: Path) -> None:
    """A trial's label is written last."""
    try:
        kind = json.loads((folder / "case.json").read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{folder}: has no end: {error}") from None
    if kind != "trial":
        raise UserError(f"{folder}: is no whole trial")


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def trial_folders(folder: Path) -> list[Path]:
    """The recordings of the trials of a session, in their order."""
    try:
        found = sorted((folder / "trials").iterdir())
    except OSError:
        return []
    return [one for one in found if _NUMBER.fullmatch(one.name) and is_session(one) and not one.is_symlink()]


def _parsed(line: str) -> tuple[str, Trial] | None:
    try:
        entry = json.loads(line)
        change = Change(**{name: dict(entry["changes"][name]) for name in ("flags", "env", "container")})
        trial = Trial(change=change, **{name: entry[name] for name in (*_PLAIN, *_MEASURED)})
        key = str(entry["key"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return (key, trial) if trial.verdict in _VERDICTS and isinstance(trial.seconds, int | float) else None


def replay(folder: Path, rules: RuleBase, options: OptionTable) -> Report:
    """The report on a recorded trial. Raises UserError when it cannot be read, or was cut off before its end."""
    _check_whole(folder)
    session = Session(folder)
    launch = parse([*(f"{name}={value}" for name, value in session.env.items()), *session.command])
    examination = Examination(rules, options, launch, session.facts)
    examination.feed(session.observations())
    return examination.report(Source("session", str(folder), session.lines, session.bytes))
