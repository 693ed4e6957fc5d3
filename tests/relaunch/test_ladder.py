"""The ladder: what is tried for which failure, and in which release."""

from __future__ import annotations

import pytest

from tests.relaunch.worlds import OPTIONS, fails, finding, fix
from vdoctor.relaunch.ladder import rungs
from vdoctor.relaunch.steps import Outcome


def ids(outcome: Outcome, version: str | None = "0.32.0") -> list[str]:
    return [step.id for step in rungs(outcome, OPTIONS, version)]


UNKNOWN = finding("unknown.error")


def test_graphs_get_smaller_before_there_are_none() -> None:
    found = ids(fails("graph_capture.capture", finding("oom.graph-capture"), mem_utilization=0.9))
    assert found[:2] == ["utilization-0.85", "utilization-0.80"]
    assert [one for one in found if one.startswith("graphs-to")] == ["graphs-to-64", "graphs-to-16", "graphs-to-4"]
    assert found[-1] == "eager"
    assert "piecewise" in found


def test_utilization_never_goes_down_where_it_must_go_up() -> None:
    found = ids(fails("kv_init.allocate", finding("oom.kv-none"), mem_utilization=0.9))
    assert [one for one in found if one.startswith("utilization")] == ["utilization-0.95", "utilization-0.97"]
    on_cpu = fails("kv_init.allocate", finding("oom.kv-none"), mem_utilization=0.9, launch_device="cpu")
    assert not [one for one in ids(on_cpu) if one.startswith("utilization")]


def test_length_is_halved_where_the_log_does_not_say_what_fits() -> None:
    cause = finding("oom.kv-too-small")
    found = ids(fails("kv_init.allocate", cause, model_max_len=4096))
    assert [one for one in found if one.startswith("length")] == [
        "length-1/2",
        "length-1/4",
        "length-1/8",
        "length-1/16",
    ]
    told = fails("kv_init.allocate", finding(cause.id, fix("shorter", max_model_len="1000")), model_max_len=4096)
    assert not [one for one in ids(told) if one.startswith("length")]


@pytest.mark.parametrize(
    "cause",
    ["model.not-found", "args.unknown-flag", "api.port-in-use", "oom.weights", "proc.permission", "env.driver-too-old"],
)
def test_what_no_option_cures_has_no_ladder(cause: str) -> None:
    assert ids(fails("launch.config", finding(cause))) == []


def test_missing_compiler_leads_to_no_compilation() -> None:
    assert ids(fails("kv_init.compile", finding("env.host-compiler-missing"))) == ["eager"]
    assert ids(fails("kv_init.compile", finding("compile.failed")))[0] == "cache-aside"


def test_ranks_that_hang_try_other_ways_to_talk() -> None:
    hung = Outcome("timed out", (UNKNOWN,), {}, fails("launch.distributed_init").came)
    assert ids(hung) == ["no-custom-all-reduce", "no-p2p"]
    alone = fails("launch.distributed_init", UNKNOWN, tp_size=1)
    assert ids(alone) == []
    assert ids(fails("launch.distributed_init", UNKNOWN, launch_device="cpu")) == []


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        ("0.32.0", {"--max-cudagraph-capture-size", "--attention-backend"}, {"--cuda-graph-sizes"}),
        ("0.10.1", {"--cuda-graph-sizes"}, {"--max-cudagraph-capture-size", "--attention-backend"}),
        ("0.6.6", {"--enforce-eager"}, {"--max-cudagraph-capture-size", "--cuda-graph-sizes", "--compilation-config"}),
    ],
)
def test_only_options_that_the_release_has(version: str, has: set[str], lacks: set[str]) -> None:
    outcome = fails("graph_capture.capture", UNKNOWN)
    flags = {flag for step in rungs(outcome, OPTIONS, version) for flag in step.change.flags}
    assert has <= flags
    assert not lacks & flags
    assert all(OPTIONS.exists(flag, version) for flag in flags)


def test_of_an_unknown_release_only_what_no_release_certainly_lacks() -> None:
    flags = {f for step in rungs(fails("graph_capture.capture", UNKNOWN), OPTIONS, None) for f in step.change.flags}
    assert "--enforce-eager" in flags
    assert all(OPTIONS.exists(flag, None) is not False for flag in flags)


def test_every_rung_names_its_price_in_both_languages() -> None:
    for cause in (
        "oom.graph-capture",
        "compile.failed",
        "dist.nccl-system-error",
        "kernel.launch-failure",
        "oom.profile",
    ):
        for step in rungs(fails("graph_capture.capture", finding(cause)), OPTIONS, "0.32.0"):
            assert step.cost is not None
            assert set(step.cost) == {"en", "zh"}


@pytest.mark.parametrize("version", ["0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.1", "0.32.0"])
def test_every_release_has_one_way_to_choose_another_attention_kernel(version: str) -> None:
    found = ids(fails("weight_load.process", finding("kernel.cuda-error")), version)
    assert [one for one in found if one.startswith("attention")] == ["attention-flash-attn", "attention-triton-attn"]
