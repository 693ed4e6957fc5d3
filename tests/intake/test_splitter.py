from __future__ import annotations

import codecs
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.splitter import MAX_LINE, LineSplitter

#: Text in which every kind of line end, a character outside the BMP and a half of one are frequent.
texts = st.text(st.sampled_from("ab\r\n\r\n█é\U0001f600\u2028\x0c\x00\ufeff"), max_size=60)
chunk_sizes = st.lists(st.integers(0, 9), max_size=40)


def split(*chunks: bytes) -> list[tuple[int, str]]:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [(line.no, line.text) for line in [*lines, *splitter.close()]]


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks = []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]
    return [*chunks, data]


def reference(text: str) -> list[tuple[int, str]]:
    """What an editor and a terminal agree on: number = newline characters before it."""
    found, no, start = [], 1, 0
    for end in re.finditer(r"\r\n|\r|\n", text):
        found.append((no, text[start : end.start()]))
        start = end.end()
        no += "\n" in end.group()
    return [*found, (no, text[start:])] if text[start:] else found


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [(1, "a")]),
        (b"a\n", [(1, "a")]),
        (b"a\nb", [(1, "a"), (2, "b")]),
        (b"a\r\nb\r\n", [(1, "a"), (2, "b")]),
        (b"\n\n", [(1, ""), (2, "")]),
        (b"1%\r2%\r3%\nnext", [(1, "1%"), (1, "2%"), (1, "3%"), (2, "next")]),
        (b"a\r\r\nb", [(1, "a"), (1, ""), (2, "b")]),
        (b"a\n\rb", [(1, "a"), (2, ""), (2, "b")]),
        (b"a\r", [(1, "a")]),
        ("a\u2028b\x0cc\x85d\x1ee".encode(), [(1, "a\u2028b\x0cc\x85d\x1ee")]),
    ],
)
def test_line_ends(data: bytes, lines: list[tuple[int, str]]) -> None:
    assert split(data) == lines


@given(text=texts, sizes=chunk_sizes)
def test_chunks_never_change_the_lines(text: str, sizes: list[int]) -> None:
    text = text.replace("\x00", "") if text[:4].count("\x00") > 1 else text
    expected = reference(text.removeprefix("\ufeff"))
    assert split(*cut(text.encode(), sizes)) == expected


@given(data=st.binary(max_size=80), sizes=chunk_sizes)
def test_any_bytes_in_any_chunks_give_the_same_lines(data: bytes, sizes: list[int]) -> None:
    assert split(*cut(data, sizes)) == split(data)


@given(text=st.text(st.sampled_from("ab\r\n"), max_size=40), sizes=chunk_sizes)
def test_counts_lines_and_bytes_while_they_come(text: str, sizes: list[int]) -> None:
    splitter = LineSplitter()
    for chunk in cut(text.encode(), sizes):
        splitter.feed(chunk)
    splitter.close()
    assert splitter.bytes == len(text)
    assert splitter.lines == text.count("\n") + (bool(text) and not text.endswith("\n"))


@pytest.mark.parametrize("text", ["a\r\n\nb", "\r\n\r\n", "a\r\r\n\n\rb", "1%\r2%\r\n\n3%\r"])
def test_one_byte_at_a_time(text: str) -> None:
    assert split(*(bytes([byte]) for byte in text.encode())) == reference(text)


def test_hands_over_a_line_as_soon_as_it_is_complete() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"first li") == []
    assert [line.text for line in splitter.feed(b"ne\nsec")] == ["first line"]
    assert [line.text for line in splitter.feed(b"ond 50%\r")] == ["second 50%"]


def test_a_line_carries_the_time_at_which_it_ended() -> None:
    splitter = LineSplitter()
    splitter.feed(b"slow ", arrived=1.0)
    (line,) = splitter.feed(b"line\n", arrived=7.5)
    assert line.arrived == 7.5


def test_shows_the_unfinished_line_without_taking_it() -> None:
    splitter = LineSplitter()
    assert splitter.pending() is None
    splitter.feed(b"one\nCapturing CUDA gra")
    pending = splitter.pending(3.0)
    assert pending is not None
    assert (pending.no, pending.text, pending.arrived) == (2, "Capturing CUDA gra", 3.0)
    assert [line.text for line in splitter.close()] == ["Capturing CUDA gra"]


def test_close_twice_gives_the_last_line_once() -> None:
    splitter = LineSplitter()
    splitter.feed(b"last words")
    assert len(splitter.close()) == 1
    assert splitter.close() == []


@pytest.mark.parametrize("text", ["INFO a\nb\n", "ab", "é█\r\n\U0001f600x"])
@pytest.mark.parametrize(
    ("bom", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_byte_order_marks(bom: bytes, encoding: str, text: str, size: int) -> None:
    data = bom + text.encode(encoding)
    assert split(*(data[at : at + size] for at in range(0, len(data), size))) == reference(text)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_as_powershell_writes_it(encoding: str) -> None:
    assert split("INFO 12-01 done\nnext".encode(encoding)) == [(1, "INFO 12-01 done"), (2, "next")]


@pytest.mark.parametrize("bom", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_a_byte_order_mark_alone_is_no_text(bom: bytes) -> None:
    assert split(bom) == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 model", "caf\ufffd model"),
        (b"\xff\x00\x01", "\ufffd\x00\x01"),
        (b"half a character \xe2\x96", "half a character \ufffd"),
        (b"nul \x00 byte", "nul \x00 byte"),
        (b"\xed\xa0\x80 surrogate", "\ufffd\ufffd\ufffd surrogate"),
    ],
)
def test_invalid_bytes_are_replaced_and_the_rest_kept(data: bytes, text: str) -> None:
    assert split(data) == [(1, text)]


def test_a_character_cut_by_a_chunk_is_whole_again() -> None:
    assert split(b"100%|\xe2", b"\x96", b"\x88|\n") == [(1, "100%|█|")]


def test_an_endless_line_is_cut_and_the_next_one_whole() -> None:
    splitter = LineSplitter()
    found = []
    for _ in range(160):
        found += splitter.feed(b"x" * 65536)
    found += splitter.feed(b"\nafter\n")
    assert [(line.no, len(line.text)) for line in found] == [(1, MAX_LINE), (2, 5)]
    assert splitter.bytes == 160 * 65536 + 7


def test_ten_megabytes_of_one_progress_bar() -> None:
    bar = "Capturing CUDA graphs:  50%|█████     | 5/10 [00:01<00:01,  4.99it/s]\r".encode()
    lines = split(bar * (10_000_000 // len(bar)), b"\n", b"done")
    assert len(lines) == 10_000_000 // len(bar) + 1
    assert {no for no, _ in lines[:-1]} == {1}
    assert lines[-1] == (2, "done")
