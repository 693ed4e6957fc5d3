"""A row of moments of a server that serves: what holds of it as a whole. Read only where there is such a row."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

from vdoctor.model import FactValue
from vdoctor.startup.stats import Stats

#: Of 19 blocks that hold 18 the cache is 94.7 % full, and nothing more fits.
_FULL_PERCENT = 90.0
#: A window that a few long prompts do not fill.
_WINDOW_S = 60.0


def evaluate(series: Sequence[Stats]) -> dict[str, FactValue]:
    """Facts of one series, oldest first, at least two points."""
    values: dict[str, FactValue] = {"serving.watched_s": round(series[-1].t - series[0].t)}
    for part in (_full, _queue, _preempted, _silent, _slower, _later):
        values.update(part(series))
    return values


def _full(series: Sequence[Stats]) -> dict[str, FactValue]:
    """The longest stretch in which the cache was full and somebody waited. One point that differs does not end it."""
    best = longest(series, lambda point: point.kv >= _FULL_PERCENT and point.waiting > 0)
    if len(best) < 2:
        return {}
    return {
        "kv.full_s": round(best[-1].t - best[0].t),
        "kv.full_usage": round(statistics.fmean(point.kv for point in best), 1),
        "kv.full_waiting": round(max(point.waiting for point in best)),
        "kv.full_running": round(statistics.median(point.running for point in best)),
    }


def longest(series: Sequence[Stats], holds: Callable[[Stats], bool]) -> list[Stats]:
    """The longest stretch (in time) of points for which `holds`; a single other point inside is passed over."""
    best: list[Stats] = []
    run: list[Stats] = []
    missed = False
    for point in [*series, None]:
        if point is not None and holds(point):
            run.append(point)
            missed = False
        elif point is not None and run and not missed:
            missed = True
        else:
            if len(run) > 1 and (not best or run[-1].t - run[0].t > best[-1].t - best[0].t):
                best = run
            run, missed = [], False
    return best


def _queue(series: Sequence[Stats]) -> dict[str, FactValue]:
    """A queue that grew for a window and longer, up to now: a burst that stands in it does not grow."""
    start = len(series) - 1
    # A few that were served in between do not count.
    while start > 0 and series[start - 1].waiting <= series[start].waiting * 1.1 + 2:
        start -= 1
    while start < len(series) - 1 and series[start + 1].waiting == series[start].waiting:
        start += 1
    first, last = series[start], series[-1]
    growth, seconds = last.waiting - first.waiting, last.t - first.t
    if seconds < _WINDOW_S or growth < first.waiting + 10:
        return {}
    middle = next(point for point in series[start:] if point.t >= first.t + seconds / 2)
    if last.waiting - middle.waiting < growth / 4:
        return {}
    return {
        "queue.from": round(first.waiting),
        "queue.to": round(last.waiting),
        "queue.seconds": round(seconds),
        "queue.kv": round(statistics.fmean(point.kv for point in series[start:]), 1),
    }


def _preempted(series: Sequence[Stats]) -> dict[str, FactValue]:
    """Preemptions while we looked."""
    counted = [point for point in series if point.preemptions is not None]
    rise = sum(
        max(0.0, (after.preemptions or 0) - (before.preemptions or 0)) for before, after in itertools.pairwise(counted)
    )
    if len(counted) < 2 or rise < 1:
        return {}
    during = [
        after.running
        for before, after in itertools.pairwise(counted)
        if (after.preemptions or 0) > (before.preemptions or 0) and after.running > 0
    ]
    facts: dict[str, FactValue] = {
        "kv.preempted": round(rise),
        "kv.preempted_s": round(counted[-1].t - counted[0].t),
    }
    if during:
        facts["kv.preempted_running"] = round(statistics.median(during))
    return facts


def _silent(series: Sequence[Stats]) -> dict[str, FactValue]:
    """Requests that run and no token at all, up to the last point."""
    since: float | None = None
    for before, point in itertools.pairwise(series):
        still = point.running > 0 and before.running > 0 and point.generation == 0 and point.prompt == 0
        since = (since if since is not None else before.t) if still else None
    if since is None:
        return {}
    return {"serving.still_s": round(series[-1].t - since), "serving.still_running": round(series[-1].running)}


def _slower(series: Sequence[Stats]) -> dict[str, FactValue]:
    """Generation of the last window against the best window before, at no lower load; prompts did not take its place."""
    found = _best_and_last(series, lambda part: statistics.median(p.generation or 0.0 for p in part), highest=True)
    if found is None:
        return {}
    (before, during), (now, after) = found
    load_before, load_now = (statistics.median(point.running for point in part) for part in (during, after))
    all_before, all_now = (statistics.median(_tokens(point) for point in part) for part in (during, after))
    if load_now < max(1.0, 0.8 * load_before) or before <= 0 or now > before / 4 or all_now > all_before / 4:
        return {}
    return {
        "serving.rate": round(now, 1),
        "serving.rate_before": round(before, 1),
        "serving.rate_running": round(load_now),
    }


def _tokens(point: Stats) -> float:
    return (point.generation or 0.0) + (point.prompt or 0.0)


def _later(series: Sequence[Stats]) -> dict[str, FactValue]:
    """Latencies of the last window against the best one before: five times and more, and slow for a person."""
    facts: dict[str, FactValue] = {}
    for name, least, take in (("ttft", 2.0, _ttft), ("itl", 0.2, _itl)):
        found = _best_and_last([point for point in series if take(point) is not None], _median(take), highest=False)
        if found is not None and found[1][0] >= least and found[1][0] >= 5 * max(found[0][0], 0.001):
            facts[f"latency.{name}_s"] = round(found[1][0], 2)
            facts[f"latency.{name}_before_s"] = round(found[0][0], 3)
    return facts


def _ttft(point: Stats) -> float | None:
    return point.ttft


def _itl(point: Stats) -> float | None:
    return point.itl


def _median(take: Callable[[Stats], float | None]) -> Callable[[Sequence[Stats]], float]:
    return lambda part: statistics.median(take(point) or 0.0 for point in part)


_Window = tuple[float, Sequence[Stats]]


def _best_and_last(
    series: Sequence[Stats], value: Callable[[Sequence[Stats]], float], *, highest: bool
) -> tuple[_Window, _Window] | None:
    """The best of the windows before the last one, and the last one. Windows in which somebody is served all the time."""
    if not series:
        return None
    end = series[-1].t
    last = [point for point in series if point.t > end - _WINDOW_S]
    windows: list[_Window] = []
    earlier = [point for point in series if point.t <= end - _WINDOW_S]
    start = 0
    for at, point in enumerate(earlier):
        while point.t - earlier[start].t > _WINDOW_S:
            start += 1
        part = earlier[start : at + 1]
        if len(part) > 2 and part[-1].t - part[0].t >= _WINDOW_S / 2 and all(p.running > 0 for p in part):
            windows.append((value(part), part))
    if len(last) < 3 or not windows or any(point.running <= 0 for point in last):
        return None
    best = max(windows, key=lambda one: one[0]) if highest else min(windows, key=lambda one: one[0])
    return best, (value(last), last)
