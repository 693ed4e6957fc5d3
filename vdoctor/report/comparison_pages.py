"""A comparison of two starts as Markdown for tickets and as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence

from vdoctor import __version__
from vdoctor.model import Report
from vdoctor.report import marks
from vdoctor.report.comparison import Comparison, Row, headline, shown
from vdoctor.report.page import document
from vdoctor.report.page_words import say
from vdoctor.report.tags import Html, join, tag

_NAME, _VALUE, _ROWS = 80, 300, 200


def _tables(found: Comparison) -> list[tuple[str, Sequence[Row], bool]]:
    """(key of the title, rows, whether they are figures) of all that is not empty."""
    tables: list[tuple[str, Sequence[Row], bool]] = [
        ("compare_time", (*found.phases, *found.steps), True),
        ("compare_memory", found.memory, True),
        ("compare_versions", found.versions, False),
        ("compare_caches", found.caches, False),
    ]
    return [one for one in tables if one[1]]


def _delta(row: Row) -> str:
    return "" if row.delta is None else f"{row.delta:+.2f}"


def markdown(found: Comparison, before: Report, after: Report, lang: str) -> str:
    """Headline on top, then tables; log text stands in code spans and fences alone."""

    def cell(value: str) -> str:
        flat = marks.one_line(value, _VALUE)
        return flat if flat.replace(".", "").isdecimal() or flat in ("", "-") else marks.code(flat)

    parts = [f"**{marks.prose(headline(found, lang))}**"]
    parts.append(
        "\n\n".join(
            f"{say(key, lang)}: {marks.code(marks.one_line(one.source.name, _VALUE))} ({say(one.verdict, lang)})"
            for key, one in (("before", before), ("after", after))
        )
    )
    for key, rows, figures in _tables(found):
        head = [say(key, lang).partition(":")[0].partition("：")[0], say("before", lang), say("after", lang)]
        body = [
            [marks.code(marks.one_line(row.name, _NAME)), cell(shown(row.before)), cell(shown(row.after))]
            + ([_delta(row)] if figures else [])
            for row in rows[:_ROWS]
        ]
        parts.append(marks.table([*head, *([say("difference", lang)] if figures else [])], body))
    if found.command:
        lines = "\n".join(f"{mark} {marks.one_line(text, 4000)}" for mark, text in found.command[:_ROWS])
        parts += [f"{say('command', lang)}:", marks.fence(lines, "diff")]
    parts.append(f"<sub>{say('made_by', lang, version=__version__)}</sub>")
    return "\n\n".join(parts) + "\n"


def html(found: Comparison, before: Report, after: Report, lang: str) -> str:
    """The same as a page."""
    parts = [
        tag("h1", headline(found, lang)),
        tag(
            "ul",
            *(
                tag("li", f"{say(key, lang)}: {one.source.name} ({say(one.verdict, lang)})")
                for key, one in (("before", before), ("after", after))
            ),
        ),
    ]
    for key, rows, figures in _tables(found):
        title = say(key, lang).partition(":")[0].partition("：")[0]
        parts += [tag("h2", title[:1].upper() + title[1:]), _table(rows, figures, lang)]
    if found.command:
        lines = "\n".join(f"{mark} {text}" for mark, text in found.command)
        parts += [
            tag("h2", say("command", lang)),
            tag("pre", tag("code", lines), tabindex=0, role="group", aria_label=say("command", lang)),
        ]
    return document(headline(found, lang), join(parts), lang)


def _table(rows: Sequence[Row], figures: bool, lang: str) -> Html:
    css = "n" if figures else None
    keys = ("before", "after", *(("difference",) if figures else ()))
    head = tag("tr", tag("td"), *(tag("th", say(key, lang), scope="col", class_=css) for key in keys))
    body = [
        tag(
            "tr",
            tag("th", row.name, scope="row"),
            tag("td", shown(row.before), class_=css),
            tag("td", shown(row.after), class_=css),
            *((tag("td", _delta(row), class_=css),) if figures else ()),
        )
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", join(body))), class_="scroll", tabindex=0)
