"""What several commands share: examine an input, print a report."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.intake.files import Input, check_text
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch.command import parse
from vdoctor.launch.options import OptionTable
from vdoctor.live.session import Session
from vdoctor.model import Report, Source
from vdoctor.report.json import to_dict
from vdoctor.rulebase.schema import RuleBase


def examine_input(one: Input, rules: RuleBase, options: OptionTable) -> Report:
    """The report on one saved log. Raises UserError when it cannot be read."""
    examination = Examination(rules, options)
    splitter = LineSplitter()
    for chunk in check_text(one.name, one.chunks()):
        examination.feed(splitter.feed(chunk))
    examination.feed(splitter.close())
    source = Source("stdin" if one.name == "-" else "file", one.name, splitter.lines, splitter.bytes)
    return examination.report(source)


def examine_session(folder: Path, rules: RuleBase, options: OptionTable) -> Report:
    """The report on a recorded session: the same as `watch` gave."""
    session = Session(folder)
    launch = parse([*(f"{k}={v}" for k, v in session.env.items()), *session.command])
    examination = Examination(rules, options, launch, session.facts)
    examination.feed(session.observations())
    return examination.report(Source("session", str(folder), session.lines, session.bytes))


def verdict_status(report: Report) -> int:
    """0 nothing wrong, 1 something found."""
    return 0 if report.verdict == "healthy" else 1


def render(reports: list[Report], form: str, lang: str, *, color: bool, verbose: bool) -> str:
    """The reports as one text: JSON object or list, or text with a heading for each of several."""
    if form == "json":
        data = [to_dict(report, lang) for report in reports]
        return json.dumps(data[0] if len(data) == 1 else data, indent=1, ensure_ascii=False) + "\n"
    from vdoctor.report.text import render as render_text

    width = shutil.get_terminal_size((100, 24)).columns
    texts: Iterator[str] = (
        (f"== {report.source.name}\n" if len(reports) > 1 else "")
        + render_text(report, lang=lang, color=color, width=width, verbose=verbose)
        for report in reports
    )
    return "\n".join(texts)


def emit(text: str, output: str | None) -> None:
    """Write the result to standard output or to a file. Raises UserError when the file cannot be written."""
    if output is None or output == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror}", "give --output another path") from None


def use_color(wanted: bool, stream_is_terminal: bool) -> bool:
    """Colour on a terminal unless --no-color or NO_COLOR says otherwise."""
    return wanted and stream_is_terminal and not os.environ.get("NO_COLOR")
