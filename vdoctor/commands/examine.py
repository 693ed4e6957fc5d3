"""What several commands share: examine an input, print a report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from vdoctor.commands.output import check_output as check_output
from vdoctor.commands.output import emit as emit
from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.intake.files import Input, check_text
from vdoctor.intake.gpu_log import Row, read_rows, with_steady
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch.command import parse
from vdoctor.launch.options import OptionTable
from vdoctor.live.session import Session
from vdoctor.model import Report, Source
from vdoctor.report.json import to_dict
from vdoctor.rulebase.schema import RuleBase
from vdoctor.startup.recording import play

#: Five rows a second of eight GPUs for two hours are 30 MiB.
_MOST_GPU_LOG = 64 << 20


def examine_input(one: Input, rules: RuleBase, options: OptionTable, gpu_log: Path | None = None) -> Report:
    """The report on one saved log, with a recording of nvidia-smi beside it. Raises UserError when one cannot be read."""
    rows = read_gpu_log(gpu_log) if gpu_log is not None else []
    examination = Examination(rules, options)
    splitter = LineSplitter()
    for chunk in check_text(one.name, one.chunks()):
        examination.feed(splitter.feed(chunk))
    examination.feed(splitter.close())
    if rows and not play(rows, examination.timeline, examination.ledger):
        tell(f"vdoctor: {gpu_log}: its times do not meet those of the log: only totals and peaks are told\n")
    source = Source("stdin" if one.name == "-" else "file", one.name, splitter.lines, splitter.bytes)
    return examination.report(source)


def read_gpu_log(path: Path) -> list[Row]:
    """The rows of a recording of nvidia-smi. Raises UserError: what, where, what next."""
    try:
        if path.stat().st_size > _MOST_GPU_LOG:
            raise UserError(f"{path}: is larger than {_MOST_GPU_LOG >> 20} MiB", "cut out the time of the start")
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read: {error.strerror}", "--gpu-log takes a recording of nvidia-smi"
        ) from None
    return with_steady(read_rows(str(path), text.splitlines()))


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


def render(reports: list[Report], form: str, lang: str, *, color: bool, verbose: bool, width: int = 100) -> str:
    """The reports as one text: JSON object or list, or text with a heading for each of several."""
    if form == "json":
        data = [to_dict(report, lang) for report in reports]
        whole = "utf" in (sys.stdout.encoding or "utf-8").lower()
        return json.dumps(data[0] if len(data) == 1 else data, indent=1, ensure_ascii=not whole) + "\n"
    from vdoctor.report.text import render as render_text

    texts: Iterator[str] = (
        (f"== {clean(report.source.name)}\n" if len(reports) > 1 else "")
        + render_text(report, lang=lang, color=color, width=width, verbose=verbose)
        for report in reports
    )
    return "\n".join(texts)


def tell(text: str) -> None:
    """Write to standard error; a reader that went away ends the telling, not the run."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 2)
        os.close(devnull)


def terminal_width(fd: int) -> int:
    """Columns of the terminal at `fd`; COLUMNS beats it, and 100 is taken where there is none."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    try:
        return os.get_terminal_size(fd).columns or 100
    except OSError:
        return 100


def use_color(wanted: bool, stream_is_terminal: bool) -> bool:
    """Colour on a terminal unless --no-color or NO_COLOR says otherwise."""
    return wanted and stream_is_terminal and not os.environ.get("NO_COLOR")
