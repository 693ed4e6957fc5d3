"""Recordings of nvidia-smi: any order of columns, units or none, dmon; what cannot be read is said with its place."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.errors import UserError
from vdoctor.intake.gpu_log import Row, read_rows, with_steady
from vdoctor.model import GpuSample

MIB = 1 << 20
NOON = datetime(2025, 3, 1, 12, 0, 0, tzinfo=timezone.utc).timestamp()


def rows(text: str) -> list[Row]:
    return read_rows("gpu.csv", text.splitlines())


def test_csv_with_units() -> None:
    found = rows(
        "timestamp, name, index, memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], power.draw [W]\n"
        "2025/03/01 12:00:00.250, NVIDIA L4, 0, 23034 MiB, 1024 MiB, 21500 MiB, 7 %, 71.50 W\n"
    )
    assert found == [
        Row(2, NOON + 0.25, GpuSample(0, "NVIDIA L4", None, 23034 * MIB, 1024 * MIB, 7, 21500 * MIB, 71.5)),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_columns_in_any_order_without_units(order: tuple[int, ...]) -> None:
    names = ("timestamp", "index", "memory.used", "utilization.gpu")
    cells = ("2025/03/01 12:00:01.000", "1", "77", "[N/A]")
    text = ", ".join(names[at] for at in order) + "\n" + ", ".join(cells[at] for at in order) + "\n"
    assert rows(text) == [Row(2, NOON + 1, GpuSample(1, memory_used=77 * MIB))]


def test_heading_comes_again_when_two_recordings_are_put_together() -> None:
    one = "index, memory.used [MiB]\n0, 5 MiB\n"
    other = "memory.used [MiB], index\n6 MiB, 1\n"
    assert [(row.gpu.index, row.gpu.memory_used) for row in rows(one + other)] == [(0, 5 * MIB), (1, 6 * MIB)]


def test_cards_without_an_index_are_told_apart_by_what_names_them() -> None:
    text = "uuid, memory.used\nGPU-b, 1\nGPU-a, 2\nGPU-b, 3\n"
    assert [(row.gpu.index, row.gpu.uuid) for row in rows(text)] == [(0, "GPU-b"), (1, "GPU-a"), (0, "GPU-b")]
    text = "timestamp, memory.used\n" + "".join(
        f"2025/03/01 12:00:0{second}.000, {used}\n" for second, used in ((0, 1), (0, 2), (1, 3), (1, 4))
    )
    assert [row.gpu.index for row in rows(text)] == [0, 1, 0, 1]


def test_throttling_and_errors() -> None:
    text = "index, memory.used, clocks_event_reasons.active, ecc.errors.uncorrected.volatile.total\n0, 1, 0x0000000000000044, 3\n"
    (row,) = rows(text)
    assert (row.gpu.throttle, row.gpu.ecc_errors) == (("SwPowerCap", "HwThermalSlowdown"), 3)


def test_card_that_is_lost_in_the_middle() -> None:
    text = "index, memory.used [MiB]\n0, 5 MiB\n0, [GPU is lost]\n0, [Unknown Error]\n"
    first, second = rows(text)
    assert not first.gpu.lost
    assert (second.gpu.lost, second.gpu.fault, second.gpu.memory_used) == (True, "GPU is lost", None)


DMON = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem     fb   bar1  rxpci  txpci
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %     MB     MB   MB/s   MB/s
 20250301   12:00:00      0     43     35      -     12      0   1500      2     10      3
 20250301   12:00:00      1     44     35      -      -      0   2500      2      -      3
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem     fb   bar1  rxpci  txpci
 20250301   12:00:01      0     45     35      -     13      0   1600      2     10      3
"""


def test_dmon_with_date_and_time() -> None:
    found = rows(DMON)
    assert found[0] == Row(
        3,
        NOON,
        GpuSample(0, memory_used=1500 * MIB, utilization=12, power=43.0, pcie_rx=10 * 10**6, pcie_tx=3 * 10**6),
    )
    assert [(row.gpu.index, row.gpu.memory_used, row.time) for row in found[1:]] == [
        (1, 2500 * MIB, NOON),
        (0, 1600 * MIB, NOON + 1),
    ]
    assert (found[1].gpu.utilization, found[1].gpu.pcie_rx) == (None, None)


def test_dmon_with_the_time_of_day_alone_does_not_know_the_day() -> None:
    (row,) = rows("#Time        gpu     fb\n#HH:MM:SS    Idx     MB\n 12:00:03      0   1500\n")
    assert not row.day_known
    assert (row.time or 0) % 86400 == 12 * 3600 + 3


def test_dmon_without_times() -> None:
    (row,) = rows("# gpu     fb   bar1\n# Idx     MB     MB\n    0   1500      2\n")
    assert (row.time, row.gpu) == (None, GpuSample(0, memory_used=1500 * MIB))


def test_what_was_said_once_holds_for_later_rows() -> None:
    text = "index, memory.used, memory.total\n0, 5, 100\n0, 6, [N/A]\n"
    assert [row.gpu.memory_total for row in with_steady(rows(text))] == [100 * MIB] * 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"^gpu\.csv: is no recording"),
        ("\n\nhello\n", r"^gpu\.csv: line 3: is no recording"),
        ("0, 1024 MiB, 7 %\n", r"^gpu\.csv: line 1: is no recording"),
        ("index, memory.used [MiB]\n", r"^gpu\.csv: line 1: columns are named, but no row of 2 values"),
        ("index, memory.used [MiB]\n0\n", r"^gpu\.csv: line 2: columns are named"),
        ("index, utilization.gpu [%]\n0, 7 %\n", r"^gpu\.csv: holds no GPU memory"),
        ("\0\x01\x02", r"line 1: is no recording"),
    ],
)
def test_what_is_no_recording_is_said_with_its_place(text: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        rows(text)
    if "is no recording" in told:
        assert "--query-gpu=timestamp,index" in caught.value.hint


CELL = st.text(alphabet="0123456789-.[]NA/ MiB%WGxyz:#,", max_size=12) | st.text(max_size=8)


@given(st.lists(st.lists(CELL, max_size=5).map(", ".join), max_size=6), st.booleans())
def test_no_text_breaks_the_reader(lines: list[str], dmon: bool) -> None:
    heading = "# gpu  sm  fb" if dmon else "timestamp, index, memory.used, utilization.gpu"
    try:
        found = read_rows("x", [heading, *lines])
    except UserError:
        return
    assert all(row.gpu.index >= 0 for row in found)
