"""vdoctor rules: list and lint."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from vdoctor.errors import RuleError, UserError
from vdoctor.launch import options as option_tables
from vdoctor.proof import lint as prove
from vdoctor.report.json import pick
from vdoctor.rulebase.loader import load
from vdoctor.rulebase.template import fill
from vdoctor.store import load_rules, rule_files, shipped_rules


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
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    width = max((len(row["rule"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['rule']:<{width}}  {row['severity']:<8}  {row['title']}")
    print(f"{len(rows)} rules", file=sys.stderr)
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
        print(error.what, file=sys.stderr)
        print(f"{_count(error.what)} in the form; examples are proven when these are mended", file=sys.stderr)
        return 2
    chosen = frozenset(rule.id for rule in base.rules if rule.place in only) if paths else None
    faults = prove(base, option_tables.load(), chosen)
    for fault in faults:
        print(fault, file=sys.stderr)
    checked = len(chosen) if chosen is not None else len(base.rules)
    print(f"{checked} rules checked, {len(faults)} faults", file=sys.stderr)
    return 2 if faults else 0


def _named(path: Path) -> list[tuple[str, str]]:
    if path.is_dir():
        return list(rule_files(path))
    try:
        return [(str(path), path.read_text(encoding="utf-8"))]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}", "give a rule file or a folder of them") from None


def _count(text: str) -> str:
    number = sum(1 for line in text.splitlines() if line and not line.startswith(" "))
    return f"{number} fault{'' if number == 1 else 's'}"


def plain(text: str) -> str:
    """A template as it reads without any fact: optional parts left out, the others named."""
    return fill(text, {}) or text.replace("[[", "").replace("]]", "")
