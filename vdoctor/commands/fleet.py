"""vdoctor fleet: any number of logs, on Dask."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from vdoctor.commands.streams import draw, show, tell
from vdoctor.errors import UserError
from vdoctor.fleet.run import Fleet, analyse
from vdoctor.launch import options as option_tables
from vdoctor.report.error_words import translated
from vdoctor.report.words import word
from vdoctor.store import load_rules

_TABLES = (("by_cause", "cause"), ("by_version", "version"), ("by_host", "host"))
_MOST = 12


def fleet(
    paths: Sequence[str],
    *,
    output: Path,
    form: str,
    scheduler: str | None,
    workers: int | None,
    part: int,
    storage: str | None,
    rules: Sequence[Path],
    lang: str,
) -> int:
    """Analyse all logs into `output`: 0 nothing wrong, 1 something found, 2 one could not be read, 3 a fault."""
    how = Fleet(scheduler, workers, part, lang, _storage(storage))
    shown = sys.stderr.isatty()

    def progress(done: int, total: int) -> None:
        if shown:
            draw(f"\r{done}/{total}" + ("" if done < total else "\n"))

    parts = analyse(paths, output, load_rules(rules), option_tables.load(), form=form, fleet=how, progress=progress)
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("status", "verdict", "cause", "version", "host")}
    for row in parts.rows(["name", "message", *counts]):
        for name, counter in counts.items():
            if row[name] is not None:
                counter[row[name]] += 1
        if row["message"]:
            tell(f"vdoctor: {translated(row['message'], lang)}\n")
    _print(counts, lang)
    if counts["status"]["fault"]:
        return 3
    return 2 if counts["status"]["unreadable"] else int(any(verdict != "healthy" for verdict in counts["verdict"]))


def _storage(text: str | None) -> dict[str, object] | None:
    try:
        value = json.loads(text) if text else None
    except ValueError as error:
        raise UserError(f"--storage: not valid JSON: {error}", """such as --storage '{"anon": true}'""") from None
    if value is not None and not isinstance(value, dict):
        raise UserError("--storage: not a JSON object", """such as --storage '{"anon": true}'""")
    return value


def _print(counts: dict[str, Counter[str]], lang: str) -> None:
    verdicts = ", ".join(f"{n} {word(name, lang).partition(':')[0]}" for name, n in counts["verdict"].most_common())
    show(f"{sum(counts['status'].values())} {word('logs', lang)}: {verdicts}")
    for title, name in _TABLES:
        show(f"  {word(title, lang)}")
        for value, count in sorted(counts[name].items(), key=lambda entry: (-entry[1], entry[0]))[:_MOST]:
            show(f"    {count:>6}  {value}")
