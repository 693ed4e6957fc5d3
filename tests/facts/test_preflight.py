"""A command against the tables of its release, before it runs."""

from __future__ import annotations

import pytest

from vdoctor.facts.preflight import option_facts, variable_facts
from vdoctor.launch import options
from vdoctor.launch.command import parse_text

TABLE = options.load()


def facts(command: str, version: str | None = "0.32.0") -> dict[str, object]:
    launch = parse_text(command)
    assert launch is not None
    found = option_facts(launch, TABLE, version)
    return {name: fact.value for name, fact in found.items() if fact.value is not False}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("vllm serve m --max-model-len 16k -tp 2 --enable-prefix-caching --no-enable-log-requests", {}),
        ("vllm serve m --max_model_len=4096 -O3 --compilation-config.mode 3 --port 8001", {}),
        ("vllm serve m -cc.cudagraph_mode=FULL --kv-cache-dtype fp8 --dtype bfloat16", {}),
        ("vllm serve m --gpu-memory-utilization 0.95 --max-model-len auto", {}),
        ("vllm serve m --enable-metrics", {"args.unknown": "--enable-metrics"}),
        ("vllm serve m --swap-space 4 --foo", {"args.unknown": "--swap-space --foo"}),
        ("vllm serve m --max-num-seqs many", {"args.bad": "--max-num-seqs", "args.value": "many", "args.not_a_number": True}),
        ("vllm serve m --gpu-memory-utilization 90", {"args.bad": "--gpu-memory-utilization", "args.value": "90", "args.not_a_share": True}),
        ("vllm serve m --port 70000", {"args.bad": "--port", "args.value": "70000", "args.bounds": "0-65535"}),
        ("vllm serve m -tp 0", {"args.bad": "--tensor-parallel-size", "args.value": "0", "args.bounds": ">= 1"}),
        ("vllm serve m --max-model-len -5", {"args.bad": "--max-model-len", "args.value": "-5", "args.bounds": ">= -1"}),
        ("vllm serve m --max-model-len -1 --port 0 --max-num-seqs 1k --seed -3", {}),
        ("vllm serve m --enforce-eager", {"launch.eager": True}),
        ("vllm serve m -- --not-an-option", {}),
    ],
)  # fmt: skip
def test_options(command: str, found: dict[str, object]) -> None:
    assert facts(command) == found


def test_a_choice_that_the_release_does_not_have() -> None:
    found = facts("vllm serve m --dtype fp64")
    assert (found["args.bad"], found["args.value"]) == ("--dtype", "fp64")
    assert "bfloat16" in str(found["args.choices"])


def test_without_a_version_only_what_no_release_has_is_called_unknown() -> None:
    assert facts("vllm serve m --swap-space 4 --async-scheduling", None) == {}
    assert facts("vllm serve m --swap-space 4 --enable-metrics", None) == {"args.unknown": "--enable-metrics"}


def test_a_variable_that_no_release_reads() -> None:
    found = variable_facts({"VLLM_ATTENTION_BACKND": "x", "VLLM_USE_V1": "1", "PATH": "/bin"}, options.variables())
    assert found["env.unknown"].value == ("VLLM_ATTENTION_BACKND",)
    assert found["env.nearest"].value == "VLLM_ATTENTION_BACKEND"


def test_a_variable_unlike_any_other_has_no_nearest() -> None:
    assert "env.nearest" not in variable_facts({"VLLM_MY_TEAM_NAME": "x"}, options.variables())


def test_known_variables_are_no_facts() -> None:
    service = {"VLLM_SERVICE_HOST": "10.0.0.1", "VLLM_SERVICE_PORT_HTTP": "80", "VLLM_PORT_8000_TCP_ADDR": "10.0.0.1"}
    assert variable_facts({"VLLM_USE_V1": "1", **service}, options.variables()) == {}
