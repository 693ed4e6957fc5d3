"""The product's own words."""

from __future__ import annotations

import re

import pytest

from vdoctor.model import CONFIDENCES
from vdoctor.report import words
from vdoctor.report.words import language, word


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "ZH"}, "zh"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "de_DE"}, "en"),
        ({"LANG": "en_US", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh_CN"}, "zh"),
    ],
)
def test_language_is_read_as_posix_orders_it(environ: dict[str, str], expected: str) -> None:
    assert language(environ) == expected


def test_every_word_is_in_both_languages_with_the_same_gaps() -> None:
    for key, (english, chinese) in words._WORDS.items():
        assert english, key
        assert chinese, key
        assert re.findall(r"\{\w+", english) == [] or set(re.findall(r"\{\w+", english)) == set(
            re.findall(r"\{\w+", chinese)
        )
        assert re.search("[\u4e00-\u9fff]", chinese), key


@pytest.mark.parametrize(
    "key",
    [
        *CONFIDENCES,
        *("failed", "stalled", "degraded", "healthy", "incomplete", "not_vllm"),
        *("safe", "lossy", "manual"),
        *("confirmed", "same failure", "other failure", "timed out"),
    ],
)
def test_what_a_report_may_hold_has_a_word(key: str) -> None:
    assert word(key, "zh") != key


def test_unknown_word_stands_for_itself() -> None:
    assert word("no-such-word", "zh") == "no-such-word"
