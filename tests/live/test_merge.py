"""Merger: two streams to one record."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdoctor.live.merge import IDLE_SECONDS, Merger

OUT, ERR = 1, 2
#: Letters tell the streams apart: small ones on standard output, capitals on standard error.
PIECES = st.lists(
    st.one_of(
        st.tuples(st.just(OUT), st.text("ab\n\r", max_size=6)),
        st.tuples(st.just(ERR), st.text("XY\n\r", max_size=6)),
    ),
    max_size=20,
)


def fed(pieces: list[tuple[int, str]], merger: Merger, step: float = 0.0) -> bytes:
    record = b""
    for number, (stream, text) in enumerate(pieces):
        record += merger.idle(number * step)
        record += merger.feed(stream, text.encode(), number * step)
    return record + merger.close()


@settings(max_examples=50, deadline=None)
@given(PIECES)
def test_every_byte_of_each_stream_is_recorded_in_its_order(pieces: list[tuple[int, str]]) -> None:
    record = fed(pieces, Merger(2)).decode()
    for stream, letters in ((OUT, "[^ab]"), (ERR, "[^XY]")):
        written = "".join(text for one, text in pieces if one == stream)
        assert re.sub(letters, "", record) == re.sub(letters, "", written)
    assert sorted(record) == sorted("".join(text for _, text in pieces))


@settings(max_examples=50, deadline=None)
@given(PIECES)
def test_no_line_holds_both_streams_before_the_end(pieces: list[tuple[int, str]]) -> None:
    merger = Merger(2)
    record = b"".join(merger.feed(stream, text.encode(), 0.0) for stream, text in pieces)
    for line in re.split(rb"[\r\n]", record):
        assert not (re.search(b"[ab]", line) and re.search(b"[XY]", line))


@settings(max_examples=50, deadline=None)
@given(PIECES)
def test_one_stream_is_recorded_as_it_comes(pieces: list[tuple[int, str]]) -> None:
    merger = Merger(1)
    for _, text in pieces:
        assert merger.feed(OUT, text.encode(), 0.0) == text.encode()
    assert merger.idle(99.0) == merger.close() == b""


def test_unfinished_line_waits_for_its_end() -> None:
    merger = Merger(2)
    assert merger.feed(OUT, b"half", 0.0) == b""
    assert merger.feed(ERR, b"whole\n", 0.0) == b"whole\n"
    assert merger.feed(OUT, b" done\nnext", 0.1) == b"half done\n"
    assert merger.close() == b"next"


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_line_ends_at_newline_and_at_carriage_return(end: bytes) -> None:
    assert Merger(2).feed(OUT, b"bar" + end, 0.0) == b"bar" + end


def test_unfinished_line_is_recorded_when_its_writer_stays_silent() -> None:
    merger = Merger(2)
    merger.feed(OUT, b"Password: ", 0.0)
    merger.feed(ERR, b"other", 0.5)
    assert merger.idle(IDLE_SECONDS - 0.1) == b""
    assert merger.idle(IDLE_SECONDS) == b"Password: "
    assert merger.idle(IDLE_SECONDS) == b""
    assert merger.idle(IDLE_SECONDS + 0.5) == b"other"


def test_line_without_an_end_does_not_pile_up() -> None:
    merger = Merger(2)
    record = b"".join(merger.feed(OUT, b"x" * 50_000, 0.0) for _ in range(10))
    assert len(record) >= 400_000
    assert len(record + merger.close()) == 500_000
