"""What `vdoctor estimate` says about tiny models, against what the real vLLM computes for the same ones.

One process of the real vLLM builds the whole engine for each case (configuration, model from its files, cache) and
tells the number of its "KV cache size: N tokens" line; one server is started as users start it and its line is read.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from tests.vllm.watched import STOP_TIMEOUT_S, RealVllm, free_port
from vdoctor.cli import main_group

pytestmark = pytest.mark.vllm

MODELS_TOOL = Path(__file__).parents[2] / "tools" / "tiny_models.py"
TRUTH = Path(__file__).with_name("truth.py")
# Some forty engines, most of them in two seconds; the first inspection of each architecture takes ten.
TIMEOUT_S = 1800
BUDGET = 64 << 20
KINDS = (
    "deepseek-v2", "deepseek-v3", "falcon-h1", "gemma2", "gemma3", "gpt-oss", "gpt2", "granite-hybrid", "jamba", "lfm2",
    "llama-gqa", "llama-mha", "llama-mqa", "llama-tied", "mistral-window", "mixtral", "nemotron-h", "opt", "phi3", "qwen2",
    "qwen3", "qwen3-moe", "qwen3-next",
)  # fmt: skip


DRAFT = {"method": "draft_model", "num_speculative_tokens": 2}


class Case(NamedTuple):
    """A model and the options that differ from the plain ones."""

    model: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """For messages and for finding the answer."""
        return "+".join([self.model, *(f"{key}={value}" for key, value in self.options.items())])


CASES = [Case(kind, {}) for kind in KINDS] + [
    Case("qwen3", {"kv_cache_dtype": "fp8"}),
    Case("gemma3", {"kv_cache_dtype": "fp8"}),
    Case("qwen3-next", {"kv_cache_dtype": "fp8"}),
    Case("gemma3", {"max_num_batched_tokens": 256, "max_model_len": 2000}),
    Case("gemma2", {"disable_hybrid_kv_cache_manager": True}),
    Case("mistral-window", {"max_num_batched_tokens": 300, "max_model_len": 2000}),
    Case("llama-gqa", {"block_size": 64}),
    Case("qwen3-next", {"enable_prefix_caching": False, "max_model_len": 2000}),
    Case("granite-hybrid", {"enable_prefix_caching": False, "max_model_len": 2000}),
    Case("granite-hybrid", {"mamba_ssm_cache_dtype": "bfloat16", "max_model_len": 2000}),
    Case("llama-gqa", {"num_gpu_blocks_override": 37}),
    Case("llama-gqa", {"max_model_len": -1, "kv_cache_memory_bytes": 1 << 20}),
    Case("qwen3", {"dtype": "float32"}),
    Case("llama-gqa", {"tensor_parallel_size": 2}),
    Case("llama-mqa", {"tensor_parallel_size": 2}),
    Case("qwen3-moe", {"tensor_parallel_size": 2}),
    Case("gemma3", {"pipeline_parallel_size": 2}),
    *(Case(kind, {"enable_lora": True, "max_loras": 2, "max_lora_rank": 16})
      for kind in ("llama-gqa", "llama-tied", "qwen2", "qwen3", "mixtral", "gemma3", "opt")),
    Case("llama-gqa", {"enable_lora": True, "max_loras": 2, "max_lora_rank": 16, "tensor_parallel_size": 2}),
    Case("llama-gqa", {"speculative_config": {"model": "llama-gqa", **DRAFT}}),
    Case("llama-gqa", {"speculative_config": {"model": "llama-mha", **DRAFT}}),
    Case("llama-gqa", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2}}),
]  # fmt: skip


@pytest.fixture(scope="session")
def kinds() -> dict[str, str]:
    """Name to folder of the tiny models."""
    done = subprocess.run([sys.executable, str(MODELS_TOOL)], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def options_of(case: Case, kinds: dict[str, str]) -> dict[str, Any]:
    """The draft is named by its kind."""
    options = {"max_model_len": 1000, "kv_cache_memory_bytes": BUDGET, "dtype": "bfloat16"} | case.options
    draft = options.get("speculative_config")
    if isinstance(draft, dict) and draft.get("model") in kinds:
        options["speculative_config"] = draft | {"model": kinds[draft["model"]]}
    return options


@pytest.fixture(scope="module")
def truth(real: RealVllm, kinds: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What vLLM computed, by the name of the case."""
    lines = []
    for case in CASES:
        parallel = any("parallel" in key for key in case.options)
        env = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"} if parallel else {}
        lines.append(
            json.dumps({"name": case.name, "model": kinds[case.model], "options": options_of(case, kinds), "env": env})
        )
    done = subprocess.run(
        [real.python, str(TRUTH)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | {"VLLM_CACHE_ROOT": real.cache},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {answer["name"]: answer for answer in answers}


def estimated(model: str, options: dict[str, Any], batched: int) -> dict[str, Any]:
    """The JSON of `vdoctor estimate` for the CPU build that is installed."""
    words = ["estimate", model, "--platform", "cpu", "--vllm-version", "0.32.0", "--format", "json"]
    for key, value in ({"max_num_batched_tokens": batched} | options).items():
        flag = key.replace("_", "-")
        words += (
            [f"--{flag}"]
            if value is True
            else [f"--no-{flag}"]
            if value is False
            else [f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value)]
        )
    result = CliRunner().invoke(main_group, words, standalone_mode=False)
    assert result.exception is None, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tokens_are_those_of_vllm(case: Case, truth: dict[str, dict[str, Any]], kinds: dict[str, str]) -> None:
    told = truth[case.name]
    assert "error" not in told, told
    answer = estimated(kinds[case.model], options_of(case, kinds), told["batched"])
    gpu = answer["gpus"][0]
    assert answer["exact"] is True
    assert (gpu["kv_tokens"], answer["facts"]["kv.blocks"]["value"]) == (told["printed_tokens"], told["blocks"])
    assert gpu["max_concurrency"] == pytest.approx(told["concurrency"], abs=1e-4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_weights_are_those_of_vllm(case: Case, truth: dict[str, dict[str, Any]], kinds: dict[str, str]) -> None:
    """Within one percent, on every rank."""
    told = truth[case.name]
    answer = estimated(kinds[case.model], options_of(case, kinds), told["batched"])
    mine = [gpu["weights_bytes"] for gpu in answer["gpus"]]
    assert mine == pytest.approx(told["weights_bytes"], rel=0.01)


def test_server_prints_the_number(real: RealVllm, kinds: dict[str, str], tmp_path: Path) -> None:
    """A server as users start it, estimated from its own start command."""
    command = [real.vllm, "serve", kinds["gemma3"], "--port", str(free_port()), "--max-model-len", "1500",
               "--enforce-eager", "--skip-tokenizer-init"]  # fmt: skip
    env = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CACHE_ROOT": real.cache,
    }
    log = tmp_path / "log.txt"
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | env, start_new_session=True)
        try:
            found = wait_for(server, log, r"KV cache size: ([\d,]+) tokens, .* per request: ([\d.]+)x")
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # engine and worker, too
            server.wait(STOP_TIMEOUT_S)
    words = ["estimate", "--platform", "cpu", "--vllm-version", "0.32.0", "--format", "json", "--",
             "VLLM_CPU_KVCACHE_SPACE=1", *command]  # fmt: skip
    result = CliRunner().invoke(main_group, words, standalone_mode=False)
    assert result.exception is None, result.output
    gpu = json.loads(result.stdout)["gpus"][0]
    assert (f"{gpu['kv_tokens']:,}", f"{gpu['max_concurrency']:.2f}") == found.groups()


def wait_for(server: subprocess.Popen[bytes], log: Path, pattern: str) -> re.Match[str]:
    """The first match in the log of a server that still runs."""
    for _ in range(600):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found
        try:
            server.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
        break
    pytest.fail(log.read_text(errors="replace")[-4000:], pytrace=False)
