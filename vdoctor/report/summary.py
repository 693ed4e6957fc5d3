"""Many reports in a few lines: how many of each verdict, cause, version and host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from vdoctor.intake.clean import clean
from vdoctor.model import Report
from vdoctor.report.words import word

_MOST = 12


def host(report: Report) -> str:
    """The host that the log names, else the folder that the log lies in."""
    fact = report.facts.get("host.name")
    return str(fact.value) if fact else PurePath(report.source.name).parent.name or "-"


def version(report: Report) -> str:
    """The vLLM release, `?` when unknown."""
    fact = report.facts.get("vllm.version")
    return str(fact.value) if fact else "?"


def cause(report: Report) -> str:
    """The first finding; the verdict where there is none."""
    grave = [finding.id for finding in report.findings if finding.severity != "info"]
    return grave[0] if grave else report.verdict


def render(reports: Sequence[Report], lang: str = "en") -> str:
    """A table for the top of several reports; ends with a newline."""
    rows = [f"{len(reports)} {word('logs', lang)}: " + _counts(Counter(report.verdict for report in reports), lang)]
    parts = (("by_cause", map(cause, reports)), ("by_version", map(version, reports)), ("by_host", map(host, reports)))
    for title, values in parts:
        rows += _table(word(title, lang), values, lang)
    return "\n".join(rows) + "\n"


def _counts(counts: Counter[str], lang: str) -> str:
    return ", ".join(f"{count} {word(verdict, lang).partition(':')[0]}" for verdict, count in counts.most_common())


def _table(title: str, values: Iterable[str], lang: str) -> list[str]:
    counts = Counter(values)
    # The order of equals is that of names: two runs over the same logs print the same.
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    rows = [f"  {title}"]
    rows += [f"    {count:>6}  {clean(name)}" for name, count in ordered[:_MOST]]
    if len(ordered) > _MOST:
        rows.append(f"    {sum(count for _, count in ordered[_MOST:]):>6}  {word('others', lang)}")
    return rows
