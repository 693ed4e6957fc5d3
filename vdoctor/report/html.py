"""The report as one HTML file: no script, nothing loaded from anywhere, every text of a log escaped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vdoctor.model import Report
from vdoctor.report import charts
from vdoctor.report.curves import Recording
from vdoctor.report.json import pick
from vdoctor.report.markdown import flat
from vdoctor.report.page import document
from vdoctor.report.page_findings import command_block, finding, fold
from vdoctor.report.page_words import say
from vdoctor.report.proof import is_gone, working
from vdoctor.report.tags import Html, join, tag
from vdoctor.report.text import describe
from vdoctor.report.words import word

#: Parts of a GPU's memory in the order in which vLLM takes them.
_PARTS = ("weights", "activation_peak", "non_torch", "kv_cache", "cuda_graphs")
_MAX_FACTS, _MAX_SPANS = 400, 300


class _Place(NamedTuple):
    """Where on the page a report stands: its anchor, the language, the level of its heading."""

    name: str
    lang: str
    level: int


def render(reports: Sequence[Report], recordings: Sequence[Recording] = (), *, lang: str = "en") -> str:
    """The reports as one page; `recordings`, where given, are one a report."""
    several = len(reports) > 1
    pages = [
        _page(report, recordings[at] if at < len(recordings) else Recording(), lang, f"r{at}", several)
        for at, report in enumerate(reports)
    ]
    title = say("report", lang) if several else f"{say(reports[0].verdict, lang)}: {reports[0].source.name}"
    index = [_index(reports, lang)] if several else []
    return document(title, join([*index, *pages]), lang)


def _index(reports: Sequence[Report], lang: str) -> Html:
    head = tag("tr", *(tag("th", say(key, lang), scope="col") for key in ("log", "verdict", "phase", "cause")))
    rows = [
        tag(
            "tr",
            tag("td", tag("a", report.source.name, href=f"#r{at}")),
            tag("td", say(report.verdict, lang), class_=report.verdict),
            tag("td", report.step or report.phase or ""),
            tag("td", report.findings[0].id if report.findings else ""),
        )
        for at, report in enumerate(reports)
    ]
    return tag(
        "nav",
        tag("h1", say("logs", lang, count=len(reports))),
        _table(head, rows),
        aria_label=say("logs", lang, count=len(reports)),
    )


def _page(report: Report, recording: Recording, lang: str, name: str, several: bool) -> Html:
    """One report; with several in a file each is folded out of its own heading."""
    place = _Place(name, lang, 2 if several else 1)
    parts = [_head(report, lang, f"h{place.level}")]
    if report.findings:
        parts.append(_section(place, "cause", finding(report.findings[0], recording, lang, level=place.level + 2)))
    else:
        parts.append(tag("p", say(_silence(report), lang)))
    if report.trials:
        parts.append(_section(place, "trials", join([*_proven(report, lang), _trials(report, lang)])))
    if report.findings[1:]:
        rest = join(
            fold(f"{one.id}: {say(one.confidence, lang)}", finding(one, recording, lang, level=place.level + 2))
            for one in report.findings[1:]
        )
        parts.append(_section(place, "also", rest))
    for key, body in (
        ("timeline", _timeline(report, name, lang)),
        ("curve", _curves(report, recording, name, lang)),
        ("memory", _memory(report, name, lang)),
    ):
        if body:
            parts.append(_section(place, key, body))
    if report.command:
        parts.append(_section(place, "command", command_block(shlex.join(report.command), lang)))
    if report.facts:
        parts.append(fold(say("facts", lang), _facts(report, lang)))
    return tag("section", join(parts), id=name, aria_label=report.source.name)


def _head(report: Report, lang: str, level: str) -> Html:
    where = f" {say('in', lang)} {report.step or report.phase}" if report.phase else ""
    items = [f"{report.source.name} ({say('line_count', lang, count=report.source.lines)})"]
    if "vllm.version" in report.facts:
        items.append(f"vLLM {report.facts['vllm.version'].value} {report.generation or ''}".rstrip())
    if "model.name" in report.facts:
        items.append(str(report.facts["model.name"].value))
    if report.exit is not None and report.exit.asked is None:
        items.append(say("exit", lang, status=report.exit.status))
        if report.exit.signal:
            items.append(say("killed_by", lang, signal=report.exit.signal))
    looks = tag("p", say("looks_like", lang, what=report.looks_like)) if report.looks_like else Html("")
    return tag(
        "header",
        tag(level, tag("span", say(report.verdict, lang), class_=report.verdict), where),
        tag("ul", *(tag("li", item) for item in items), class_="facts"),
        looks,
    )


def _silence(report: Report) -> str:
    if report.verdict in ("healthy", "not_vllm"):
        return "nothing_wrong" if report.verdict == "healthy" else ""
    killed = report.exit is not None and report.exit.signal == "SIGKILL" and report.exit.asked is None
    return "sigkill" if killed else "no_rule"


def _section(place: _Place, key: str, body: Html) -> Html:
    title = say(key, place.lang)
    name = f"{place.name}-{key}"
    return tag(
        "section", tag(f"h{place.level + 1}", title[:1].upper() + title[1:], id=name), body, aria_labelledby=name
    )


def _timeline(report: Report, name: str, lang: str) -> Html | None:
    picture = charts.gantt(report, f"{name}-gantt", lang)
    if picture is None:
        return None
    head = tag(
        "tr",
        *(
            tag("th", say(key, lang), scope="col", class_=css)
            for key, css in (("process", None), ("step", None), ("start", "n"), ("end", "n"), ("lines", "n"))
        ),
    )
    rows = [
        tag(
            "tr",
            tag("th", span.process, scope="row"),
            tag("td", span.step),
            tag("td", "" if span.start is None else f"{span.start:.1f}", class_="n"),
            tag(
                "td",
                ("" if span.start is None else say("open_end", lang)) if span.end is None else f"{span.end:.1f}",
                class_="n",
            ),
            tag("td", f"{span.first_line}-{span.last_line}", class_="n"),
        )
        for span in report.timeline[:_MAX_SPANS]
    ]
    note = (
        Html("")
        if any(span.start is not None for span in report.timeline)
        else tag("p", say("no_times", lang), class_="dim")
    )
    phases = [span.phase for span in report.timeline]
    return join([note, charts.legend(phases), picture, fold(say("as_table", lang), _table(head, rows))])


def _curves(report: Report, recording: Recording, name: str, lang: str) -> Html | None:
    groups = [[one for one in recording.series if one.gpu], [one for one in recording.series if not one.gpu]]
    drawn = [
        join(
            [
                charts.curve_legend(group, lang),
                charts.memory_curve(group, recording, report.phases, f"{name}-curve{at}", lang),
            ]
        )
        for at, group in enumerate(groups)
        if group
    ]
    return join([*drawn, tag("p", say("seconds", lang), class_="dim small")]) if drawn else None


def _memory(report: Report, name: str, lang: str) -> Html | None:
    if not report.memory:
        return None
    parts: list[Html] = []
    log = report.memory.get("log")
    if isinstance(log, Mapping):
        sizes = {str(key): float(value) for key, value in log.items() if isinstance(value, int | float) and value > 0}
        known = [(say(key, lang), sizes[key]) for key in _PARTS if key in sizes]
        if known:
            parts += _ledger(known, sizes.get("total", 0.0), f"{name}-ledger", lang)
    rows = [
        tag("tr", tag("th", " · ".join(path), scope="row"), tag("td", shown, class_="n"))
        for path, shown in flat(report.memory, lang)[:_MAX_FACTS]
    ]
    head = tag("tr", tag("th", say("memory", lang), scope="col"), tag("th", say("size", lang), scope="col", class_="n"))
    return join([*parts, _table(head, rows)])


def _ledger(known: list[tuple[str, float]], total: float, name: str, lang: str) -> list[Html]:
    used = sum(size for _, size in known)
    parts = [
        tag("p", say("ledger", lang), class_="dim"),
        charts.stacked(known, total, name, lang),
        charts.part_legend(known),
    ]
    if total and used > total:
        parts.append(tag("p", say("over", lang, sum=f"{used:.2f}", total=f"{total:.2f}"), class_="failed"))
    elif total:
        parts.append(
            tag(
                "p",
                f"{say('rest', lang)}: {total - used:.2f} GiB; {say('total', lang)}: {total:.2f} GiB",
                class_="dim small",
            )
        )
    return parts


def _proven(report: Report, lang: str) -> list[Html]:
    """What the trials came to: the command that works and its price, or that the failure has gone."""
    if is_gone(report):
        return [tag("p", word("gone", lang))]
    command = working(report)
    if report.proof is None or command is None:
        return []
    prices = [tag("p", f"{say('price', lang)}: {pick(text, lang)}") for text in report.proof.price]
    return [tag("p", tag("strong", word("proof_title", lang))), *prices, command_block(command, lang)]


def _trials(report: Report, lang: str) -> Html:
    """What the launch was before, and what came of each change."""
    head = tag("tr", *(tag("th", say(key, lang), scope="col") for key in ("result", "change", "took", "command")))
    elapsed = "" if report.elapsed is None else f"{report.elapsed:.1f}"
    command = shlex.join(report.command) if report.command else ""
    before = tag(
        "tr",
        tag("th", f"{say('before', lang)}: {say(report.verdict, lang)}", scope="row"),
        tag("td"),
        tag("td", elapsed),
        tag("td", tag("code", command)),
    )
    rows = [
        tag(
            "tr",
            tag(
                "th",
                f"{say('after', lang)} {number}: {say(trial.verdict, lang)}"
                + (f" ({trial.finding})" if trial.finding else ""),
                scope="row",
            ),
            tag(
                "td",
                tag("code", describe(trial.change, lang)) if trial.change else word("unchanged", lang),
                class_="wide",
            ),
            tag("td", f"{trial.seconds:.1f}"),
            tag("td", tag("code", trial.command), class_="wide"),
        )
        for number, trial in enumerate(report.trials, 1)
    ]
    return _table(head, [before, *rows])


def _facts(report: Report, lang: str) -> Html:
    head = tag("tr", *(tag("th", say(key, lang), scope="col") for key in ("fact", "value", "source")))
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", tag("code", _value(fact.value)[:1000])),
            tag("td", fact.source),
        )
        for name, fact in sorted(report.facts.items())[:_MAX_FACTS]
    ]
    return _table(head, rows)


def _value(value: Any) -> str:
    return ", ".join(_value(one) for one in value) if isinstance(value, tuple | list) else str(value)


def _table(head: Html, rows: Sequence[Html]) -> Html:
    return tag("div", tag("table", tag("thead", head), tag("tbody", join(rows))), class_="scroll", tabindex=0)
