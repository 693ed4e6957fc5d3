"""What an HTML page shows besides the report: memory curves and the log around the evidence, read once more."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vdoctor.errors import UserError
from vdoctor.intake.files import Input, inputs
from vdoctor.intake.splitter import LineSplitter
from vdoctor.live.session import Session, is_session
from vdoctor.model import Line, Report, Sample
from vdoctor.report.curves import Curves, Recording, wanted_lines
from vdoctor.sieve.around import Near, around

if TYPE_CHECKING:
    from vdoctor.report.redact import Redactor


def recordings(
    reports: list[Report], redactor: Redactor | None, piped: Mapping[str, Mapping[int, Near]] | None = None
) -> tuple[list[Report], list[Recording]]:
    """The recording of each report, and both redacted where that is asked for.

    `piped`: the lines around the evidence of logs that cannot be read again, by their names.
    """
    told = [
        Recording(around=piped[report.source.name]) if piped and piped.get(report.source.name) else recording_of(report)
        for report in reports
    ]
    if redactor is None:
        return reports, told
    from vdoctor.report.redact import redact

    for one in told:
        redactor.learn(text for lines in one.around.values() for _, text in lines)
    return [redact(report, redactor) for report in reports], [redactor.record(one) for one in told]


def recording_of(report: Report) -> Recording:
    """Read from the source of the report; empty where it cannot be read again (a pipe, a file that is gone)."""
    place = Path(report.source.name)
    try:
        if report.source.kind in ("session", "live") and is_session(place):
            return _of_session(Session(place), report)
        if report.source.kind == "file" and (log := _log(report.source.name)) is not None:
            return Recording(around=around(_lines(log), wanted_lines(report)))
    except (UserError, OSError):
        pass
    return Recording()


def _of_session(session: Session, report: Report) -> Recording:
    curves = Curves()
    timed = next((span for span in report.timeline if span.start is not None), None)
    offset = 0.0

    def lines() -> Iterator[Line]:
        nonlocal offset
        for seen in session.observations():
            if isinstance(seen, Sample):
                curves.feed(seen)
            elif isinstance(seen, Line):
                if timed is not None and seen.no == timed.first_line and seen.arrived is not None:
                    offset = max(0.0, seen.arrived - (timed.start or 0.0))
                yield seen

    near = around(lines(), wanted_lines(report))
    return Recording(curves.series(), offset, near)


def _log(name: str) -> Input | None:
    """The log of that name: a file, or `archive:member`."""
    parts = name.split(":")
    for end in range(len(parts), 0, -1):
        place = ":".join(parts[:end])
        if Path(place).is_file():
            return next((one for one in inputs(place, io.BytesIO()) if one.name == name), None)
    return None


def _lines(log: Input) -> Iterator[Line]:
    splitter = LineSplitter()
    for chunk in log.chunks():
        yield from splitter.feed(chunk)
    yield from splitter.close()
