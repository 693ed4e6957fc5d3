"""The pictures of the HTML report as inline SVG: timeline per process, memory over time, ledger. No script, no style
attribute; each has a name and a description, and a table beside it says the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vdoctor.model import PHASES, PhaseTime, Report, Span
from vdoctor.report.curves import Recording, Series
from vdoctor.report.page_words import say
from vdoctor.report.tags import Html, join, tag

_WIDTH, _LEFT, _RIGHT = 960, 150, 16
_ROW, _BAR = 26, 16
_MAX_ROWS = 40


def gantt(report: Report, name: str, lang: str) -> Html | None:
    """Each process a row, each step a bar in the colour of its phase; without times the lines of the log are the axis."""
    timed = [span for span in report.timeline if span.start is not None]
    by_line = not timed
    spans = list(report.timeline) if by_line else timed
    if not spans:
        return None
    rows: dict[str, list[Span]] = {}
    for span in spans:
        rows.setdefault(span.process, []).append(span)
    shown = list(rows.items())[:_MAX_ROWS]
    low, high = _reach(report, spans, by_line)
    height = 24 + _ROW * len(shown) + 6
    parts = [*_axis_x(low, high, 20, height - 6, "" if by_line else " s")]
    for at, (process, steps) in enumerate(shown):
        y = 28 + _ROW * at
        parts.append(tag("text", _short(process, 20), x=_LEFT - 8, y=y + 12, text_anchor="end"))
        for span in steps:
            start, end = (
                (span.first_line, span.last_line)
                if by_line
                else (span.start or 0.0, high if span.end is None else span.end)
            )
            left, right = _x(start, low, high), _x(end, low, high)
            label = f"{process}: {span.step}, " + (
                f"{say('lines', lang)} {span.first_line}-{span.last_line}"
                if by_line
                else f"{start:.1f} s – {'…' if span.end is None else f'{end:.1f} s'}"
            )
            css = f"seg f-{span.phase}" + (" open" if span.end is None and not by_line else "")
            parts.append(
                tag(
                    "rect",
                    tag("title", label),
                    x=f"{left:.1f}",
                    y=y,
                    width=f"{max(2.5, right - left):.1f}",
                    height=_BAR,
                    rx=2,
                    class_=css,
                )
            )
    return _chart(name, say("timeline", lang), say("timeline_note", lang), height, parts)


def legend(phases: Sequence[str]) -> Html:
    """Colours of the phases."""
    return tag("ul", *(tag("li", _swatch(f"f-{phase}"), phase) for phase in PHASES if phase in phases), class_="legend")


def memory_curve(
    series: Sequence[Series], recording: Recording, phases: Sequence[PhaseTime], name: str, lang: str
) -> Html:
    """Curves over the phases as bands; the dashed line is what the GPU has."""
    height, top, bottom = 250, 24, 222
    t_low, t_high = 0.0, max(point[0] for one in series for point in one.points) or 1.0
    totals = {round(one.total, 2) for one in series if one.total}
    v_high = 1.08 * max((*totals, *(point[1] for one in series for point in one.points), 0.001))

    def y(value: float) -> float:
        return bottom - (bottom - top) * value / v_high

    parts: list[Html] = []
    free = 0.0
    for phase in phases:
        if phase.start is None:
            continue
        left = _x(min(phase.start + recording.offset, t_high), t_low, t_high)
        right = _x(min((phase.end + recording.offset) if phase.end is not None else t_high, t_high), t_low, t_high)
        parts.append(
            tag(
                "rect",
                tag("title", phase.phase),
                x=f"{left:.1f}",
                y=top,
                width=f"{max(0.0, right - left):.1f}",
                height=bottom - top,
                class_=f"band f-{phase.phase}",
            )
        )
        if right - left > 7 * len(phase.phase) and left >= free:
            free = left + 7 * len(phase.phase) + 8
            parts.append(tag("text", phase.phase, x=f"{left + 4:.1f}", y=top - 6, class_="dimtext"))
    parts += _axis_x(t_low, t_high, top, bottom, " s", below=True)
    for value in _ticks(0.0, v_high, 5):
        parts.append(
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=f"{y(value):.1f}", y2=f"{y(value):.1f}", class_="grid")
        )
        parts.append(
            tag("text", f"{value:g} GiB", x=_LEFT - 8, y=f"{y(value) + 4:.1f}", text_anchor="end", class_="dimtext")
        )
    for value in totals:
        parts.append(
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=f"{y(value):.1f}", y2=f"{y(value):.1f}", class_="total")
        )
    for number, one in enumerate(series):
        points = " ".join(f"{_x(t, t_low, t_high):.1f},{y(value):.1f}" for t, value in one.points)
        parts.append(tag("polyline", tag("title", one.name), points=points, class_=f"curve s-{number % 8}"))
    text = "; ".join(curve_text(one, lang) for one in series)
    return _chart(name, say("curve", lang), text, height, parts)


def curve_text(one: Series, lang: str) -> str:
    """The curve in words: its highest value and what there is."""
    peak = max(point[1] for point in one.points)
    total = say("curve_total", lang, total=f"{one.total:.1f}") if one.total else ""
    return say(
        "curve_of",
        lang,
        name=say("host_curve", lang) if one.name == "host" else one.name,
        peak=f"{peak:.1f}",
        total=total,
    )


def curve_legend(series: Sequence[Series], lang: str) -> Html:
    """Colours of the curves, with what they say."""
    return tag(
        "ul",
        *(tag("li", _swatch(f"f-{at % 8}"), curve_text(one, lang)) for at, one in enumerate(series)),
        class_="legend",
    )


def stacked(parts: Sequence[tuple[str, float]], total: float, name: str, lang: str) -> Html:
    """One bar of `total` GiB with its parts; what is left is grey."""
    whole = max(total, sum(size for _, size in parts)) or 1.0
    shapes: list[Html] = []
    at = 0.0
    span = _WIDTH - 2
    for number, (label, size) in enumerate(parts):
        left, width = 1 + span * at / whole, span * size / whole
        shapes.append(
            tag(
                "rect",
                tag("title", f"{label}: {size:.2f} GiB"),
                x=f"{left:.1f}",
                y=2,
                width=f"{max(width, 1.0):.1f}",
                height=32,
                class_=f"seg f-{number % 8}",
            )
        )
        at += size
    shapes.append(tag("rect", x=1, y=2, width=span, height=32, class_="frame"))
    if at > total > 0:
        x = 1 + span * total / whole
        shapes.append(tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=0, y2=36, class_="total"))
    text = "; ".join(f"{label} {size:.2f} GiB" for label, size in parts)
    return _chart(name, say("ledger", lang), text, 37, shapes)


def part_legend(parts: Sequence[tuple[str, float]]) -> Html:
    """Colours of the parts of a bar."""
    return tag(
        "ul",
        *(tag("li", _swatch(f"f-{at % 8}"), f"{label} {size:.2f} GiB") for at, (label, size) in enumerate(parts)),
        class_="legend",
    )


def _chart(name: str, title: str, text: str, height: int, parts: Sequence[Html]) -> Html:
    head = (tag("title", title, id=f"{name}-t"), tag("desc", text, id=f"{name}-d"))
    svg = tag(
        "svg",
        *head,
        join(parts, ""),
        class_="chart",
        view_box=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
    )
    return tag("div", svg, class_="scroll", tabindex=0, role="group", aria_label=title)


def _swatch(css: str) -> Html:
    return tag("svg", tag("rect", width=10, height=10, class_=css), view_box="0 0 10 10", aria_hidden="true")


def _reach(report: Report, spans: Sequence[Span], by_line: bool) -> tuple[float, float]:
    if by_line:
        return min(span.first_line for span in spans), max(span.last_line for span in spans)
    ends = [value for span in spans for value in (span.start, span.end) if value is not None]
    known = max(ends)
    # A server that served for days would press its start-up into one pixel: serving is cut to a tenth more.
    running = report.elapsed if report.elapsed is not None else known
    return 0.0, max(known, min(running, known * 1.1 if known > 0 else running)) or 1.0


def _x(value: float, low: float, high: float) -> float:
    room = _WIDTH - _LEFT - _RIGHT
    return _LEFT + room * min(max((value - low) / (high - low or 1.0), 0.0), 1.0)


def _axis_x(low: float, high: float, top: float, bottom: float, unit: str, *, below: bool = False) -> list[Html]:
    parts: list[Html] = []
    for value in _ticks(low, high, 8):
        x = f"{_x(value, low, high):.1f}"
        parts.append(tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        parts.append(
            tag(
                "text",
                f"{value:g}{unit}",
                x=x,
                y=bottom + 15 if below else top - 6,
                text_anchor="middle",
                class_="dimtext",
            )
        )
    return parts


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers between two values, about `count` of them."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    step = 10 ** math.floor(math.log10(span / count))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= count)
    first = math.ceil(low / step)
    return [round(step * at, 10) for at in range(first, math.floor(high / step) + 1)][: 3 * count]


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
