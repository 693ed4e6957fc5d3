"""Time stamps of logs. Only differences count: vLLM prints neither year nor zone."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_DAY = 86_400.0
#: Where 29 February begins and ends in short_seconds: most years have none.
_LEAP_DAY, _MARCH = 59 * _DAY, 60 * _DAY
_SHORT = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")


def iso_seconds(stamp: str) -> float | None:
    """`2025-07-02T15:32:50.786405823+08:00` to seconds since 1970; None when it is no date."""
    stamp = stamp.replace(",", ".")
    whole, dot, rest = stamp.partition(".")
    if dot:
        digits = re.match(r"\d+", rest)
        tail = rest[digits.end() :] if digits else rest
        stamp = f"{whole}.{(digits[0] if digits else '0')[:6].ljust(6, '0')}{tail}"
    if stamp.endswith("Z"):
        stamp = stamp[:-1] + "+00:00"
    if re.search(r"[+-]\d{4}$", stamp):
        stamp = stamp[:-2] + ":" + stamp[-2:]
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def short_seconds(stamp: str) -> float | None:
    """vLLM's `12-31 23:59:58` to seconds since the start of a leap year; None when it is no date."""
    found = _SHORT.match(stamp)
    if not found:
        return None
    month, day, hour, minute, second = (int(part) for part in found.groups())
    try:
        moment = datetime(2000, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    except ValueError:
        return None
    return moment.timestamp() - datetime(2000, 1, 1, tzinfo=timezone.utc).timestamp()


class Clock:
    """One continuous time line from mixed sources: arrival, shipper's stamp, vLLM's own stamp.

    The best source present on a line is taken; when the source changes (a log whose records are
    local time inside UTC prefixes), the new one is shifted so that time goes on without a jump.
    """

    def __init__(self) -> None:
        self._now: float | None = None
        self._shift: dict[str, float] = {}
        self._kind: str | None = None
        self._own: float | None = None

    @property
    def kind(self) -> str | None:
        """Which source the last time came from: arrived, shipped, own; None before the first stamp."""
        return self._kind

    def read(self, arrived: float | None, shipped: float | None, own: str | None) -> float | None:
        """Seconds on this log's time line; None before the first stamp."""
        for kind, value in (("arrived", arrived), ("shipped", shipped), ("own", short_seconds(own) if own else None)):
            if value is not None:
                return self._advance(kind, value)
        return self._now

    def _advance(self, kind: str, value: float) -> float:
        if kind != self._kind:
            self._kind = kind
            # A new source starts now; one that returns must not lead back.
            level = 0.0 if self._now is None else self._now - value
            self._shift[kind] = max(self._shift.get(kind, level), level)
        if kind == "own":
            if self._own is not None and self._own < _LEAP_DAY and _MARCH <= value < self._own + 30 * _DAY:
                self._shift[kind] -= _DAY
            self._own = value
        now = value + self._shift[kind]
        # The year ends between two lines: vLLM's stamps fall back by a year.
        if kind == "own" and self._now is not None and now < self._now - 300 * _DAY:
            self._shift[kind] += 366 * _DAY
            now += 366 * _DAY
        # Around midnight a slower process still writes the old year.
        if kind == "own" and self._now is not None and now > self._now + 300 * _DAY:
            now -= 366 * _DAY
        self._now = now
        return now
