"""Texts of the estimate: both languages say the same, and every text is used."""

from __future__ import annotations

import string
from pathlib import Path

from vdoctor.budget.estimate import KNOWN
from vdoctor.report.estimate_words import _TEXTS, say

PACKAGE = Path(__file__).parents[2] / "vdoctor"


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_name_the_same_values() -> None:
    assert {key for key, (en, zh) in _TEXTS.items() if fields(en) != fields(zh) or not zh.strip()} == set()


def test_every_text_is_used() -> None:
    source = "".join(path.read_text() for room in ("budget", "report", "commands") for path in (PACKAGE / room).glob("*.py")
                     if path.name != "estimate_words.py")  # fmt: skip
    unused = {
        key
        for key in _TEXTS
        if f'"{key.removeprefix("cost_").removeprefix("why_")}"' not in source and f"'{key}'" not in source
    }
    assert unused == set()


def test_values_are_filled_in() -> None:
    assert say("tokens", "en", tokens=1234567) == "KV cache size: 1,234,567 tokens"
    assert say("fits", "zh") == "放得下"


def test_known_types_are_spelled_as_config_json_does() -> None:
    assert {"llama", "qwen3_moe", "deepseek_v3"} <= KNOWN
    assert all(one == one.lower() and " " not in one for one in KNOWN)
