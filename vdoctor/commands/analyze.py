"""vdoctor analyze: diagnose saved logs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from vdoctor.commands.examine import emit, emitter, render, terminal_width, use_color, verdict_status
from vdoctor.commands.many import Outcome, examine_all, logs
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.intake.inputs import Input
from vdoctor.launch import options as option_tables
from vdoctor.model import Report
from vdoctor.store import load_rules

#: So many logs take long enough to show how far they are.
_SHOW_PROGRESS = 8


def analyze(
    paths: Sequence[str],
    *,
    form: str,
    output: str | None,
    lang: str,
    rules: Sequence[Path],
    color: bool,
    verbose: bool,
) -> int:
    """Diagnose every log behind `paths`: 0 nothing wrong, 1 something found, 2 one could not be read, 3 a fault."""
    if not paths:
        if sys.stdin.isatty():
            raise UserError("no log given", "vdoctor analyze FILE, or pipe one in: kubectl logs POD | vdoctor analyze")
        paths = ["-"]
    base = load_rules(rules)
    found = logs(paths)
    outcomes = _with_progress(found, examine_all(found, base, option_tables.load()))
    reports: list[Report] = []
    status = 0
    colored = use_color(color, sys.stdout.isatty()) and output in (None, "-")

    def rendered(some: list[Report]) -> str:
        return render(some, form, lang, color=colored, verbose=verbose, width=terminal_width(1))

    write = emitter(output) if form == "jsonl" else None
    for outcome in outcomes:
        status = max(status, _tell(outcome))
        if outcome.report is None:
            continue
        status = max(status, verdict_status(outcome.report))
        if write is None:
            reports.append(outcome.report)
        else:
            write(rendered([outcome.report]))
    if reports:
        emit(rendered(reports), output)
    return status


def _tell(outcome: Outcome) -> int:
    """Say why there is no report, or what to know of it; the exit status that follows."""
    for notice in outcome.notices:
        print(f"vdoctor: {clean(notice)}", file=sys.stderr)
    if outcome.error is not None:
        hint = f"\n  {outcome.error.hint}" if outcome.error.hint else ""
        print(f"vdoctor: {clean(outcome.error.what)}{hint}", file=sys.stderr)
        return 2
    if outcome.fault is not None:
        print(f"vdoctor: {clean(outcome.name)}: a fault in vdoctor itself: {clean(outcome.fault)}", file=sys.stderr)
        print("  run again with VDOCTOR_DEBUG=1 for the traceback, and report it with the log", file=sys.stderr)
        return 3
    return 0


def _with_progress(found: Sequence[Input | UserError], outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Many logs on a terminal: a bar on standard error."""
    if len(found) < _SHOW_PROGRESS or not sys.stderr.isatty():
        yield from outcomes
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True, highlight=False, markup=False)
    with Progress(
        BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True
    ) as progress:
        task = progress.add_task("", total=len(found))
        for outcome in outcomes:
            yield outcome
            progress.advance(task)
