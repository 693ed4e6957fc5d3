"""vdoctor confirm --manifest: the fix as an edit of a compose or Kubernetes file. Nothing is started."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from vdoctor.commands.examine import emit, examine_input, examine_session, tell
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.intake.files import inputs
from vdoctor.intake.inputs import small_text
from vdoctor.launch import options as option_tables
from vdoctor.launch.manifest import edit
from vdoctor.live.session import is_session
from vdoctor.model import Fix, Report
from vdoctor.relaunch.steps import hypotheses, outcome_of, with_value
from vdoctor.report.json import pick
from vdoctor.report.proof import working
from vdoctor.report.text import describe
from vdoctor.report.words import word
from vdoctor.rulebase.schema import RuleBase

_MOST = 4 << 20


def edit_manifest(
    source: Path, manifest: Path, only: Sequence[str], output: str | None, lang: str, rules: RuleBase
) -> int:
    """Print the edit of `manifest` for what a trial of `source` showed to work, else for the first fix of what it (a session or a log)
    shows; 0, or 1 for none."""
    try:
        text = small_text(manifest, _MOST)
    except UserError as error:
        raise UserError(error.what, "give --manifest a compose or Kubernetes file") from None
    report = _examined(source, rules)
    version = str(report.facts["vllm.version"].value) if "vllm.version" in report.facts else None
    fix = (None if only else _seen_to_work(report, source)) or _fix(report, only)
    if fix is None:
        tell("vdoctor: " + word("manifest_no_fix", lang) + "\n")
        return 1
    done = edit(text, fix.change, option_tables.load(), version, manifest.name)
    if done is None:
        tell("vdoctor: " + word("manifest_no_server", lang).format(file=clean(str(manifest))) + "\n")
        tell("  " + describe(fix.change, lang) + "\n")
        return 1
    tell(f"vdoctor: {pick(fix.title, lang)}\n")
    if fix.cost:
        tell(f"  {word('price', lang)}: {pick(fix.cost, lang)}\n")
    if done.left:
        tell("  " + word("manifest_left", lang).format(change=describe(done.left, lang)) + "\n")
    tell("  " + word("manifest_not_run", lang) + "\n")
    emit(done.diff, output)
    return 0 if done.diff else 1


def _seen_to_work(report: Report, source: Path) -> Fix | None:
    """What a recorded trial showed to work, as small as it was made, with its price; None where none did."""
    command = working(report)
    trial = next(
        (one for one in reversed(report.trials) if one.command == command and one.verdict == "confirmed"), None
    )
    if trial is None or not trial.change:
        return None
    title = {lang: word("manifest_worked", lang).format(change=describe(trial.change, lang)) for lang in ("en", "zh")}
    where = shlex.join(["vdoctor", "confirm", str(source)])
    cost: Mapping[str, str] | None = {lang: word("manifest_price", lang).format(command=where) for lang in ("en", "zh")}
    for step in hypotheses(outcome_of(report, "other failure", 0.0)):
        if step.id == trial.fix and step.change.flags.keys() == trial.change.flags.keys():
            for flag, setting in trial.change.flags.items():
                step = with_value(step, flag, str(setting)) if isinstance(setting, str) else step
            cost = step.cost
            break
    return Fix(trial.fix, title, "lossy" if cost else "safe", trial.change, cost)


def _fix(report: Report, only: Sequence[str]) -> Fix | None:
    for finding in report.findings:
        for fix in finding.fixes:
            if fix.change and fix.safety != "manual" and (not only or fix.id in only):
                return fix
    return None


def _examined(source: Path, rules: RuleBase) -> Report:
    options = option_tables.load()
    if str(source) != "-" and is_session(source):
        return examine_session(source, rules, options)
    members = list(inputs(str(source), sys.stdin.buffer))
    if len(members) != 1:
        raise UserError(f"{source}: holds {len(members)} logs, one is needed", "name one of them")
    return examine_input(members[0], rules, options)
