"""The status line of `watch`."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from vdoctor.model import Bar, GpuSample, HostSample, Motion, Sample
from vdoctor.report.status import memory, status_line

GIB = 1 << 30


def gpu(index: int, used: int | None = 13 * GIB, total: int | None = 24 * GIB) -> GpuSample:
    return GpuSample(index, "L4", None, total, used)


def test_line_says_time_step_progress_and_memory() -> None:
    bar = Bar("Loading safetensors checkpoint shards", 11, 18, 20.0, 0.5)
    line = status_line("weight_load.read", 75.4, Sample(75.0, (gpu(0),)), bar, 100)
    assert line == "vdoctor    75 s  weight_load.read 61 % (11/18)  GPU0 13.0/24.0 GiB"


def test_line_before_anything_is_known() -> None:
    assert status_line(None, 0.0, None, None, 80) == "vdoctor     0 s  launch"


@pytest.mark.parametrize("bar", [Bar("x", 18, 18, None, None), Bar("x", 0, 0, None, None)], ids=["full", "empty"])
def test_bar_that_tells_nothing_is_left_out(bar: Bar) -> None:
    assert "%" not in status_line("weight_load.read", 1.0, None, bar, 80)


@pytest.mark.parametrize("width", [0, 1, 10, 20, 79, 80, 500])
def test_line_is_shorter_than_the_terminal_is_wide(width: int) -> None:
    line = status_line("graph_capture.capture", 99999.0, Sample(1.0, tuple(gpu(n) for n in range(8))), None, width)
    assert len(line) <= max(width - 1, 10)


def test_many_gpus_are_summed_up() -> None:
    assert memory(Sample(0.0, tuple(gpu(n) for n in range(8))))[-1] == "+4 GPUs"
    assert len(memory(Sample(0.0, tuple(gpu(n) for n in range(4))))) == 4


def test_gpu_without_numbers_is_left_out() -> None:
    assert memory(Sample(0.0, (gpu(0, None), gpu(1, 0), gpu(2, 1, None)))) == ["GPU1 0.0/24.0 GiB"]


def test_host_memory_stands_in_where_no_gpu_is() -> None:
    host = HostSample(3, 2 * GIB, 1.0)
    assert memory(Sample(0.0, (), host)) == ["RAM 2.0 GiB in 3 processes"]
    assert memory(Sample(0.0, (gpu(0),), host)) == ["GPU0 13.0/24.0 GiB"]
    assert memory(Sample(0.0)) == memory(None) == []


def test_motion_takes_the_place_of_the_bar() -> None:
    motion = Motion(75.0, "progressing", "weight_load.read", 0.2, doing="reading", percent=61.0, rate=210e6)
    bar = Bar("x", 11, 18, None, None)
    line = status_line("weight_load.read", 75.4, Sample(75.0, (gpu(0),)), bar, 120, motion)
    said = "reading weights 61 %, 210 MB/s; not stuck"
    assert line == f"vdoctor    75 s  weight_load.read  {said}  GPU0 13.0/24.0 GiB"


@pytest.mark.parametrize("width", [1, 10, 40, 79])
def test_chinese_motion_is_cut_by_columns(width: int) -> None:
    motion = Motion(75.0, "stalled", "kv_init.profile", 99.0, "stopped", "Worker", 812, ("APIServer", "EngineCore"))
    line = status_line("kv_init.profile", 75.4, None, None, width, motion, "zh")
    assert cell_len(line) <= max(width - 1, 10)
