from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.clean import clean


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        # vLLM colours its process tag, uvicorn its level, Ray its own tag
        ("\x1b[1;36m(EngineCore_DP0 pid=7)\x1b[0;0m INFO 12-01", "(EngineCore_DP0 pid=7) INFO 12-01"),
        ("\x1b[32mINFO\x1b[0m:     Started server process [\x1b[36m1\x1b[0m]", "INFO:     Started server process [1]"),
        ("\x1b[36m(RayWorkerWrapper pid=9)\x1b[0m x", "(RayWorkerWrapper pid=9) x"),
        ("\x1b[38;5;208morange\x1b[m \x1b[38;2;1;2;3mtrue\x1b[0m", "orange true"),
        # cursor, erase, private modes, tput sgr0
        ("\x1b[A\x1b[2K\x1b[?25lbar\x1b[?25h\x1b[>4;1m", "bar"),
        ("\x1b(B\x1b[mplain\x1b7\x1b8\x1b=", "plain"),
        # titles, hyperlinks, device control strings
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://x.y/z\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2;0\x1b\\after", "after"),
        # the one-byte forms of C1
        ("\x9b31mred\x9b0m", "red"),
        ("\x9d0;title\x9ctext", "text"),
        ("a\x85b\x9fc", "abc"),
        # cut sequences at the end of a line
        ("cut \x1b[1;3", "cut "),
        ("cut \x1b", "cut "),
        # control characters and what turns text around
        ("a\x00b\x07c\x08d\x7fe", "abcde"),
        ("tab\tstays", "tab\tstays"),
        ("\u202egnp.exe\u202c \u2066x\u2069 \u200e\u200f\u061c", "gnp.exe x "),
        # letters of all scripts, boxes and emoji stay
        ("模型加载 é █▏ 🚀 ñ", "模型加载 é █▏ 🚀 ñ"),
        ("", ""),
    ],
)
def test_removes_what_a_terminal_would_act_on(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("[1;36m(EngineCore_DP0 pid=7)[0;0m INFO 12-01", "(EngineCore_DP0 pid=7) INFO 12-01"),
        ("[32mINFO[0m 12-01 02:03:04", "INFO 12-01 02:03:04"),
        ("[31mValueError: x[0m", "ValueError: x"),
    ],
)
def test_removes_colours_that_lost_their_escape_byte_in_a_paste(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "tensor[0] and tensor[1] of shape [32, 128]",
        "took [1m] of [30m]",
        "[0, 1, 2] GPUs",
        "sizes: [1, 2, 4, 8, 16]",
        "x[0m]",
        "[rank0]: Traceback (most recent call last):",
        "[3/12] Building",
    ],
)
def test_leaves_brackets_of_ordinary_text(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize("start", ["\x1b]0;", "\x9d", "\x90", "\x1bP"])
def test_a_string_sequence_without_its_end_hides_no_error(start: str) -> None:
    # "â\x9d\x8c" is an emoji that was decoded twice
    assert clean(f"â{start} RuntimeError: CUDA error").endswith("RuntimeError: CUDA error")


pieces = st.lists(
    st.one_of(
        st.sampled_from(
            ["\x1b", "\x1b[", "\x1b]", "\x9b", "\x9d", "\x9c", "\x07", "\x1b\\", "[0m", "31m", "\u202e", "\r"]
        ),
        st.text(max_size=4),
    ),
    max_size=12,
)


@given(pieces)
def test_nothing_that_a_terminal_acts_on_survives(parts: list[str]) -> None:
    left = clean("".join(parts).replace("\n", ""))
    assert not {c for c in left if unicodedata.category(c) == "Cc" and c != "\t"}
    assert not {
        c
        for c in left
        if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")
    }


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=40))
def test_text_without_sequences_stays_as_it_is(text: str) -> None:
    text = text.replace("[", "(")
    assert clean(text) == text


@pytest.mark.parametrize("unit", ["\x1b[", "\x1b]", "\x9d", "\x9b", "[0m", "\x1b(", "[1;3"])
def test_a_long_line_of_hostile_sequences_takes_linear_time(unit: str) -> None:
    # Quadratic time would be minutes here, and the test would hang instead of failing.
    assert len(clean(unit * (64 * 1024 // len(unit)))) <= 64 * 1024
