"""vdoctor confirm --manifest: the fix as an edit of a compose or Kubernetes file. Nothing is started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
from vdoctor.report.json import pick
from vdoctor.report.text import describe
from vdoctor.report.words import word
from vdoctor.rulebase.schema import RuleBase

_MOST = 4 << 20


def edit_manifest(
    source: Path, manifest: Path, only: Sequence[str], output: str | None, lang: str, rules: RuleBase
) -> int:
    """Print the edit of `manifest` for the first fix of what `source` (a session or a log) shows; 0, or 1 for none."""
    try:
        text = small_text(manifest, _MOST)
    except UserError as error:
        raise UserError(error.what, "give --manifest a compose or Kubernetes file") from None
    report = _examined(source, rules)
    version = str(report.facts["vllm.version"].value) if "vllm.version" in report.facts else None
    fix = _fix(report, only)
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
