"""Backlog: in order, bounded, and a replay leaves out what was left out."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from vdoctor.live.backlog import Backlog, Gap, Item, Output, Rest
from vdoctor.live.session import Recorder, Session
from vdoctor.live.skipping import SkippingSplitter, pieces
from vdoctor.model import Exit, Line, Observation, Sample

BORING = b"(APIServer pid=7) INFO 12-01 00:00:01 [x.py:1] request %06d was served\n"
KIB = 1 << 10


def boring(size: int, start: int = 0) -> bytes:
    count = size // len(BORING % 0) + 1
    return b"".join(BORING % number for number in range(start, start + count))


def drained(backlog: Backlog, size: int = 4096) -> list[Item]:
    found = []
    while (item := backlog.take(size)) is not None:
        found.append(item)
    return found


def kept(items: list[Item]) -> bytes:
    return b"".join(item.data for item in items if isinstance(item, Output))


def test_everything_comes_in_order_while_little_waits() -> None:
    backlog = Backlog()
    backlog.output(0.1, b"one\n")
    backlog.put(Sample(0.2))
    backlog.output(0.3, b"two\n")
    assert backlog.waiting == 8
    assert drained(backlog) == [Output(0.1, 0, b"one\n"), Sample(0.2), Output(0.3, 4, b"two\n")]
    assert (backlog.waiting, len(backlog)) == (0, 0)


def test_output_is_taken_in_small_pieces() -> None:
    backlog = Backlog()
    backlog.output(0.1, b"0123456789")
    assert [item.data for item in drained(backlog, 4) if isinstance(item, Output)] == [b"0123", b"4567", b"89"]


def test_flood_is_thinned_and_keeps_beginning_end_and_what_means_something() -> None:
    data = boring(512 * KIB) + b"RuntimeError: the one line that matters\n" + boring(512 * KIB, 50_000)
    backlog = Backlog()
    backlog.output(1.0, data)
    backlog.shrink(256 * KIB)
    assert backlog.waiting < 256 * KIB
    items = drained(backlog)
    assert kept(items).startswith(data[:10_000])
    assert kept(items).endswith(data[-10_000:])
    assert b"\nRuntimeError: the one line that matters\n" in kept(items)
    whole = sum(
        item.length if isinstance(item, Gap) else len(item.data) for item in items if isinstance(item, Gap | Output)
    )
    assert whole == len(data)


def test_words_of_rules_and_markers_count() -> None:
    data = boring(300 * KIB) + b"INFO Model loading took 3 GiB\n" + boring(300 * KIB)
    backlog = Backlog(lambda: [b"Model loading took"])
    backlog.output(1.0, data)
    backlog.shrink(200 * KIB)
    assert b"Model loading took 3 GiB" in kept(drained(backlog))


def test_flood_of_errors_is_bounded_too() -> None:
    backlog = Backlog()
    for number in range(200):
        backlog.output(number / 100, b"ERROR the same again\n" * 3000)
        if backlog.waiting > 512 * KIB:
            backlog.shrink(256 * KIB)
        assert backlog.waiting <= 600 * KIB
    assert len(backlog) < 1000


def test_line_without_an_end_takes_no_memory() -> None:
    backlog = Backlog()
    for _ in range(160):
        backlog.output(1.0, b"x" * (64 * KIB))
    backlog.output(1.0, b"end\nnext\n")
    assert backlog.waiting < 512 * KIB
    items = drained(backlog)
    assert any(isinstance(item, Rest) for item in items)
    whole = sum(
        item.length if isinstance(item, Rest) else len(item.data) for item in items if isinstance(item, Rest | Output)
    )
    assert whole == 160 * 64 * KIB + 9


def test_bars_that_only_return_are_thinned() -> None:
    backlog = Backlog()
    bar = b"".join(b"bar %d/100000\r" % number for number in range(100_000))
    backlog.output(1.0, bar)
    backlog.shrink(128 * KIB)
    assert backlog.waiting < 256 * KIB
    assert kept(drained(backlog)).endswith(b"bar 99999/100000\r")


def examined(items: list[Item]) -> list[Observation]:
    """As the watcher does."""
    splitter = SkippingSplitter()
    seen: list[Observation] = []
    for item in items:
        if isinstance(item, Output):
            seen += splitter.feed(item.data, item.t)
        elif isinstance(item, Gap):
            splitter.skip(item.length, item.newlines)
        elif isinstance(item, Rest):
            splitter.pass_over(item.length)
        else:
            seen.append(item)
    return [*seen, *splitter.close(9.0)]


PARTS = st.lists(
    st.one_of(
        st.integers(0, 150 * KIB).map(lambda size: boring(size)),
        st.sampled_from(
            [
                b"ValueError: bad\n",
                b"no end",
                b"bar 1/2\rbar 2/2\r",
                b"\r\n",
                b"\n\n",
                b"y" * 400_000,
                "显存不足\n".encode(),
            ]
        ),
    ),
    max_size=10,
)


@settings(max_examples=40, deadline=None)
@given(PARTS, st.integers(1, 400 * KIB))
def test_replay_sees_what_was_examined(tmp_path_factory: object, parts: list[bytes], limit: int) -> None:
    folder = Path(str(tmp_path_factory.mktemp("b"))) / "s"  # type: ignore[attr-defined]
    recorder = Recorder(folder, ["vllm"], {}, {})
    backlog = Backlog()
    for number, part in enumerate(parts):
        t = round(0.1 * number, 4)
        recorder.log(t, part)
        backlog.output(t, part)
        backlog.put(Sample(t))
        recorder.sample(Sample(t))
        if backlog.waiting > limit:
            backlog.shrink(limit)
    items = drained(backlog)
    for item in items:
        if isinstance(item, Gap):
            recorder.skip(8.0, item.start, item.length)
    recorder.close(Exit(9.0, 0), {})
    session = Session(folder)
    replayed = list(session.observations())
    assert replayed == [*examined(items), Exit(9.0, 0)]
    log = b"".join(parts)
    assert session.bytes == len(log)
    # Line numbers are those of the whole log.
    texts = log.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    for line in replayed:
        if isinstance(line, Line) and line.text:
            assert line.text[:1000] in texts[line.no - 1]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=4), st.integers(0, 30), st.binary(max_size=50)
)
def test_pieces_are_the_data_cut_at_ranges(ranges: list[tuple[int, int]], start: int, data: bytes) -> None:
    apart: list[tuple[int, int]] = []
    for offset, length in sorted(ranges):
        if not apart or offset >= sum(apart[-1]):
            apart.append((offset, length))
    cut = list(pieces(start, data, apart))
    assert b"".join(piece for piece, _ in cut) == data
    at = start
    for piece, skipped in cut:
        inside = any(offset <= at and at + len(piece) <= offset + length for offset, length in apart)
        assert skipped == inside
        at += len(piece)
