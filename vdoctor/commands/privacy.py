"""When redaction is on, and what it did."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING, TextIO

from vdoctor.commands.streams import tell
from vdoctor.model import Report

if TYPE_CHECKING:
    from vdoctor.report.redact import Redactor


def redactor_for(form: str, output: str | None, wanted: bool | None, stream: TextIO | None = None) -> Redactor | None:
    """A redactor when the result leaves this machine's screen: Markdown, HTML, and whatever is written to a file.

    A terminal and a pipe to another program show things as they are. `wanted` is the user's own word, None if none.
    """
    leaves = form in ("markdown", "html") or output not in (None, "-") or _is_file(stream or sys.stdout)
    if not (leaves if wanted is None else wanted):
        return None
    from vdoctor.report.redact import Redactor

    return Redactor()


def tell_redaction(redactor: Redactor | None, lang: str) -> None:
    """One line on standard error that says what was hidden, if anything was."""
    if redactor is None or not redactor.names.distinct():
        return
    from vdoctor.report.page_words import say

    kinds = ", ".join(f"{count} {kind}" for kind, count in redactor.names.distinct().items())
    tell(f"vdoctor: {say('hidden', lang, kinds=kinds)}\n")


def redaction_table(reports: list[Report], form: str, lang: str) -> str:
    """What redaction replaces in the reports: kinds and counts, no values."""
    from vdoctor.report.redact import Redactor, redact

    redactor = Redactor()
    for report in reports:
        redact(report, redactor)
    return counts(redactor, form, lang)


def counts(redactor: Redactor, form: str, lang: str) -> str:
    """Kinds with the number of different values and of places, as text or JSON."""
    different, places = redactor.names.distinct(), redactor.names.replaced
    if form == "json":
        kinds = {kind: {"values": count, "places": places[kind]} for kind, count in different.items()}
        return json.dumps({"schema": "vdoctor.redaction/1", "kinds": kinds}, indent=1) + "\n"
    from vdoctor.report.page_words import say

    if not different:
        return say("nothing_private", lang) + "\n"
    rows = [f"{say('kind', lang):<12}  {say('values', lang):>8}  {say('places', lang):>8}"]
    rows += [f"{kind:<12}  {count:>8}  {places[kind]:>8}" for kind, count in different.items()]
    return "\n".join(rows) + "\n"


def _is_file(stream: TextIO) -> bool:
    """Whether the shell sends the stream to a file."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False
