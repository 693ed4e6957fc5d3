"""Memory that creeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vdoctor.model import GpuSample, HostSample, Sample
from vdoctor.startup.drift import Drift, leak

GIB = 1 << 30


def points(rss: Callable[[float], float], minutes: int = 60) -> list[tuple[float, int]]:
    """Resident memory in GiB as a function of the hour, once every ten seconds."""
    return [(10.0 * at, int(rss(at / 360) * GIB)) for at in range(minutes * 6)]


def test_steady_growth_is_a_leak_with_its_rate() -> None:
    facts = leak(points(lambda hour: 10 + 3 * hour))
    assert facts["host.leak_gib_per_h"] == pytest.approx(3.0, abs=0.05)
    assert facts["host.leak_minutes"] == 60


def test_requests_that_come_and_go_do_not_hide_it() -> None:
    facts = leak(points(lambda hour: 10 + 3 * hour + (1.5 if int(hour * 60) % 3 else 0)))
    assert facts["host.leak_gib_per_h"] == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(
    "rss",
    [
        lambda hour: 10.0,
        lambda hour: 10 + 0.5 * hour,
        lambda hour: 10 + 8 * (1 - 0.5 ** (hour * 8)),
        lambda hour: 10 + (5 if hour > 0.5 else 0),
        lambda hour: 10 + (3 * hour if hour < 0.8 else 0),
    ],
    ids=["steady", "little", "a cache that fills", "one step", "given back"],
)
def test_other_growth_is_none(rss: Callable[[float], float]) -> None:
    assert leak(points(rss)) == {}


def test_half_an_hour_is_needed() -> None:
    assert leak(points(lambda hour: 10 + 20 * hour, minutes=25)) == {}
    assert leak([]) == {}


def host(t: float, rss: float, **values: Any) -> Sample:
    return Sample(t, host=HostSample(3, int(rss * GIB), 1.0, **values))


def test_the_time_left_goes_by_the_limit_of_the_cgroup() -> None:
    drift = Drift()
    for t, rss in points(lambda hour: 10 + 3 * hour, minutes=90):
        drift.feed(host(t, rss / GIB, cgroup_used=rss, cgroup_limit=20 * GIB, available=900 * GIB))
    facts = {name: fact.value for name, fact in drift.facts.items()}
    assert facts["host.leak_hours_left"] == pytest.approx(5.5 / 3, abs=0.1)


def test_the_gpu_with_the_least_room_is_told() -> None:
    drift = Drift()
    for used in (60, 66, 63):
        rows = (
            GpuSample(0, memory_total=80 * GIB, memory_used=40 * GIB),
            GpuSample(1, memory_total=80 * GIB, memory_used=used * GIB),
        )
        drift.feed(Sample(1.0, rows))
    facts = {name: fact.value for name, fact in drift.facts.items()}
    assert facts == {"gpu.tightest": 1, "gpu.headroom_gib": 14.0, "gpu.swing_gib": 6.0, "gpu.growth_gib": 3.0}


def test_a_gpu_that_tells_nothing_or_is_lost_is_left_out() -> None:
    drift = Drift()
    drift.feed(Sample(1.0, (GpuSample(0), GpuSample(1, memory_total=GIB, memory_used=GIB, lost=True))))
    assert drift.facts == {}
