"""tqdm progress bars, also several on one line."""

from __future__ import annotations

import re

from vdoctor.model import Bar

_BAR = re.compile(
    r"(?P<desc>[^|\r\n]{0,120}?):?\s*(?P<percent>\d{1,3})%(?:\s*Completed)?\s*(?:\|[^|]{0,200}\||\|)\s*"
    r"(?P<done>\d+)/(?P<total>\d+)\s*\[(?P<elapsed>[\d:]+)<(?P<left>[\d:?]+),?\s*(?P<rate>[\d.?]+)?\s*(?P<unit>it/s|s/it)?[^\]]*\]"
)


def bars(text: str) -> list[Bar]:
    """All progress bars of a line, in order."""
    if "%" not in text or "|" not in text:
        return []
    return [_read(found) for found in _BAR.finditer(text)]


def _read(found: re.Match[str]) -> Bar:
    rate: float | None = None
    try:
        value = float(found["rate"] or "")
        rate = value if found["unit"] == "it/s" else 1 / value if value else None
    except ValueError:
        pass
    return Bar(found["desc"].strip(), int(found["done"]), int(found["total"]), _seconds(found["elapsed"]), rate)


def _seconds(clock: str) -> float | None:
    total = 0.0
    for part in clock.split(":"):
        if not part.isdigit():
            return None
        total = total * 60 + int(part)
    return total
