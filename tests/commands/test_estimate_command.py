"""vdoctor estimate from the outside: both ways to ask, forms, exit statuses, bad input."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA, write_model

CPU = ("--platform", "cpu", "--vllm-version", "0.32.0", "--kv-cache-memory-bytes", "64M")


def vdoctor(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "VLLM_"))} | env
    return subprocess.run(
        [sys.executable, "-m", "vdoctor", "estimate", *words], capture_output=True, text=True, timeout=60, env=environ
    )


def answer(*words: str, status: int = 0, **env: str) -> dict[str, Any]:
    done = vdoctor("--format", "json", *words, **env)
    assert (done.returncode, done.stderr) == (status, ""), done.stderr
    return json.loads(done.stdout)


@pytest.fixture()
def model(tmp_path: Path) -> str:
    return str(write_model(tmp_path / "m"))


def test_schema(model: str) -> None:
    found = answer(model, *CPU, "--max-model-len", "1000")
    assert {"schema", "model", "vllm_version", "gpus", "fits", "max_model_len", "changes", "facts"} <= found.keys()
    assert (found["schema"], found["model"], found["vllm_version"]) == ("vdoctor.estimate/1", model, "0.32.0")
    (gpu,) = found["gpus"]
    assert {
        "rank", "weights_bytes", "kv_bytes_per_token", "kv_cache_bytes", "kv_tokens", "max_concurrency",
        "activation_bytes", "graph_bytes", "other_bytes",
    } <= gpu.keys()  # fmt: skip
    # 512 blocks of 128 tokens; a request of 1000 takes 8.
    assert (gpu["kv_bytes_per_token"], gpu["kv_cache_bytes"], gpu["kv_tokens"]) == (1024, 64 << 20, 64000)
    assert (found["fits"], found["max_model_len"], gpu["max_concurrency"]) == (True, 4096, 64.0)


def test_a_command_says_the_same(model: str) -> None:
    direct = answer(model, *CPU, "--max-model-len", "1000", "--tensor-parallel-size", "2")
    command = ("vllm", "serve", model, "--max-model-len", "1000", "-tp", "2", "--kv-cache-memory-bytes", "64M")
    asked = answer("--platform", "cpu", "--vllm-version", "0.32.0", "--", *command)
    assert asked["gpus"] == direct["gpus"]
    assert [gpu["rank"] for gpu in asked["gpus"]] == [0, 1]


def test_space_of_the_cpu_build_from_the_environment(model: str) -> None:
    found = answer(model, "--platform", "cpu", VLLM_CPU_KVCACHE_SPACE="2")
    assert found["gpus"][0]["kv_cache_bytes"] == 2 << 30


def test_release_of_a_container(model: str) -> None:
    command = ("docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.11.0", "--model", model)
    assert answer("--gpu-memory", "24", "--", *command)["vllm_version"] == "0.11.0"


def test_one_that_does_not_fit_comes_with_a_command_that_does(model: str) -> None:
    """The corrected command, asked again, fits."""
    ask = ("--gpu-memory", "1.5", "--vllm-version", "0.11.0")
    command = ["vllm", "serve", model, "--max-num-seqs", "2000"]
    found = answer(*ask, "--", *command, status=1)
    assert found["fits"] is not True
    better = next(change for change in found["changes"] if change["fits"])
    again = answer(*ask, "--", *better["command"].split())
    assert again["fits"] is True


def test_known_models_need_no_files() -> None:
    found = answer("qwen/qwen3-8b", "--gpu-memory", "79")
    assert found["model"] == "Qwen/Qwen3-8B"
    assert [doubt["id"] for doubt in found["doubts"]] == ["table", "version", "gpu_memory"]


def test_entry_of_the_hub_cache(tmp_path: Path) -> None:
    write_model(tmp_path / "models--owner--name" / "snapshots" / "abc")
    found = answer("owner/name", *CPU, HF_HUB_CACHE=str(tmp_path))
    assert found["gpus"][0]["weights_bytes"] > 1 << 20


def test_a_preset_prints_a_command() -> None:
    found = answer("Qwen/Qwen3-8B", "--preset", "24gb", "--vllm-version", "0.11.0")
    assert found["preset"]["command"].startswith("vllm serve Qwen/Qwen3-8B --")
    assert {reason["name"] for reason in found["preset"]["reasons"]} == set(found["preset"]["changes"]["flags"])
    assert vdoctor("deepseek-ai/DeepSeek-R1", "--preset", "8x80gb").returncode == 1


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize(("lang", "words"), [("en", ["weights", "one token takes"]), ("zh", ["权重", "每个 token"])])
def test_forms_and_languages(model: str, form: str, lang: str, words: list[str]) -> None:
    done = vdoctor(model, *CPU, "--format", form, "--lang", lang)
    assert done.returncode == 0 and all(word in done.stdout for word in words)


def test_output_to_a_file(model: str, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    done = vdoctor(model, *CPU, "--format", "json", "--output", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(target.read_text())["fits"] is True
    assert vdoctor(model, *CPU, "--output", str(tmp_path / "no" / "x")).returncode == 2


def test_unknown_architecture_is_counted_with_a_warning(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", LLAMA | {"model_type": "novel", "architectures": ["NovelForCausalLM"]})
    found = answer(str(folder), *CPU)
    assert "architecture" in [doubt["id"] for doubt in found["doubts"]]
    assert found["gpus"][0]["kv_bytes_per_token"] == 1024


def test_half_a_download_is_told(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=3)
    (folder / "model-00003-of-00003.safetensors").unlink()
    found = answer(str(folder), *CPU)
    assert "1 of 3 weight files" in found["problems"][0]
    assert found["gpus"][0]["weights_bytes"] > 1 << 20


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no model given"),
        (("/no/such/model",), "no such model folder"),
        (("owner/unheard-of",), "not in the table"),
        (("Qwen/Qwen3-8",), "vdoctor knows Qwen/Qwen3-8B"),
        (("Qwen/Qwen3-8B", "--tensor-parallel-size", "3"), "take --tensor-parallel-size 1, 2, 4, 8"),
        (("Qwen/Qwen3-8B", "--vllm-version", "newest"), "not a vLLM version"),
        (("Qwen/Qwen3-8B", "--vllm-version", "0.5.5"), "old engine"),
        (("Qwen/Qwen3-8B", "--max-model-len", "-5"), "--max-model-len -5"),
        (("Qwen/Qwen3-8B", "--gpu-memory", "-1"), "--gpu-memory"),
        (("Qwen/Qwen3-8B", "--kv-cache-dtype", "swirl"), "--kv-cache-dtype swirl"),
        (("--", "vllm", "serve"), "no model given"),
        (("--", "sleep", "10"), "no model given"),
    ],
)
def test_bad_questions(words: tuple[str, ...], says: str) -> None:
    done = vdoctor(*words)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr and "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b"\x00\xff"),
        ("config.json", b'{"model_type": "llama"}'),
        ("config.json", json.dumps(LLAMA | {"num_hidden_layers": -1}).encode()),
        ("config.json", json.dumps(LLAMA | {"layer_types": ["\x1b[31mred"] * 4}).encode()),
        ("model.safetensors", b"\xff" * 64),
        ("model.safetensors", (1 << 62).to_bytes(8, "little") + b"{}"),
        ("model.safetensors", (40).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[-1],"dat'),
    ],
)
def test_broken_models(model: str, file: str, content: bytes) -> None:
    (Path(model) / file).write_bytes(content)
    done = vdoctor(model)
    assert done.returncode == 2 and model in done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stderr and done.stdout == ""


def test_the_file_of_config_counts_and_the_command_beats_it(model: str, tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(f"model: {model}\nmax-model-len: 500\nkv_cache_memory_bytes: 64M\n")
    ask = ("--platform", "cpu", "--vllm-version", "0.32.0", "--", "vllm", "serve", "--config", str(file))
    assert answer(*ask)["gpus"][0]["max_concurrency"] == 128.0
    assert answer(*ask, "--max-model-len", "1000")["gpus"] == answer(model, *CPU, "--max-model-len", "1000")["gpus"]
    file.unlink()
    os.mkfifo(file)
    done = vdoctor(*ask)
    assert (done.returncode, done.stdout) == (2, "") and "not a plain file" in done.stderr


def _fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("make", [_fifo, _loop, _folder])
def test_what_is_no_file_is_told_and_not_waited_for(model: str, file: str, make: Callable[[Path], None]) -> None:
    make(Path(model) / file)
    done = vdoctor(model, "--gpu-memory", "24")
    assert done.returncode == 2 and f"{model}/{file}" in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize("make", [_fifo, _loop, _folder])
@pytest.mark.parametrize("file", ["model.safetensors.index.json", "hf_quant_config.json"])
def test_files_that_may_be_missing_count_as_missing(model: str, file: str, make: Callable[[Path], None]) -> None:
    make(Path(model) / file)
    assert answer(model, *CPU)["gpus"][0]["weights_bytes"] > 1 << 20


@pytest.mark.parametrize(
    ("name", "says"), [("a" * 5000, "too long"), ("~nobody-here/m", "home"), ("/no/such/../x", "no such model folder")]
)
def test_names_that_are_no_folder(name: str, says: str) -> None:
    done = vdoctor(name)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr) < 1000


def test_lora_and_draft_are_counted(model: str) -> None:
    plain = answer(model, *CPU)["gpus"][0]
    slots = answer(model, *CPU, "--enable-lora", "--max-loras", "2", "--max-lora-rank", "8")
    draft = json.dumps({"model": model, "num_speculative_tokens": 2, "method": "draft_model"})
    twice = answer(model, *CPU, "--speculative-config", draft)
    # A of 8 x inputs and B of outputs x 8 for each linear layer, two slots of two bytes; embedding and head as well.
    layer = (256 + 256) + 2 * (256 + 64) + (256 + 256) + 3 * (256 + 512)
    assert slots["gpus"][0]["weights_bytes"] - plain["weights_bytes"] == (4 * layer + 2 * (1000 + 256)) * 8 * 2 * 2
    assert twice["gpus"][0]["weights_bytes"] == 2 * plain["weights_bytes"]
    assert twice["gpus"][0]["kv_bytes_per_token"] == 2 * plain["kv_bytes_per_token"]
    assert [doubt["id"] for found in (slots, twice) for doubt in found["doubts"]] == ["lora_counted", "draft_counted"]


@pytest.mark.parametrize(
    ("words", "doubt"),
    [
        (("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'), "draft"),
        (("--speculative-config", '{"model": "no/where", "num_speculative_tokens": 1}'), "draft_missing"),
        (("--cpu-offload-gb", "4"), "beyond_less"),
        (("--kv-transfer-config", "{}"), "beyond_more"),
        (("--hf-overrides", "{}"), "beyond_either"),
        (("--cpu-offload-gb", "0"), None),
        (("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}'), None),
    ],
)
def test_what_is_not_counted_is_said_with_its_direction(
    model: str, words: tuple[str, ...], doubt: str | None, tmp_path: Path
) -> None:
    found = answer(*CPU, "--", "vllm", "serve", model, *words, HF_HUB_CACHE=str(tmp_path / "none"))
    assert (doubt in [one["id"] for one in found["doubts"]]) if doubt else found["doubts"] == []


def test_sparse_attention_is_refused(model: str) -> None:
    path = Path(model) / "config.json"
    path.write_text(json.dumps(LLAMA | {"model_type": "deepseek_v32", "index_topk": 2048, "kv_lora_rank": 512}))
    done = vdoctor(model, "--gpu-memory", "141")
    assert (done.returncode, done.stdout) == (2, "") and "sparse attention" in done.stderr


def test_a_command_that_makes_it_fit_keeps_what_was_given_and_fits_when_it_is_asked() -> None:
    given = ("--max-num-seqs", "8", "--dtype", "float16", "--max-model-len", "65536")
    machine = ("--gpu-memory", "24", "--vllm-version", "0.32.0")
    found = answer("meta-llama/Llama-3.1-8B", *machine, *given, status=1)
    assert found["changes"]
    for change in found["changes"]:
        words = shlex.split(change["command"])
        kept = [words[words.index(flag) + 1] for flag in ("--max-num-seqs", "--dtype")]
        assert kept == ["8", "float16"]
        again = answer(*machine, "--", *words)
        assert (again["fits"], again["gpus"][0]["kv_tokens"]) == (True, change["kv_tokens"])


def test_a_preset_leaves_what_was_given() -> None:
    found = answer("Qwen/Qwen3-8B", "--preset", "24gb", "--max-model-len", "4096", "--dtype", "float16")
    assert "--max-model-len 4096 --dtype float16" in found["preset"]["command"]
    assert "--max-model-len" not in {reason["name"] for reason in found["preset"]["reasons"]}


def test_an_encoder_whose_weights_are_not_there_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    text = {"model_type": "gemma3_text", "num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 512}
    config = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 64}}
    (folder / "config.json").write_text(json.dumps(config))
    assert "weights of its encoder are not counted" in vdoctor(str(folder), "--gpu-memory", "24").stdout


@pytest.mark.parametrize("gib", ["nan", "inf", "0", "x"])
def test_memory_that_is_no_number(gib: str) -> None:
    done = vdoctor("Qwen/Qwen3-8B", "--gpu-memory", gib)
    assert (done.returncode, done.stdout) == (2, "") and "--gpu-memory" in done.stderr
