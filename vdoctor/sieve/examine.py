"""A saved log to its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vdoctor.diagnose import Examination
from vdoctor.intake.files import check_text
from vdoctor.intake.gpu_log import Row
from vdoctor.intake.inputs import Input
from vdoctor.intake.origin import HEAD, host_of
from vdoctor.launch.options import OptionTable
from vdoctor.model import Fact, Line, Report, Source
from vdoctor.rulebase.match import Matcher
from vdoctor.rulebase.schema import RuleBase
from vdoctor.sieve.around import AroundHits
from vdoctor.sieve.sieve import Sieve
from vdoctor.startup.recording import play


def examine_input(
    one: Input,
    rules: RuleBase,
    options: OptionTable,
    rows: Sequence[Row] = (),
    near: Callable[[Matcher], AroundHits] | None = None,
) -> Report:
    """The report on one saved log, with the rows of nvidia-smi beside it. Raises UserError when it cannot be read.

    `near` makes what is told of all lines that are examined, to keep those around the hits.
    """
    examination = Examination(rules, options)
    sieve = Sieve(examination)
    kept = near(examination.watched()[1]) if near is not None else None

    def take(lines: list[Line]) -> None:
        events = examination.feed(lines)
        if kept is not None:
            kept.feed(lines, events)

    head = b""
    for chunk in check_text(one.name, one.chunks()):
        head = head or chunk[:HEAD]
        for lines in sieve.feed(chunk):
            take(lines)
    for lines in sieve.close():
        take(lines)
    if rows and not play(rows, examination.timeline, examination.ledger):
        one.notices.append("the times of --gpu-log do not meet those of the log: only totals and peaks are told")
    report = examination.report(Source("stdin" if one.name == "-" else "file", one.name, sieve.lines, sieve.bytes))
    host = host_of(head)
    if host is None or "host.name" in report.facts:
        return report
    return replace(report, facts={**report.facts, "host.name": Fact(host[0], f"log:{host[1]}")})
