#!/usr/bin/env python3
"""How often the first finding is the right one, by family of causes: a Markdown table.

usage: accuracy.py [FOLDER]...     (default: fixtures/)
       accuracy.py --write         the table of fixtures/ in docs/accuracy.md

A case is a folder with log.txt and case.json (`id`, `also`: other ids that are right, `phase`). `"offline": false` marks
one whose log shows nothing; it is left out. Every log is read as `vdoctor analyze` reads it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdoctor.commands.many import examine_all, logs
from vdoctor.launch import options as option_tables
from vdoctor.model import Report
from vdoctor.store import load_rules

FIXTURES = Path(__file__).parent.parent / "fixtures"
PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
_TABLE = re.compile(r"(?<=<!-- accuracy -->\n).*?(?=<!-- /accuracy -->)", re.DOTALL)
_SURE = ("certain", "confirmed")


@dataclass(slots=True)
class Row:
    """Counts of one family."""

    cases: int = 0
    first: int = 0
    three: int = 0
    phase: int = 0
    sure_wrong: int = 0


def judge(label: dict[str, Any], report: Report | None, row: Row) -> None:
    """Add one case to its row. A healthy log counts as right when nothing above `info` is found in it."""
    row.cases += 1
    findings = report.findings if report is not None else ()
    if label["id"] == "healthy":
        quiet = report is not None and report.verdict == "healthy" and all(f.severity == "info" for f in findings)
        row.first, row.three, row.phase = row.first + quiet, row.three + quiet, row.phase + quiet
        row.sure_wrong += any(f.severity != "info" and f.confidence in _SURE for f in findings)
        return
    right = {label["id"], *label.get("also", ())}
    row.first += bool(findings) and findings[0].id in right
    row.three += bool(right & {finding.id for finding in findings[:3]})
    row.phase += report is not None and report.phase == label["phase"]
    row.sure_wrong += bool(findings) and findings[0].id not in right and findings[0].confidence in _SURE


def measure(folders: Iterable[Path]) -> dict[str, Row]:
    """Family to counts, in order of the alphabet."""
    labels = {}
    for folder in folders:
        for path in sorted(folder.rglob("case.json")):
            label = json.loads(path.read_text(encoding="utf-8"))
            if label.get("offline", True):
                labels[str(path.parent / "log.txt")] = label
    rows: dict[str, Row] = {}
    found = logs(list(labels))
    for (_, label), outcome in zip(labels.items(), examine_all(found, load_rules(), option_tables.load()), strict=True):
        judge(label, outcome.report, rows.setdefault(label["id"].split(".")[0], Row()))
    return dict(sorted(rows.items()))


def table(rows: dict[str, Row]) -> str:
    """The counts as Markdown, with their sum."""
    total = Row(*(sum(getattr(row, name) for row in rows.values()) for name in Row.__slots__))
    lines = ["| family | logs | first is right | among the first three | phase | sure, and wrong |", "|" + " --- |" * 6]
    for name, row in [*((f"`{name}`", row) for name, row in rows.items()), ("all", total)]:
        lines.append(f"| {name} | {row.cases} | {row.first} | {row.three} | {row.phase} | {row.sure_wrong} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table as it is now."""
    now = table(measure([FIXTURES]))
    return _TABLE.sub(lambda _: now, PAGE.read_text(encoding="utf-8"))


def main(argv: list[str]) -> int:
    """0 measured, 2 no case found."""
    if argv == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    rows = measure([Path(one) for one in argv] or [FIXTURES])
    if not rows:
        print(f"no case.json below {' '.join(argv)}", file=sys.stderr)
        return 2
    print(table(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
