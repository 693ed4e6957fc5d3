"""vdoctor analyze: diagnose saved logs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vdoctor.commands.examine import emit, emitter, read_gpu_log, render, terminal_width, use_color, verdict_status
from vdoctor.commands.many import Outcome, examine, examine_all, logs
from vdoctor.commands.privacy import redaction_table, redactor_for, tell_redaction
from vdoctor.commands.progress import progress
from vdoctor.commands.streams import error_text, tell
from vdoctor.errors import UserError
from vdoctor.intake.inputs import Input
from vdoctor.launch import options as option_tables
from vdoctor.model import Report
from vdoctor.report.error_words import translated
from vdoctor.rulebase.schema import RuleBase
from vdoctor.sieve.around import Near
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
    gpu_log: Path | None = None,
    redact: bool | None = None,
    check_redaction: bool = False,
) -> int:
    """Diagnose every log behind `paths`, one of them with a recording of its GPUs: 0 nothing wrong, 1 something found, 2 one could not be read, 3 a fault."""
    if not paths:
        if sys.stdin.isatty():
            raise UserError("no log given", "vdoctor analyze FILE, or pipe one in: kubectl logs POD | vdoctor analyze")
        paths = ["-"]
    base = load_rules(rules)
    found = logs(paths)
    if gpu_log is None:
        outcomes = _with_progress(found, examine_all(found, base, option_tables.load()))
    else:
        outcomes = iter([_with_gpus(found, gpu_log, base)])
    reports: list[Report] = []
    piped: dict[str, Mapping[int, Near]] = {}
    status = 0
    redactor = None if check_redaction else redactor_for(form, output, redact)
    colored = use_color(color, sys.stdout.isatty()) and output in (None, "-")

    def rendered(some: list[Report]) -> str:
        width = terminal_width(1)
        return render(some, form, lang, color=colored, verbose=verbose, width=width, redactor=redactor, piped=piped)

    write = emitter(output) if form == "jsonl" and not check_redaction else None
    for outcome in outcomes:
        status = max(status, _tell(outcome, lang))
        if outcome.report is None:
            continue
        status = max(status, verdict_status(outcome.report))
        if write is None:
            reports.append(outcome.report)
            piped[outcome.name] = outcome.around
        else:
            write(rendered([outcome.report]))
    if reports:
        emit(redaction_table(reports, form, lang) if check_redaction else rendered(reports), output)
    tell_redaction(redactor, lang)
    return status


def _with_gpus(found: Sequence[Input | UserError], gpu_log: Path, base: RuleBase) -> Outcome:
    """One log, and a recording of nvidia-smi that ran beside it."""
    if len(found) != 1:
        raise UserError(f"--gpu-log goes with one log, not {len(found)}", "vdoctor analyze --gpu-log gpu.csv vllm.log")
    if isinstance(found[0], UserError):
        return Outcome("", error=found[0])
    return examine(found[0], base, option_tables.load(), alone=True, rows=read_gpu_log(gpu_log))


def _tell(outcome: Outcome, lang: str) -> int:
    """Say why there is no report, or what to know of it; the exit status that follows."""
    for notice in outcome.notices:
        tell(f"vdoctor: {translated(notice, lang)}" + "\n")
    if outcome.error is not None:
        tell(error_text(outcome.error, lang) + "\n")
        return 2
    if outcome.fault is not None:
        tell(f"vdoctor: {outcome.name}: a fault in vdoctor itself: {outcome.fault}" + "\n")
        tell("  run again with VDOCTOR_DEBUG=1 for the traceback, and report it with the log\n")
        return 3
    return 0


def _with_progress(found: Sequence[Input | UserError], outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Many logs on a terminal: a bar on standard error."""
    with progress(len(found), _SHOW_PROGRESS, counted=True) as advance:
        for outcome in outcomes:
            yield outcome
            advance(1)
