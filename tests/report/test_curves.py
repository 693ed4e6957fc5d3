"""Memory curves in few points."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vdoctor.model import GpuSample, HostSample, Sample
from vdoctor.report.curves import Curve, Curves

GIB = 1 << 30


@given(st.lists(st.floats(0, 100), max_size=5000))
def test_curve_is_bounded_and_keeps_peak_order_and_end(values: list[float]) -> None:
    curve = Curve()
    for t, value in enumerate(values):
        curve.add(float(t), value)
    points = curve.done()
    assert len(points) <= 1201
    assert [t for t, _ in points] == sorted(t for t, _ in points)
    assert set(points) <= {(float(t), value) for t, value in enumerate(values)}
    if values:
        assert max(value for _, value in points) == max(values)


def test_long_session_stays_small() -> None:
    curve = Curve()
    for t in range(1_000_000):
        curve.add(float(t), 50.0 if t == 777_777 else 1.0)
    assert 600 <= len(curve.done()) <= 1201
    assert (777_777.0, 50.0) in curve.done()


def test_each_gpu_has_a_curve_and_the_host_one() -> None:
    curves = Curves()
    for t in range(3):
        gpus = (
            GpuSample(0, "L4", memory_total=24 * GIB, memory_used=t * GIB),
            GpuSample(1),
            GpuSample(2, memory_used=GIB),
        )
        curves.feed(Sample(float(t), gpus, HostSample(1, t * GIB, 0.0)))
    assert [(one.name, one.total, one.gpu) for one in curves.series()] == [
        ("GPU 0 L4", 24.0, True),
        ("GPU 2", None, True),
        ("host", None, False),
    ]
    assert curves.series()[0].points == ((0.0, 0.0), (1.0, 1.0), (2.0, 2.0))


def test_one_point_is_no_curve() -> None:
    curves = Curves()
    curves.feed(Sample(0.0, (), HostSample(1, GIB, 0.0)))
    assert curves.series() == ()
