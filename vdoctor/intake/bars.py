"""tqdm progress bars, also several on one line."""

from __future__ import annotations

import re

from vdoctor.model import Bar

# Searched from the percent sign on, with bounded gaps: a description in front of it would be tried at every
# place of a long line.
_BAR = re.compile(
    r"(?<!\d)\d{1,3}%(?: {0,8}Completed)? {0,8}(?:\|[^|]{0,200}\||\|) {0,8}"
    r"(?P<done>\d{1,18}(?:\.\d{1,9})?)(?P<done_unit>[kMGTP]?)/(?P<total>\d{1,18}(?:\.\d{1,9})?)(?P<total_unit>[kMGTP]?) {0,8}"
    r"\[(?P<elapsed>[\d:]{1,20})<(?P<left>[\d:?]{1,20}),? {0,8}"
    r"(?P<rate>[\d.?]{1,20})?(?P<rate_unit>[kMGT]?)(?P<unit>it/s|s/it|B/s)?[^\]]{0,200}\]"
)
_MAX_DESCRIPTION = 120
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def bars(text: str) -> list[Bar]:
    """All progress bars of a line, in order. Downloads count bytes."""
    if "%" not in text or "|" not in text:
        return []
    found: list[Bar] = []
    end = 0
    for match in _BAR.finditer(text):
        found.append(_read(match, text[max(end, match.start() - _MAX_DESCRIPTION) : match.start()]))
        end = match.end()
    return found


def _read(found: re.Match[str], before: str) -> Bar:
    rate: float | None = None
    try:
        value = float(found["rate"] or "") * _UNITS[found["rate_unit"]]
        rate = (1 / value if value else None) if found["unit"] == "s/it" else value if found["unit"] else None
    except ValueError:
        pass
    return Bar(
        before.strip().removesuffix(":").rstrip(),
        _count(found["done"], found["done_unit"]),
        _count(found["total"], found["total_unit"]),
        _seconds(found["elapsed"]),
        rate,
    )


def _count(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit]) if unit or "." in number else int(number)


def _seconds(clock: str) -> float | None:
    total = 0.0
    for part in clock.split(":"):
        if not part.isdigit():
            return None
        total = total * 60 + int(part)
    return total
