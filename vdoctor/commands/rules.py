"""vdoctor rules: list, lint, new, test."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from vdoctor.commands.streams import show, tell
from vdoctor.diagnose import Examination
from vdoctor.errors import RuleError, UserError
from vdoctor.intake.inputs import small_file, small_text
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch import options as option_tables
from vdoctor.model import Event, phase_of
from vdoctor.proof import example_faults
from vdoctor.proof import lint as prove
from vdoctor.report.json import pick, printed
from vdoctor.rulebase.causes import CAUSES
from vdoctor.rulebase.draft import draft
from vdoctor.rulebase.loader import load
from vdoctor.rulebase.schema import RuleBase
from vdoctor.rulebase.template import fill
from vdoctor.store import MAX_RULE, load_rules, rule_files, shipped_rules

_MAX_LOG = 256 << 20


def list_rules(folders: Sequence[Path], *, lang: str, form: str) -> int:
    """Print id, finding id, status and title of every rule."""
    base = load_rules(folders)
    rows = [
        {
            "rule": r.id,
            "id": r.cause,
            "status": r.status,
            "severity": r.severity,
            "title": plain(pick(r.text("title"), lang)),
        }
        for r in base.rules
    ]
    if form == "json":
        show(printed(rows))
        return 0
    width = max((len(row["rule"]) for row in rows), default=0)
    for row in rows:
        show(f"{row['rule']:<{width}}  {row['severity']:<8}  {row['title']}")
    tell(f"{len(rows)} rules" + "\n")
    return 0


def lint(paths: Sequence[Path]) -> int:
    """Check rule files; 0 all good, 2 faults (each with place, reason, help)."""
    shipped = shipped_rules()
    files = dict(rule_files(shipped))
    only: set[str] = set()
    for path in paths:
        for place, text in _named(path):
            files = {
                known: content for known, content in files.items() if Path(known).resolve() != Path(place).resolve()
            }
            files[place] = text
            only.add(place)
    try:
        base = load(files.items())
    except RuleError as error:
        tell(error.what + "\n")
        tell(f"{_count(error.what)} in the form; examples are proven when these are mended" + "\n")
        return 2
    chosen = frozenset(rule.id for rule in base.rules if rule.place in only) if paths else None
    faults = prove(base, option_tables.load(), chosen)
    for fault in faults:
        tell(fault + "\n")
    checked = len(chosen) if chosen is not None else len(base.rules)
    tell(f"{checked} rules checked, {len(faults)} faults" + "\n")
    return 2 if faults else 0


def new(rule_id: str, *, from_log: str, cause: str | None, folder: Path) -> int:
    """Write a draft of a rule from one line of a log."""
    family, _, name = rule_id.partition(".")
    if not re.fullmatch(r"[a-z]+\.[a-z0-9]+(?:-[a-z0-9]+)*", rule_id):
        raise UserError(f"{rule_id}: is no rule id", "family.some-name, lower case")
    if cause is not None and cause not in CAUSES:
        near = difflib.get_close_matches(cause, CAUSES, n=3)
        raise UserError(
            f"{cause}: is no finding id", f"did you mean: {', '.join(near)}" if near else "see docs/findings.md"
        )
    target = folder / family / f"{name}.toml"
    if target.exists():
        raise UserError(f"{target}: is there already", "choose another name, or edit it")
    place, _, number = from_log.rpartition(":")
    if not place or not number.isdigit():
        raise UserError(f"{from_log}: is no place in a log", "--from-log FILE:LINE")
    event, phase = _event_at(Path(place), int(number))
    text = draft(rule_id, cause or rule_id, phase, event.text.strip())
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror}", "give --dir another folder") from None
    show(str(target))
    tell(f"  replace every TODO, check the example for secrets, then: vdoctor rules lint {target}" + "\n")
    return 0


def _event_at(path: Path, number: int) -> tuple[Event, str | None]:
    """The event of a line, and the phase in which it came."""
    examination = Examination(RuleBase(()), option_tables.load())
    splitter = LineSplitter()
    data = small_file(path, _MAX_LOG)
    for line in [*splitter.feed(data), *splitter.close()]:
        for event in examination.feed([line]):
            if event.line == number and event.text.strip():
                step = examination.timeline.step_at(event)
                return event, phase_of(step) if step else None
    raise UserError(f"{path}:{number}: no text at this line", f"the log has {splitter.lines} lines")


def test(paths: Sequence[Path]) -> int:
    """Run the examples of rules and say how each came out; 0 all as written, 2 not."""
    base = load(file for path in paths for file in _named(path)) if paths else load_rules(full=True)
    options = option_tables.load()
    wrong = 0
    for rule in base.rules:
        faults = example_faults(rule, options)
        wrong += len(faults)
        show(f"{'FAIL' if faults else 'ok':<5}{rule.id}  {len(rule.examples)} examples")
        for fault in faults:
            show("     " + fault)
    tell(f"{len(base.rules)} rules, {wrong} faults" + "\n")
    return 2 if wrong else 0


def _named(path: Path) -> list[tuple[str, str]]:
    if path.is_dir():
        # The folder of one family, too.
        found = list(rule_files(path)) or [pair for one in sorted(path.glob("*.toml")) for pair in _named(one)]
        if not found:
            raise UserError(f"{path}: no rules in this folder", "give a folder with FAMILY/NAME.toml files")
        return found
    try:
        return [(str(path), small_text(path, MAX_RULE))]
    except UserError as error:
        raise UserError(error.what, "give a rule file or a folder of them") from None


def _count(text: str) -> str:
    number = sum(1 for line in text.splitlines() if line and not line.startswith(" "))
    return f"{number} fault{'' if number == 1 else 's'}"


def plain(text: str) -> str:
    """A template as it reads without any fact: optional parts left out, the others named."""
    return fill(text, {}) or text.replace("[[", "").replace("]]", "")
