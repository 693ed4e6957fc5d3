from __future__ import annotations

import re

import pytest

from vdoctor.facts.registry import FACTS, known, show
from vdoctor.model import FactValue


def test_names_can_stand_in_texts() -> None:
    for name, entry in FACTS.items():
        assert re.fullmatch(r"[a-z][\w.]*", name)
        assert entry.meaning
        assert known(name)
    assert not known("gpu.colour")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("gpu.cc", 75, "7.5"),
        ("gpu.cc", 100, "10.0"),
        ("gpu.cc", 121, "12.1"),
        ("gpu.cc", 7, "7"),
        ("gpu.total_gib", 79.25, "79.25"),
        ("gpu.total_gib", 80.0, "80.00"),
        ("gpu.total_gib", 80, "80"),
        ("kv.tokens", 447280, "447280"),
        ("mem.utilization", 0.9, "0.9"),
        ("mem.utilization", 0.92, "0.92"),
        ("tp.valid", (1, 2, 4), "1, 2, 4"),
        ("tp.valid", (), ""),
        ("model.name", "org/m", "org/m"),
        ("launch.eager", True, "True"),
        ("not.known", 0.5, "0.5"),
    ],
)
def test_values_read_as_in_a_sentence(name: str, value: FactValue, text: str) -> None:
    assert show(name, value) == text
