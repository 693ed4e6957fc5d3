from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.facts.launch import launch_facts
from vdoctor.launch import options as tables
from vdoctor.launch.command import parse, parse_text
from vdoctor.model import FactValue


def facts(text: str) -> dict[str, FactValue]:
    launch = parse_text(text)
    assert launch is not None
    return {name: fact.value for name, fact in launch_facts(launch, tables.load()).items()}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("m", {"model.name": "m"}),
        ("--model m", {"model.name": "m"}),
        ("-- m", {"model.name": "m"}),
        ("--foo bar -- m", {"model.name": "m"}),
        ("--port 1 org/m", {"model.name": "org/m", "port": 1}),
        ("m --tensor-parallel-size 2", {"tp.size": 2}),
        ("m -tp=2 -pp 3", {"tp.size": 2, "pp.size": 3}),
        ("m --tensor_parallel_size=2", {"tp.size": 2}),
        ("m -tp 2 -tp 4", {"tp.size": 4}),
        ("m --max-model-len 8192", {"model.max_len": 8192}),
        ("m --max-model-len 16k", {"model.max_len": 16000}),
        ("m --max-model-len 16K", {"model.max_len": 16384}),
        ("m --max-model-len 1.5k", {"model.max_len": 1500}),
        ("m --gpu-memory-utilization 0.95", {"mem.utilization": 0.95}),
        ("m --gpu-memory-util 0.95", {"mem.utilization": 0.95}),
        ("m --max-num-seqs 64", {"seqs.max": 64}),
        ("m --quantization awq --dtype half", {"model.quantization": "awq", "model.dtype": "half"}),
        ("m -q awq", {"model.quantization": "awq"}),
        ("m --port 8001", {"port": 8001}),
        ("m --enforce-eager", {"launch.eager": True}),
        ("m --no-enforce-eager", {"launch.eager": False}),
    ],
)
def test_reads_the_options_that_matter(args: str, expected: dict[str, FactValue]) -> None:
    found = facts(f"vllm serve {args}")
    assert expected.items() <= found.items()


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ("m --max-model-len abc", "model.max_len"),
        ("m --max-model-len", "model.max_len"),
        ("m --max-model-len --port 1", "model.max_len"),
        ("m --max-model-len auto", "model.max_len"),
        ("m --max-model-len -1", "model.max_len"),
        ("m --max-model-len=", "model.max_len"),
        ("m --gpu-memory-utilization nan", "mem.utilization"),
        ("m --gpu-memory-utilization inf", "mem.utilization"),
        ("m --quantization --port 1", "model.quantization"),
        ("m -- --port 1", "port"),
        ("m", "launch.eager"),
        ("", "model.name"),
        ("--enable-lora", "model.name"),
        ("--port 1", "model.name"),
    ],
)
def test_what_is_not_surely_said_is_no_fact(args: str, name: str) -> None:
    assert name not in facts(f"vllm serve {args}")


def test_a_value_of_an_unknown_option_is_not_the_model() -> None:
    assert facts("python -m vllm.entrypoints.openai.api_server --foo bar").get("model.name") is None
    assert facts("vllm serve org/m --foo bar")["model.name"] == "org/m"
    assert facts("docker run --entrypoint vllm img serve m")["model.name"] == "m"


@pytest.mark.parametrize(
    ("text", "layer", "ipc_host"),
    [
        ("vllm serve m", "bare", None),
        ("docker run img m", "docker", False),
        ("docker run --ipc=host img m", "docker", True),
        ("podman run --ipc host img m", "docker", True),
    ],
)
def test_the_layer_of_the_launch(text: str, layer: str, ipc_host: bool | None) -> None:
    found = facts(text)
    assert found["launch.layer"] == layer
    assert found.get("launch.ipc_host") is ipc_host


def test_every_fact_says_where_it_is_from() -> None:
    launch = parse_text("vllm serve m --port 1")
    assert launch is not None
    assert {fact.source for fact in launch_facts(launch, tables.load()).values()} == {"argv"}
    assert {fact.source for fact in launch_facts(launch, tables.load(), "log:3").values()} == {"log:3"}


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["vllm", "serve", "--max-model-len", "-tp", "-q=", "--", "-1", "16K", "9" * 400, "--port=1e999"]
            ),
            st.text(max_size=5),
        ),
        max_size=8,
    )
)
def test_any_words_can_be_given(words: list[str]) -> None:
    launch_facts(parse(["vllm", "serve", *words]), tables.load())
