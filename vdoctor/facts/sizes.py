"""Sizes as tools print them and people write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,6})?)\s?(?P<unit>[bBkKmMgGtT]?)(?:i?[bB]|i)?$")
_MIB = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}


def mib(text: str, bare: str = "b") -> float | None:
    """`16g`, `64M`, `1.5Gi`, `8GB` in MiB, all units binary as docker and `df -h` mean them; a number without a
    unit counts in `bare`. None when it is no size.
    """
    found = _SIZE.match(text.strip())
    return float(found["number"]) * _MIB[(found["unit"] or bare).lower()] if found else None
