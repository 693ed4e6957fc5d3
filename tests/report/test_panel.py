"""The panel as text: what a person reads while the server starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from vdoctor.model import Bar, GpuSample, HostSample, PhaseTime, Sample
from vdoctor.report.panel import Curve, View, panel

GIB = 1 << 30
PHASES = (PhaseTime("launch", 0.0, 18.2), PhaseTime("weight_load", 18.2, None))


def view(**changes: object) -> View:
    base: dict[str, object] = {
        "elapsed": 75.0,
        "step": "weight_load.read",
        "phases": PHASES,
        "sample": None,
        "bar": Bar("Loading safetensors checkpoint shards", 11, 18, 57.0, None),
        "curves": {},
    }
    return View(**(base | changes))  # type: ignore[arg-type]


def gpus(count: int) -> Sample:
    return Sample(75.0, tuple(GpuSample(i, "H", None, 24 * GIB, (6 + i) * GIB, 35) for i in range(count)))


def test_first_line_tells_step_and_progress() -> None:
    lines = panel(view(), width=100)
    assert lines[0] == "vdoctor    75 s  weight_load.read  61 % (11/18)"
    assert lines[1] == " launch 18 s · weight_load ━━━━━━━───── · kv_init – · graph_capture – · runtime –"


def test_verdict_takes_the_place_of_the_bar() -> None:
    said = "weights 61 %, 210 MB/s, about 3 min left; not stuck"
    assert panel(view(verdict=said), width=100)[0] == f"vdoctor    75 s  weight_load.read  {said}"


def test_gpus_have_a_curve_and_figures() -> None:
    curve = Curve()
    for second in range(75):
        curve.add(float(second), second / 75)
    lines = panel(view(sample=gpus(1), curves={0: curve}), width=100)
    assert lines[2] == " GPU0 ▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇███   6.0/24.0 GiB   35 %"


def test_many_gpus_are_put_together() -> None:
    lines = panel(view(sample=gpus(8)), width=100)
    assert [line[:5] for line in lines[2:6]] == [" GPU0", " GPU1", " GPU2", " GPU3"]
    assert lines[6] == " +4 GPUs 10.0–13.0 GiB"


def test_without_a_gpu_the_memory_of_the_tree_is_shown() -> None:
    lines = panel(view(sample=Sample(1.0, (), HostSample(3, 2 * GIB, 1.0))), width=100)
    assert lines[2] == " RAM 2.0 GiB in 3 processes"


def test_before_the_first_marker() -> None:
    assert panel(view(step=None, phases=(), bar=None), width=100) == ["vdoctor    75 s  launch"]


@pytest.mark.parametrize("width", [1, 20, 40, 80])
def test_lines_fit(width: int) -> None:
    for line in panel(view(sample=gpus(8), verdict="权重 61 %，还需约 3 分钟" * 9), width=width):
        assert cell_len(line) <= max(width - 1, 10)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-0.5, 1.5)), max_size=300))
def test_a_curve_is_bounded_and_keeps_the_peak(points: list[tuple[float, float]]) -> None:
    curve = Curve(points=16)
    for t, value in sorted(points):
        curve.add(t, value)
    drawn = curve.draw(8)
    assert len(drawn) == (min(8, len(drawn)) if points else 0)
    if points:
        peak = "▁▂▃▄▅▆▇█"[min(int(max(max(v for _, v in points), 0.0) * 8), 7)]
        assert max(drawn) == peak
