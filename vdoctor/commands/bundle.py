"""vdoctor bundle: pack a recorded session for support, redacted, the same bytes every time."""

from __future__ import annotations

import contextlib
import gzip
import json
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vdoctor import __version__
from vdoctor.commands.examine import emit, examine_session, tell
from vdoctor.commands.privacy import counts
from vdoctor.commands.progress import progress
from vdoctor.commands.recording import log_texts, write_recording
from vdoctor.errors import UserError
from vdoctor.intake.inputs import json_lines, small_file
from vdoctor.launch import options as option_tables
from vdoctor.live.packed import MARKER, is_packed
from vdoctor.live.session import is_session
from vdoctor.relaunch.book import trial_folders
from vdoctor.report.json import to_dict
from vdoctor.report.page_words import say
from vdoctor.report.redact import Redactor, redact
from vdoctor.store import load_rules

SCHEMA = "vdoctor.bundle/1"
#: Bytes of work below which a bar would flash up and go.
_WORTH = 4 << 20
_MAX_JSON = 16 << 20
#: Fields of a trial that hold words and figures of vdoctor's own.
_OWN = frozenset({"fix", "verdict", "seconds", "finding", "step", "forward", "session", "tokens_per_second", "latency"})


def bundle(session: Path, *, output: str | None, lang: str, rules: Sequence[Path], check_redaction: bool) -> int:
    """Write the archive and print its name. Raises UserError when the session cannot be read or the file written."""
    if is_packed(session) or not is_session(session):
        raise UserError(f"{session}: is no recorded session", "give a folder that vdoctor watch recorded")
    target = Path(output or f"{session.resolve().name}.tar.gz")
    report = examine_session(session, load_rules(rules), option_tables.load())
    recordings = {".": session} | {str(one.relative_to(session)): one for one in trial_folders(session)}
    redactor = Redactor()
    with (
        tempfile.TemporaryDirectory(prefix="vdoctor-") as name,
        # Each log is read for what is private in it, read again to be written, and packed.
        progress(3 * sum((one / "log.txt").stat().st_size for one in recordings.values()), _WORTH) as advance,
    ):
        folder = Path(name)
        for one in recordings.values():
            redactor.learn(log_texts(one / "log.txt", advance))
        hidden = redact(report, redactor)
        for place, one in recordings.items():
            _write_session(one, folder / place, redactor, advance)
        _write_trials(session / "trials.jsonl", folder / "trials.jsonl", redactor)
        _write(folder / "report.json", to_dict(hidden, lang))
        about = {"schema": SCHEMA, "vdoctor": __version__, "replaced": redactor.names.distinct()}
        _write(folder / MARKER, about)
        if not check_redaction:
            _pack(folder, target, advance)
    if check_redaction:
        emit(counts(redactor, "text", lang), None)
        return 0
    emit(f"{target}\n", None)
    kinds = ", ".join(f"{count} {kind}" for kind, count in redactor.names.distinct().items())
    tell(f"vdoctor: {say('packed', lang, kinds=kinds or '0', file=target)}\n")
    return 0


def _write_session(session: Path, folder: Path, redactor: Redactor, advance: Callable[[int], None]) -> None:
    """One recording, that of the launch or that of a trial."""
    folder.mkdir(parents=True, exist_ok=True)
    write_recording(session, folder, redactor, advance)
    for file in ("session.json", "case.json"):
        if (data := _json(session / file)) is not None:
            if isinstance(data, dict):
                # Only a relaunch needs it, and it may name a person or a project.
                data.pop("cwd", None)
            _write(folder / file, redactor.value(data))


def _write_trials(source: Path, target: Path, redactor: Redactor) -> None:
    """What was tried. The key of a trial is a hash of its command, which may hold a password that can be guessed."""
    entries = [
        {name: value if name in _OWN else redactor.value(value, name) for name, value in entry.items()}
        | {"key": str(number)}
        for number, entry in enumerate(json_lines(source), 1)
    ]
    if entries:
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        target.write_text(text, encoding="utf-8", errors="backslashreplace")


def _json(path: Path) -> Any:
    """A file's data, None for no file (a pipe would wait for ever)."""
    if not path.is_file():
        return None
    try:
        return json.loads(small_file(path, _MAX_JSON))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace")


def _pack(folder: Path, target: Path, advance: Callable[[int], None]) -> None:
    """Sorted members, no times, no owners: the same session gives the same bytes."""
    part = target.with_name(f"{target.name}.part")
    # The marker stands first: the head of the file tells that it is a session.
    paths = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda one: (one.name != MARKER, str(one))
    )
    try:
        with (
            part.open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            for path in paths:
                member = tarfile.TarInfo(f"session/{path.relative_to(folder).as_posix()}")
                member.size, member.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    archive.addfile(member, file)
                advance(member.size if path.name == "log.txt" else 0)
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UserError(f"{target}: cannot be written: {error.strerror}", "give --output another path") from None
