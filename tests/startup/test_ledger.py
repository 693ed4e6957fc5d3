from __future__ import annotations

from vdoctor.model import Fact, GpuSample, HostSample, Sample
from vdoctor.startup.ledger import Ledger

GIB = 1 << 30


def test_without_figures_there_is_nothing_to_say() -> None:
    assert Ledger().memory({}) == {}


def test_keeps_what_the_log_states() -> None:
    memory = Ledger().memory(
        {"gpu.total_gib": Fact(79.25, "log:3"), "mem.weights_gib": Fact(14.25, "log:9"), "port": Fact(1, "argv")}
    )
    assert memory == {"log": {"total": 79.25, "weights": 14.25}}


def test_keeps_the_first_the_last_and_the_highest_value_of_each_gpu() -> None:
    ledger = Ledger()
    for t, used in enumerate((1, 70, 60)):
        ledger.feed(
            Sample(
                float(t), (GpuSample(1, "H200", None, 140 * GIB, used * GIB), GpuSample(0, "H200", None, 140 * GIB, 0))
            )
        )
    zero, one = ledger.memory({})["gpus"]
    assert (zero["index"], zero["used_peak"]) == (0, 0.0)
    assert (one["used_at_start"], one["used"], one["used_peak"], one["total"]) == (1.0, 60.0, 70.0, 140.0)


def test_a_gpu_that_reports_nothing_stays_unknown_instead_of_zero() -> None:
    ledger = Ledger()
    ledger.feed(Sample(0.0, (GpuSample(0),)))
    (row,) = ledger.memory({})["gpus"]
    assert row == {"index": 0, "name": None, "total": None, "used_at_start": None, "used": None, "used_peak": None}


def test_a_gpu_that_is_lost_keeps_its_last_row() -> None:
    ledger = Ledger()
    ledger.feed(Sample(0.0, (GpuSample(0, "A", None, GIB, GIB), GpuSample(1, "B", None, GIB, GIB))))
    ledger.feed(Sample(1.0, (GpuSample(0, "A", None, GIB, 0),)))
    assert [row["name"] for row in ledger.memory({})["gpus"]] == ["A", "B"]


def test_the_peak_of_the_process_tree() -> None:
    ledger = Ledger()
    for rss in (1, 3, 2):
        ledger.feed(Sample(0.0, host=HostSample(1, rss * GIB, 0.0)))
    assert ledger.memory({})["host"] == {"rss_peak": 3.0}
