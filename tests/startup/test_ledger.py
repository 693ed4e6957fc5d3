from __future__ import annotations

import json

import pytest

from vdoctor.intake.reader import EventReader
from vdoctor.model import Fact, Facts, GpuProcess, GpuSample, HostSample, Line, ProcessSample, Sample, Xid
from vdoctor.startup.ledger import Ledger
from vdoctor.startup.meter import Meter
from vdoctor.startup.timeline import Timeline

GIB = 1 << 30


def test_without_figures_there_is_nothing_to_say() -> None:
    assert Ledger(Timeline()).memory({}) == {}


def test_keeps_what_the_log_states() -> None:
    memory = Ledger(Timeline()).memory(
        {"gpu.total_gib": Fact(79.25, "log:3"), "mem.weights_gib": Fact(14.25, "log:9"), "port": Fact(1, "argv")}
    )
    assert memory == {"log": {"total": 79.25, "weights": 14.25}}


def test_keeps_the_first_the_last_and_the_highest_value_of_each_gpu() -> None:
    ledger = Ledger(Timeline())
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
    ledger = Ledger(Timeline())
    ledger.feed(Sample(0.0, (GpuSample(0),)))
    (row,) = ledger.memory({})["gpus"]
    figures = (
        "name",
        "uuid",
        "total",
        "used_at_start",
        "used",
        "used_peak",
        "in_use",
        "unexplained",
        "reserved",
        "free",
    )
    assert [row[name] for name in figures] == [None] * len(figures)
    assert [part["measured"] for part in row["parts"].values()] == [None] * 6


def test_a_gpu_that_is_lost_keeps_its_last_row() -> None:
    ledger = Ledger(Timeline())
    ledger.feed(Sample(0.0, (GpuSample(0, "A", None, GIB, GIB), GpuSample(1, "B", None, GIB, GIB))))
    ledger.feed(Sample(1.0, (GpuSample(0, "A", None, GIB, 0),)))
    assert [row["name"] for row in ledger.memory({})["gpus"]] == ["A", "B"]


def test_the_peak_of_the_process_tree() -> None:
    ledger = Ledger(Timeline())
    for rss in (1, 3, 2):
        ledger.feed(Sample(0.0, host=HostSample(1, rss * GIB, 0.0)))
    assert ledger.memory({})["host"] == {"rss_peak": 3.0}


#: Arrival of each line, in seconds, and the line.
START = (
    (5.0, "INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.11.0"),
    (10.0, "INFO 12-01 00:00:00 [gpu_model_runner.py:2602] Starting to load model org/model..."),
    (20.0, "INFO 12-01 00:00:00 [gpu_model_runner.py:2653] Model loading took 10.0000 GiB and 9.000000 seconds"),
    (30.0, "INFO 12-01 00:00:00 [gpu_worker.py:298] Available KV cache memory: 8.00 GiB"),
    (35.0, "Capturing CUDA graphs (decode, FULL):   0%|          | 0/2 [00:00<?, ?it/s]"),
    (40.0, "INFO 12-01 00:00:00 [gpu_model_runner.py:3480] Graph capturing finished in 5 secs, took 0.50 GiB"),
    (45.0, "INFO 12-01 00:00:00 [core.py:210] init engine (profile, create kv cache, warmup model) took 25.00 seconds"),
    (46.0, "INFO:     Application startup complete."),
)
#: From this second on so many GiB are in use.
USED = ((0, 0.5), (7, 1.0), (15, 11.25), (22, 13.0), (28, 11.5), (32, 19.5), (37, 20.5), (43, 21.0))
STATED = {
    "mem.weights_gib": Fact(10.0, "log:3"),
    "mem.kv_available_gib": Fact(8.0, "log:4"),
    "mem.graph_gib": Fact(0.5, "log:6"),
    "mem.activation_gib": Fact(1.4, "log:4"),
}


def started(until: float = 60.0, step: float = 0.2, gpus: int = 1) -> Ledger:
    """Lines and samples in the order of time, as far as `until`."""
    timeline = Timeline()
    ledger, reader = Ledger(timeline), EventReader()
    lines = [Line(no, text, t) for no, (t, text) in enumerate(START, 1)]
    moments = [round(at * step, 3) for at in range(int(min(until, 55.0) / step))]
    for moment in moments:
        while lines and (lines[0].arrived or 0.0) <= moment:
            for event in reader.read([lines.pop(0)]):
                timeline.feed(event)
        used = int([gib for begin, gib in USED if begin <= moment][-1] * GIB)
        rows = tuple(GpuSample(at, "L4", None, 24 * GIB, used, 5, 24 * GIB - GIB // 2 - used) for at in range(gpus))
        ledger.feed(Sample(moment, rows))
    return ledger


def measured(ledger: Ledger, facts: Facts) -> dict[str, float | None]:
    return {name: part["measured"] for name, part in ledger.memory(facts)["gpus"][0]["parts"].items()}


@pytest.mark.parametrize("step", [0.05, 0.2, 1.0])
def test_every_gib_of_a_start_is_accounted_for(step: float) -> None:
    ledger = started(step=step)
    assert measured(ledger, STATED) == {
        "before_start": 0.5,
        "context_other": 0.5,
        "weights": 10.25,
        "activation_peak": 1.75,
        "kv_cache": 8.0,
        "cuda_graphs": 1.0,
    }
    (row,) = ledger.memory(STATED)["gpus"]
    assert (row["as_of"], row["in_use"], row["reserved"], row["free"]) == ("ready", 21.0, 0.5, 2.5)
    # 21 in use, less 0.5 before, 0.5 context, 10 weights, 8 cache, 1 graphs.
    assert row["unexplained"] == 1.0
    assert ledger.facts()["mem.graph_measured_gib"].value == 1.0


def test_what_the_log_does_not_state_is_taken_from_the_meter() -> None:
    (row,) = started().memory({})["gpus"]
    assert {part["log"] for part in row["parts"].values()} == {None}
    # 10.25 of weights instead of 10.
    assert row["unexplained"] == 0.75


def test_figures_of_one_pipeline_stage_hold_for_no_other() -> None:
    (row,) = started().memory(STATED | {"pp.size": Fact(2, "args")})["gpus"]
    assert row["parts"]["weights"] == {"log": None, "measured": 10.25}


@pytest.mark.parametrize(
    ("until", "open_parts"),
    [
        (6.0, {"context_other", "weights", "activation_peak", "kv_cache", "cuda_graphs"}),
        (18.0, {"weights", "activation_peak", "kv_cache", "cuda_graphs"}),
        (29.0, {"activation_peak", "kv_cache", "cuda_graphs"}),
        (34.0, {"kv_cache", "cuda_graphs"}),
        (39.0, {"cuda_graphs"}),
    ],
)
def test_start_that_ends_early_leaves_later_parts_open(until: float, open_parts: set[str]) -> None:
    ledger = started(until)
    assert {name for name, value in measured(ledger, STATED).items() if value is None} == open_parts
    (row,) = ledger.memory(STATED)["gpus"]
    assert (row["as_of"], row["unexplained"]) == ("peak", None)


def test_serving_for_long_does_not_change_the_ledger() -> None:
    ledger = started()
    before = ledger.memory(STATED)["gpus"][0]
    for second in range(60, 400):
        ledger.feed(Sample(float(second), (GpuSample(0, "L4", None, 24 * GIB, (second % 3) * GIB),)))
    after = ledger.memory(STATED)["gpus"][0]
    assert after["parts"] == before["parts"]
    assert (after["in_use"], after["used"]) == (21.0, 0.0)


def test_xid_of_the_hardware_counts_more_than_one_of_a_program() -> None:
    ledger = Ledger(Timeline())
    ledger.feed(Sample(0.1, xids=(Xid(0, 43),)))
    assert ledger.facts()["gpu.xid"].value == 43
    ledger.feed(Sample(0.2, xids=(Xid(0, 45), Xid(2, 79))))
    assert (ledger.facts()["gpu.xid"].value, ledger.facts()["gpu.xid_gpu"].value) == (79, 2)


def test_gpu_that_is_lost_keeps_what_was_measured() -> None:
    ledger = Ledger(Timeline())
    ledger.feed(Sample(0.0, (GpuSample(0, "A", None, 8 * GIB, GIB), GpuSample(1, "A", None, 8 * GIB, 2 * GIB))))
    ledger.feed(Sample(1.0, (GpuSample(1, "A", None, lost=True, fault="GPU is lost"),)))
    one = ledger.memory({})["gpus"][1]
    assert (one["lost"], one["used"], one["used_peak"], one["total"]) == (True, None, 2.0, 8.0)
    facts = ledger.facts()
    assert (facts["gpu.lost"].value, facts["gpu.fault"].value) == (1, "GPU is lost")


def test_holders_are_those_that_are_not_of_the_tree() -> None:
    ledger = Ledger(Timeline())
    tree = (ProcessSample(50, 1, "python", "EngineCore"),)
    ledger.feed(Sample(0.1, host=HostSample(1, 0, 0.0, tree)))
    holders = (GpuProcess(7, GIB, "jupyter"), GpuProcess(8, 3 * GIB), GpuProcess(50, GIB), GpuProcess(9, None))
    ledger.feed(Sample(0.2, (GpuSample(0, "A", None, 8 * GIB, 5 * GIB, processes=holders),)))
    (row,) = ledger.memory({})["gpus"]
    assert [one["pid"] for one in row["holders_at_start"]] == [8, 7, 9]
    assert [one["name"] for one in row["processes"]] == ["jupyter", None, "EngineCore", None]
    assert ledger.facts()["gpu.holders"].value == ("process (pid 8) 3072 MiB", "jupyter (pid 7) 1024 MiB")


def test_slices_of_one_card_have_a_row_each() -> None:
    ledger = Ledger(Timeline())
    ledger.feed(Sample(0.1, (GpuSample(0, "S", "MIG-b", 9, 1), GpuSample(0, "S", "MIG-a", 9, 2))))
    assert [(row["uuid"], row["index"]) for row in ledger.memory({})["gpus"]] == [("MIG-a", 0), ("MIG-b", 0)]


def test_memory_is_plain_json() -> None:
    assert json.loads(json.dumps(started(gpus=2).memory(STATED)))["gpus"][1]["index"] == 1


def test_meter_knows_nothing_where_nothing_was_measured() -> None:
    meter = Meter()
    for t, used in ((0.0, 1), (0.2, 1), (0.4, 1), (10.0, 5), (10.2, 5)):
        meter.feed(t, GpuSample(0, memory_used=used), True)
    # The driver was silent for nine seconds, and meanwhile something happened.
    assert [meter.at(t) for t in (-0.1, 0.0, 0.3, 1.0, 5.0, 10.1, 30.0)] == [None, 1, 1, 1, None, 5, None]
