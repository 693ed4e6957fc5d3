from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.clock import Clock, iso_seconds, short_seconds


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T08:00:00+08:00", 0.0),
        ("1970-01-01T08:00:00+0800", 0.0),
        ("1970-01-01 00:01:00", 60.0),
        ("1970-01-01 00:00:00,250", 0.25),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T00:00:00.1+00:00", 0.1),
    ],
)
def test_reads_iso_times_of_all_shippers(stamp: str, seconds: float) -> None:
    assert iso_seconds(stamp) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "stamp",
    ["", "2025", "2025-13-01T00:00:00Z", "2025-02-30T00:00:00", "12:00:00", "now", "....", "2025-01-01T25:00:00Z"],
)
def test_what_is_no_date_gives_nothing(stamp: str) -> None:
    assert iso_seconds(stamp) is None


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading_of_times(text: str) -> None:
    iso_seconds(text)
    short_seconds(text)


@pytest.mark.parametrize(
    "stamp", ["", "12-32 00:00:00", "00-01 00:00:00", "02-30 00:00:00", "12-01 24:00:00", "12-01 02:03", "1-1 0:0:0"]
)
def test_a_short_stamp_that_is_no_date_gives_nothing(stamp: str) -> None:
    assert short_seconds(stamp) is None


def elapsed(*stamps: str) -> list[float | None]:
    clock = Clock()
    times = [clock.read(None, None, stamp) for stamp in stamps]
    return [time - times[0] if time is not None and times[0] is not None else None for time in times]


@pytest.mark.parametrize(
    ("stamps", "seconds"),
    [
        (["12-01 02:03:04", "12-01 02:03:09"], [0, 5]),
        (["11-30 23:59:58", "12-01 00:00:03"], [0, 5]),
        (["12-31 23:59:58", "01-01 00:00:03"], [0, 5]),
        (["12-31 23:59:58", "01-01 00:00:03", "01-02 00:00:03"], [0, 5, 86405]),
        (["02-28 23:59:58", "03-01 00:00:03", "03-01 00:00:04"], [0, 5, 6]),
        (["02-28 23:59:58", "02-29 00:00:03", "03-01 00:00:03"], [0, 5, 86405]),
        (["12-01 02:03:04", "12-01 02:03:02", "12-01 02:03:05"], [0, -2, 1]),
        (["06-30 23:59:60", "07-01 00:00:00"], [0, 1]),
    ],
)
def test_only_differences_count_over_the_ends_of_days_and_years(stamps: list[str], seconds: list[float]) -> None:
    assert elapsed(*stamps) == seconds


def test_two_years_end_in_one_log() -> None:
    stamps = ["12-31 23:59:59", "01-01 00:00:01", "07-01 00:00:00", "12-31 23:59:59", "01-01 00:00:01"]
    times = elapsed(*stamps)
    assert times[-1] == 366 * 86400 + 2


def test_a_line_without_a_stamp_stands_at_the_time_of_the_one_before() -> None:
    clock = Clock()
    assert clock.read(None, None, None) is None
    first = clock.read(None, None, "12-01 02:03:04")
    assert clock.read(None, None, None) == first
    assert clock.read(None, None, "garbage") == first


def test_a_shippers_utc_stamp_beats_the_local_time_of_the_record() -> None:
    clock = Clock()
    first = clock.read(None, 1000.0, "12-01 10:00:00")
    second = clock.read(None, 1004.0, "12-01 10:00:04")
    assert first is not None
    assert second == first + 4


def test_time_goes_on_without_a_jump_when_the_source_changes() -> None:
    clock = Clock()
    shipped = clock.read(None, 1_700_000_000.0, None)
    own = clock.read(None, None, "12-01 10:00:00")
    assert own == shipped
    later = clock.read(None, None, "12-01 10:00:07")
    assert own is not None
    assert later == own + 7
    back = clock.read(None, 1_700_000_009.0, None)
    assert back == own + 9


def test_arrival_beats_all_stamps() -> None:
    clock = Clock()
    first = clock.read(1.0, 5e8, "12-01 10:00:00")
    second = clock.read(3.5, 5e8, "12-01 11:00:00")
    assert first is not None
    assert second == first + 2.5


@given(st.lists(st.tuples(st.sampled_from(["arrived", "shipped", "own", "none"]), st.integers(0, 3600)), max_size=30))
def test_clocks_that_all_run_give_a_time_that_never_runs_backwards(steps: list[tuple[str, int]]) -> None:
    """Each source shows the same true time on a clock face of its own."""
    clock = Clock()
    true, last = 0, None
    for kind, pause in steps:
        true += pause
        time = clock.read(
            true + 1.0 if kind == "arrived" else None,
            true + 1_700_000_000.0 if kind == "shipped" else None,
            f"06-{1 + true // 86400:02d} {true // 3600 % 24:02d}:{true // 60 % 60:02d}:{true % 60:02d}"
            if kind == "own"
            else None,
        )
        if last is not None:
            assert time is not None
            assert time >= last
        last = time
