"""What several commands share: examine an input, print a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vdoctor.commands.streams import check_output, emit, tell, terminal_width, use_color
from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.intake.gpu_log import Row, read_rows, with_steady
from vdoctor.intake.inputs import small_file
from vdoctor.launch.command import parse
from vdoctor.launch.options import OptionTable
from vdoctor.live.session import Session
from vdoctor.model import Report, Source
from vdoctor.relaunch.book import Book
from vdoctor.report.json import printed, to_dict
from vdoctor.rulebase.schema import RuleBase
from vdoctor.sieve.around import Near
from vdoctor.sieve.examine import examine_input

#: Five rows a second of eight GPUs for two hours are 30 MiB.
_MOST_GPU_LOG = 64 << 20

__all__ = [
    "check_output",
    "emit",
    "examine_input",
    "examine_session",
    "render",
    "tell",
    "terminal_width",
    "use_color",
    "verdict_status",
]

if TYPE_CHECKING:
    from vdoctor.report.redact import Redactor


def read_gpu_log(path: Path) -> list[Row]:
    """The rows of a recording of nvidia-smi. Raises UserError: what, where, what next."""
    try:
        text = small_file(path, _MOST_GPU_LOG, pipe=True).decode("utf-8-sig", "replace")
    except UserError as error:
        large = "larger" in error.what
        raise UserError(
            error.what, "cut out the time of the start" if large else "--gpu-log takes a recording of nvidia-smi"
        ) from None
    return with_steady(read_rows(str(path), text.splitlines()))


def examine_session(folder: Path, rules: RuleBase, options: OptionTable) -> Report:
    """The report on a recorded session: the same as `watch` gave, with the trials that `confirm` made since."""
    session = Session(folder)
    words = [*(f"{k}={v}" for k, v in session.env.items()), *session.command]
    launch = parse(words) if words else None
    stall_after = session.facts.get("watch.stall_after")
    seconds = float(stall_after.value) if stall_after and isinstance(stall_after.value, int | float) else None
    examination = Examination(rules, options, launch, session.facts, seconds)
    examination.feed(session.observations())
    report = examination.report(Source("session", str(folder), session.lines, session.bytes))
    trials = Book(session.folder).trials
    return replace(report, trials=trials) if trials else report


def verdict_status(report: Report) -> int:
    """0 nothing wrong, 1 something found."""
    return 0 if report.verdict == "healthy" else 1


def render(
    reports: list[Report],
    form: str,
    lang: str,
    *,
    color: bool,
    verbose: bool,
    width: int = 100,
    redactor: Redactor | None = None,
    piped: Mapping[str, Mapping[int, Near]] | None = None,
) -> str:
    """The reports as one text: JSON object or list, Markdown, HTML, or text with a heading for each of several.

    With a redactor, everything private in them gets a name such as `host-1`. `piped`: the lines around the evidence of
    logs that cannot be read again, by their names.
    """
    if form == "html":
        from vdoctor.commands.recordings import recordings
        from vdoctor.report.html import render as render_html

        reports, told = recordings(reports, redactor, piped)
        return render_html(reports, told, lang=lang)
    if redactor is not None:
        from vdoctor.report.redact import redact

        reports = [redact(report, redactor) for report in reports]
    if form == "jsonl":
        return "".join(json.dumps(to_dict(report, lang), separators=(",", ":")) + "\n" for report in reports)
    if form == "json":
        data = [to_dict(report, lang) for report in reports]
        whole = "utf" in (sys.stdout.encoding or "utf-8").lower()
        return printed(data[0] if len(data) == 1 else data, ascii_only=not whole) + "\n"
    if form == "markdown":
        from vdoctor.report.markdown import render as render_markdown

        return render_markdown(reports, lang=lang)
    from vdoctor.report.text import render as render_text

    texts: Iterator[str] = (
        (f"== {clean(report.source.name)}\n" if len(reports) > 1 else "")
        + render_text(report, lang=lang, color=color, width=width, verbose=verbose)
        for report in reports
    )
    shown = "\n".join(texts)
    if len(reports) == 1:
        return shown
    from vdoctor.report.summary import render as render_summary

    return render_summary(reports, lang) + "\n" + shown


def emitter(output: str | None) -> Callable[[str], None]:
    """Writes one text after the other to standard output or to a file, which is begun anew."""
    if output is None or output == "-":
        return lambda text: emit(text, None)
    check_output(output)
    place = Path(output)
    emit("", output)

    def append(text: str) -> None:
        with place.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)

    return append
