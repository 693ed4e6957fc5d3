"""A GPU recording that was made beside a log: its rows on the log's clock, into the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from vdoctor.intake.gpu_log import Row
from vdoctor.model import GpuSample, Sample
from vdoctor.startup.ledger import Ledger
from vdoctor.startup.timeline import Timeline

_DAY = 86_400.0
#: A log whose stamps have a year counts from 1970; vLLM's own have none and count from 1 January of a leap year.
_FIRST_YEAR_STAMP = 366 * _DAY + 1


def play(rows: Sequence[Row], timeline: Timeline, ledger: Ledger) -> bool:
    """Feed the rows; False when their times cannot be laid on the log's: then only totals and peaks are told.

    The zone of neither clock is written down: both are read as they stand, and must overlap.
    """
    ledger.source = "gpu-log"
    clock = [_on_clock(row, timeline) for row in rows]
    times = [t for t in clock if t is not None]
    ledger.aligned = len(times) == len(rows) and _overlap(times, timeline)
    if not ledger.aligned:
        first = rows[0].time or 0.0
        times = [max(0.0, (row.time if row.time is not None else first) - first) for row in rows]
    # Rows of several machines or of a clock that was set back: the order of time counts.
    order = sorted(range(len(rows)), key=times.__getitem__)
    moment: dict[int, GpuSample] = {}
    last = 0.0
    for at in order:
        gpu = rows[at].gpu
        if moment and (times[at] != last or gpu.index in moment):
            ledger.feed(Sample(last, tuple(moment.values())))
            moment = {}
        moment[gpu.index] = gpu
        last = times[at]
    if moment:
        ledger.feed(Sample(last, tuple(moment.values())))
    return ledger.aligned


def _on_clock(row: Row, timeline: Timeline) -> float | None:
    origin = timeline.origin
    if row.time is None or origin is None:
        return None
    if origin >= _FIRST_YEAR_STAMP:
        return row.time if row.day_known else _nearest_day(row.time, origin)
    if not row.day_known:
        return _nearest_day(row.time, origin)
    year = datetime.fromtimestamp(row.time, tz=timezone.utc).year
    # A start over New Year, and one over the end of February: what counts is how far from the first line a row lies.
    away = min((row.time - _in_year(origin, one) for one in (year - 1, year, year + 1)), key=abs)
    return origin + away


def _in_year(origin: float, year: int) -> float:
    """Seconds since 1970 of a moment of the leap year 2000 in another year; 29 February is 1 March where there is none."""
    moment = datetime(2000, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=origin)
    try:
        return moment.replace(year=year).timestamp()
    except ValueError:
        return (moment + timedelta(days=1)).replace(year=year).timestamp()


def _nearest_day(clock: float, origin: float) -> float:
    """A time of day alone: on the day on which it lies nearest to the log's beginning, before or after midnight."""
    t = origin - origin % _DAY + clock % _DAY
    return min((t - _DAY, t, t + _DAY), key=lambda one: abs(one - origin))


def _overlap(times: Sequence[float], timeline: Timeline) -> bool:
    origin, length = timeline.origin, timeline.now
    return bool(times) and origin is not None and min(times) <= origin + (length or 0.0) and max(times) >= origin
