from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.facts.log import LogFacts
from vdoctor.facts.registry import known
from vdoctor.intake.reader import EventReader
from vdoctor.model import FactValue, Line


def read(*lines: str) -> LogFacts:
    facts = LogFacts()
    for event in EventReader().read(Line(no, text) for no, text in enumerate(lines, 1)):
        facts.feed(event)
    return facts


def values(*lines: str) -> dict[str, FactValue]:
    return {name: fact.value for name, fact in read(*lines).facts.items()}


HEADER = "(EngineCore_DP0 pid=7) INFO 12-01 02:03:04 [core.py:97] "


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("vLLM API server version 0.11.0", {"vllm.version": "0.11.0"}),
        ("vLLM API server version 0.11.1rc2.dev5+g1a2b3c", {"vllm.version": "0.11.1rc2.dev5+g1a2b3c"}),
        (" ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0", {"vllm.version": "0.32.0"}),
        (
            "Initializing an LLM engine (v0.6.3) with config: model='org/m', tokenizer='m', tensor_parallel_size=2, quantization=awq, seed=0",
            {"vllm.version": "0.6.3", "model.name": "org/m", "tp.size": 2, "model.quantization": "awq"},
        ),
        (
            "Initializing a V1 LLM engine (v0.11.0) with config: model='m', quantization=None",
            {"vllm.version": "0.11.0", "model.name": "m"},
        ),
        ("Starting to load model org/m...", {"model.name": "org/m"}),
        ("Resolved architecture: LlamaForCausalLM", {"model.architecture": "LlamaForCausalLM"}),
        ("Using max model len 40960", {"model.max_len": 40960}),
        ("Loading model weights took 14.2487 GB", {"mem.weights_gib": 14.2487}),
        ("Model loading took 14.2487 GiB memory and 12.345678 seconds", {"mem.weights_gib": 14.2487}),
        ("Available KV cache memory: -3.51 GiB", {"mem.kv_available_gib": -3.51}),
        ("GPU KV cache size: 447,280 tokens", {"kv.tokens": 447280}),
        (
            "CPU KV cache size: 262,144 tokens, Maximum concurrency for 512 tokens per request: 512.00x",
            {"kv.tokens": 262144},
        ),
        ("Graph capturing finished in 23 secs, took 0.55 GiB", {"mem.graph_gib": 0.55}),
        (
            "Free memory on device (60.12/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, 71.33 GiB).",
            {"gpu.free_gib": 60.12, "gpu.total_gib": 79.25, "mem.utilization": 0.9, "mem.requested_gib": 71.33},
        ),
        (
            "the current vLLM instance can use total_gpu_memory (79.25GiB) x gpu_memory_utilization (0.90) = 71.33GiB",
            {"gpu.total_gib": 79.25, "mem.utilization": 0.9, "mem.requested_gib": 71.33},
        ),
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.00 GiB is free.",
            {"gpu.total_gib": 79.25},
        ),
        ("CUDA out of memory occurred when warming up sampler with 1024 dummy requests.", {"seqs.warmup": 1024}),
    ],
)
def test_reads_the_facts_of_a_line(message: str, expected: dict[str, FactValue]) -> None:
    found = values(HEADER + message)
    assert expected.items() <= found.items()


def test_reads_the_printed_arguments() -> None:
    facts = read(
        HEADER
        + "non-default args: {'model_tag': 'org/m', 'port': 9101, 'tensor_parallel_size': 2, 'gpu_memory_utilization': 0.95, 'enforce_eager': True}"
    )
    found = {name: fact.value for name, fact in facts.facts.items()}
    assert found == {"model.name": "org/m", "port": 9101, "tp.size": 2, "mem.utilization": 0.95, "launch.eager": True}
    assert facts.arguments is not None


def test_all_arguments_of_v0_are_facts_but_no_command() -> None:
    facts = read(HEADER + "args: Namespace(model='m', port=8000, quantization=None, tensor_parallel_size=1)")
    assert facts.facts["port"].value == 8000
    assert "model.quantization" not in facts.facts
    assert facts.arguments is None


def test_the_first_value_stays_and_keeps_its_line() -> None:
    facts = read(HEADER + "Starting to load model a...", HEADER + "Starting to load model b...")
    assert (facts.facts["model.name"].value, facts.facts["model.name"].source) == ("a", "log:1")


@pytest.mark.parametrize(
    "lines",
    [
        ["$ vllm serve m --port 1"],
        [
            "Traceback (most recent call last):",
            '  File "a.py", line 1, in f',
            "    f()",
            "ValueError: x",
            "vllm serve m --port 1",
        ],
        ["vllm-1  | + vllm serve m --port 1"],
        ["> vllm serve m --port 1"],
        ["```", "vllm serve m \\", "  --port 1", "```"],
    ],
)
def test_finds_the_command_wherever_it_stands(lines: list[str]) -> None:
    assert read(*lines).command == "vllm serve m --port 1"


def test_a_record_is_no_command() -> None:
    assert read(HEADER + "vllm serve m --port 1").command is None


@pytest.mark.parametrize(
    "message",
    [
        "GPU KV cache size: , tokens",
        f"GPU KV cache size: {'9' * 6000} tokens",
        f"with {'1' * 6000} dummy requests",
        f"Using max model len {'1' * 6000}",
        "Model loading took " + "9" * 400 + " GiB and",
        "non-default args: {'gpu_memory_utilization': 1e999, 'port': " + "9" * 3000 + "}",
    ],
)
def test_figures_that_are_none_are_left_out(message: str) -> None:
    for name, value in values(HEADER + message).items():
        assert name == "port" or value not in (float("inf"), "")


@given(st.text(max_size=80))
def test_any_message_can_be_read(text: str) -> None:
    for name in values(HEADER + text.replace("\n", " "), text):
        assert known(name)


def test_what_a_restarted_server_states_replaces_what_it_stated_before() -> None:
    facts = read(HEADER + "Using max model len 40960", HEADER + "Starting to load model a...")
    facts.restart()
    for event in EventReader().read(
        [Line(9, HEADER + "Using max model len 512"), Line(10, HEADER + "Using max model len 7")]
    ):
        facts.feed(event)
    assert (facts.facts["model.max_len"].value, facts.facts["model.max_len"].source) == (512, "log:9")
    assert facts.facts["model.name"].value == "a"


@pytest.mark.parametrize(
    "text",
    [
        "LLM engine " * 5000 + "with config: model='" + "a" * 5000,
        "Initializing a V1 LLM engine (v1) with config: " * 1300 + "tensor_parallel_size=x quantization=X",
        "Free memory on device(" * 3000,
        "args: Namespace(" + "a=(" * 20000,
    ],
)
def test_a_long_hostile_line_takes_linear_time(text: str) -> None:
    read(HEADER + text)


def test_of_the_start_before_only_what_belongs_to_the_machine_is_current() -> None:
    facts = read(
        HEADER + "vLLM API server version 0.11.2",
        HEADER + "non-default args: {'model': 'a', 'gpu_memory_utilization': 0.97}",
        HEADER + "Model loading took 15.25 GiB memory and 9.0 seconds",
        HEADER + "torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 23.64 GiB",
    )
    assert facts.current == facts.facts
    facts.restart()
    for event in EventReader().read([Line(9, HEADER + "non-default args: {'model': 'b'}")]):
        facts.feed(event)
    assert {name: fact.value for name, fact in facts.current.items()} == {
        "vllm.version": "0.11.2",
        "gpu.total_gib": 23.64,
        "model.name": "b",
    }
