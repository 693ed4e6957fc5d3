"""What a run keeps of each log: one flat row, and the whole report in it as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from vdoctor.errors import UserError
from vdoctor.intake.inputs import Input
from vdoctor.launch.options import OptionTable
from vdoctor.model import Report
from vdoctor.report.json import to_dict
from vdoctor.report.summary import cause, host, version
from vdoctor.rulebase.schema import RuleBase
from vdoctor.sieve.examine import examine_input

#: Column -> type in Parquet. `status` is ok, unreadable or fault (of vdoctor); `message` says why, or what to know.
COLUMNS: dict[str, str] = {
    "name": "string",
    "status": "string",
    "message": "string",
    "verdict": "string",
    "phase": "string",
    "step": "string",
    "cause": "string",
    "rule": "string",
    "confidence": "string",
    "title": "string",
    "version": "string",
    "host": "string",
    "lines": "int64",
    "bytes": "int64",
    "report": "string",
}
Row = dict[str, Any]


def analyse_part(part: Sequence[Input], rules: RuleBase, options: OptionTable, lang: str) -> list[Row]:
    """One row for each log; nothing that a log does to its reader is raised."""
    return [_row(one, rules, options, lang) for one in part]


def _row(one: Input, rules: RuleBase, options: OptionTable, lang: str) -> Row:
    try:
        report = examine_input(one, rules, options)
    except UserError as error:
        return refused(one.name, "unreadable", error.what)
    except Exception as error:
        return refused(one.name, "fault", f"{type(error).__name__}: {error}")
    return _of(report, lang, "\n".join(one.notices))


def refused(name: str, status: str, message: str) -> Row:
    """The row of a log without a report."""
    return dict.fromkeys(COLUMNS) | {"name": name, "status": status, "message": message}


def _of(report: Report, lang: str, message: str) -> Row:
    data = to_dict(report, lang)
    first = data["findings"][0] if data["findings"] else {}
    return {
        "name": report.source.name,
        "status": "ok",
        "message": message or None,
        "verdict": report.verdict,
        "phase": report.phase,
        "step": report.step,
        "cause": cause(report),
        "rule": first.get("rule"),
        "confidence": first.get("confidence"),
        "title": first.get("title"),
        "version": version(report),
        "host": host(report),
        "lines": report.source.lines,
        "bytes": report.source.bytes,
        "report": json.dumps(data, separators=(",", ":")),
    }
