from __future__ import annotations

import pytest

from vdoctor.report.proof import words_diff


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("vllm serve m", "vllm serve m --x 1", ["+ --x 1"]),
        ("vllm serve m --x 1 --y", "vllm serve m --x 2 --y", ["- --x 1", "+ --x 2"]),
        ("vllm serve m --x=1", "vllm serve m", ["- --x=1"]),
        ("A=1 vllm serve m", "A=2 vllm serve m", ["- A=1", "+ A=2"]),
        ("vllm serve m --many 1 2", "vllm serve m --many 1 3", ["- 2", "+ 3"]),
        ("vllm serve m", "vllm serve m", []),
    ],
)
def test_difference_of_commands(before: str, after: str, rows: list[str]) -> None:
    assert [f"{mark} {text}" for mark, text in words_diff(before.split(), after.split())] == rows


def test_words_are_quoted_for_a_shell() -> None:
    assert words_diff(["m"], ["m", "--x", "a b"]) == [("+", "--x 'a b'")]
