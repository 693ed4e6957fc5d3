"""Start commands read for what matters to memory."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from vdoctor.budget.extras import Lora
from vdoctor.budget.launch import settings_of
from vdoctor.budget.settings import Settings
from vdoctor.errors import UserError
from vdoctor.launch.command import parse
from vdoctor.launch.options import load
from vdoctor.launch.values import model_of


def read(command: str) -> Settings:
    return settings_of(parse(shlex.split(command)), load(), Settings())


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("--max-model-len 32k", {"max_len": 32000}),
        ("--max-model-len=8K", {"max_len": 8192}),
        ("--max_model_len auto", {"max_len": -1}),
        ("--max-model-len -1", {"max_len": -1}),
        ("-tp 4 -pp 2 -dp 2", {"tp": 4, "pp": 2, "dp": 2}),
        ("--tensor-parallel-size 2 --tensor-parallel-size 8", {"tp": 8}),
        ("--kv-cache-dtype fp8 --dtype half -q awq", {"kv_dtype": "fp8", "dtype": "half", "quantization": "awq"}),
        ("--gpu-memory-utilization 0.5", {"utilization": 0.5}),
        ("--kv-cache-memory-bytes 2G", {"kv_bytes": 2 << 30}),
        ("--num-gpu-blocks-override 99", {"blocks": 99}),
        ("--enforce-eager", {"eager": True}),
        ("--no-enable-prefix-caching", {"prefix_caching": False}),
        ("--disable-hybrid-kv-cache-manager", {"hybrid_manager": False}),
        ("--speculative-config '{\"num_speculative_tokens\": 3}'", {"speculative_tokens": 3, "drafts": True}),
        ('--speculative-config \'{"method": "ngram", "num_speculative_tokens": 2}\'', {"speculative_tokens": 2}),
        ("--spec-model d --spec-tokens 2", {"speculative_tokens": 2, "drafts": True}),
        ("--enable-lora --max-loras 4 --max-lora-rank 64", {"lora": Lora(4, 64)}),
        ("--max-loras 4", {}),
        (
            "--max-num-seqs 64 --max-num-batched-tokens 4096 --block-size 32",
            {"seqs": 64, "batched": 4096, "block_size": 32},
        ),
        ("--port 8000 --trust-remote-code --served-model-name x", {}),
    ],
)
def test_options(words: str, changes: dict[str, Any]) -> None:
    base = Settings()
    assert read(f"vllm serve m {words}") == Settings(**{**{name: getattr(base, name) for name in changes}, **changes})


def test_variables_in_front() -> None:
    found = read("VLLM_CPU_KVCACHE_SPACE=3 VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 vllm serve m")
    assert (found.cpu_space_gib, found.graph_estimate) == (3, False)


@pytest.mark.parametrize(
    "words",
    [
        "--max-model-len many",
        "--max-model-len 0",
        "--tensor-parallel-size -2",
        "--gpu-memory-utilization 1.5",
        "--gpu-memory-utilization nan",
        "--gpu-memory-utilization high",
        "--dtype float12",
        "--max-num-seqs 1.5",
        "--kv-cache-memory-bytes 99999999999999999999",
    ],
)
def test_values_that_vllm_refuses(words: str) -> None:
    with pytest.raises(UserError, match=words.split()[0]):
        read(f"vllm serve m {words}")


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("vllm serve owner/name --port 1", "owner/name"),
        ("vllm serve --model x", "x"),
        ("python -m vllm.entrypoints.openai.api_server --model y", "y"),
        ("docker run --gpus all vllm/vllm-openai:v0.11.0 --model z", "z"),
        ("vllm serve", None),
    ],
)
def test_the_model(command: str, model: str | None) -> None:
    assert model_of(parse(shlex.split(command)), load()) == model
