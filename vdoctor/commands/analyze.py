"""vdoctor analyze: diagnose saved logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from vdoctor.commands.examine import (
    emit,
    examine_input,
    examine_session,
    render,
    terminal_width,
    use_color,
    verdict_status,
)
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.intake.files import Input, inputs
from vdoctor.launch import options as option_tables
from vdoctor.launch.options import OptionTable
from vdoctor.live.session import is_session
from vdoctor.model import Report
from vdoctor.rulebase.schema import RuleBase
from vdoctor.store import load_rules


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
) -> int:
    """Diagnose every log behind `paths`, one of them with a recording of its GPUs; 0 nothing wrong, 1 something found, 2 one could not be read."""
    if not paths:
        if sys.stdin.isatty():
            raise UserError("no log given", "vdoctor analyze FILE, or pipe one in: kubectl logs POD | vdoctor analyze")
        paths = ["-"]
    if gpu_log is not None and len(paths) > 1:
        raise UserError("--gpu-log goes with one log", "vdoctor analyze --gpu-log gpu.csv vllm.log")
    base = load_rules(rules)
    options = option_tables.load()
    reports: list[Report] = []
    unreadable = False
    for path in paths:
        try:
            if path != "-" and is_session(Path(path)):
                if gpu_log is not None:
                    raise UserError(f"{path}: --gpu-log goes with a plain log; a session holds its own samples")
                reports.append(examine_session(Path(path), base, options))
                continue
            members = inputs(path, sys.stdin.buffer)
        except UserError as error:
            unreadable = _complain(error)
            continue
        if gpu_log is not None and len(members) > 1:
            raise UserError(f"{path}: holds {len(members)} logs, --gpu-log goes with one")
        for one in members:
            try:
                reports.append(_examine(one, base, options, gpu_log))
            except UserError as error:
                unreadable = _complain(error)
    if reports:
        colored = use_color(color, sys.stdout.isatty()) and output in (None, "-")
        emit(render(reports, form, lang, color=colored, verbose=verbose, width=terminal_width(1)), output)
    if unreadable:
        return 2
    return max(verdict_status(report) for report in reports)


def _examine(one: Input, base: RuleBase, options: OptionTable, gpu_log: Path | None) -> Report:
    """A folder of logs may hold recorded sessions: these have times and samples beside the log."""
    folder = one.path.parent if one.path is not None and one.path.name == "log.txt" else None
    if folder is not None and is_session(folder):
        return examine_session(folder, base, options)
    return examine_input(one, base, options, gpu_log)


def _complain(error: UserError) -> bool:
    print(f"vdoctor: {clean(error.what)}" + (f"\n  {error.hint}" if error.hint else ""), file=sys.stderr)
    return True
