"""Models in folders, and what a launch asks of them, against what a vLLM has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA, write_model
from vdoctor.facts.launch import launch_facts
from vdoctor.launch import options
from vdoctor.launch.command import parse
from vdoctor.live.probe.finding import Seen
from vdoctor.live.probe.fit import fit
from vdoctor.live.probe.model import model
from vdoctor.live.probe.suits import suits
from vdoctor.model import FactValue

TABLE = options.load()
#: What the target's own Python answers (live/probe/target_script.py).
ANSWER = {
    "architectures": ["LlamaForCausalLM", "Qwen3ForCausalLM"],
    "transformers_classes": ["LlamaForCausalLM", "DogeForCausalLM"],
    "model_types": ["llama", "qwen3", "doge"],
    "tool_parsers": ["hermes", "mistral"],
    "reasoning_parsers": ["deepseek_r1", "qwen3"],
    "plugins": [],
}


def whole(folder: Path, **changes: Any) -> Path:
    (write_model(folder, LLAMA | changes, shards=2) / "tokenizer.json").write_text("{}")
    return folder


def looked(path: Path | str, *words: str, env: dict[str, str] | None = None, **known: FactValue) -> dict[str, Any]:
    """All facts that model, command and vLLM give together, without the false ones."""
    launch = parse(["vllm", "serve", str(path), *words])
    assert launch is not None
    seen = model(launch, env or {}, TABLE, str(path), lambda: {"meta/Tiny": LLAMA})
    seen.things["target"] = ANSWER
    facts = {name: fact.value for name, fact in (launch_facts(launch, TABLE) | seen.facts).items()} | known
    for more in (suits(seen, launch, TABLE, facts), fit(seen, launch, env or {}, TABLE, facts)):
        seen.merge(more)
    found = {name: fact.value for name, fact in seen.facts.items() if fact.value is not False}
    return found | {"missed": seen.unknown}


def test_a_whole_model_has_no_faults_and_its_numbers(tmp_path: Path) -> None:
    facts = looked(whole(tmp_path / "m"))
    assert facts["model.faults"] == ()
    assert (facts["model.heads"], facts["model.kv_heads"], facts["model.type"]) == (8, 2, "llama")
    assert (facts["model.derived_max_len"], facts["model.architecture"]) == (4096, "LlamaForCausalLM")
    assert facts["missed"] == {}


def _write(name: str, text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(text)


def _cut(folder: Path) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _longer(folder: Path) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 7)


def _no_weights(folder: Path) -> None:
    for path in folder.glob("model*"):
        path.unlink()


SHARD = "model-00001-of-00002.safetensors"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n"


@pytest.mark.parametrize(
    ("break_it", "fault", "file"),
    [
        (_write(SHARD, POINTER), "pointer", SHARD),
        (_write(SHARD, "<!DOCTYPE html><html>login</html>"), "pointer", SHARD),
        (_cut, "cut-off", "model-00002-of-00002.safetensors"),
        (_longer, "cut-off", "model-00002-of-00002.safetensors"),
        (_write(SHARD, ""), "empty", SHARD),
        (_write(SHARD, "\0" * 4096), "empty", SHARD),
        (_write(SHARD, "\x05\0\0\0\0\0\0\0{{{{{"), "bad-header", SHARD),
        (lambda folder: (folder / SHARD).unlink(), "missing-shards", SHARD),
        (_no_weights, "no-weights", None),
        (_write("config.json", '{"model_type": "llama",}'), "bad-json", "config.json"),
        (_write("config.json", POINTER), "bad-json", "config.json"),
        (lambda folder: (folder / "config.json").unlink(), "no-config", None),
        (_write("config.json", '{"hidden_size": 8}'), "no-type", None),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no-tokenizer", None),
    ],
)
def test_each_fault_of_the_files_has_its_kind(
    tmp_path: Path, break_it: Callable[[Path], Any], fault: str, file: str | None
) -> None:
    folder = whole(tmp_path / "m")
    break_it(folder)
    facts = looked(folder)
    assert facts["model.faults"] == (fault,)
    named = facts.get("model.bad_file") or facts.get("model.file")
    assert named == (str(folder / file) if file else None)


@pytest.mark.parametrize("words", [("--load-format", "dummy"), ("--load-format", "tensorizer")])
def test_other_formats_need_none_of_these_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = whole(tmp_path / "m")
    _no_weights(folder)
    assert looked(folder, *words)["model.faults"] == ()


def test_files_of_another_kind_are_left_alone(tmp_path: Path) -> None:
    folder = whole(tmp_path / "bin")
    _no_weights(folder)
    (folder / "pytorch_model.bin").write_bytes(b"PK")
    assert looked(folder)["model.faults"] == ()
    mistral = whole(tmp_path / "mistral")
    (mistral / "config.json").rename(mistral / "params.json")
    assert "model.faults" not in looked(mistral)


def test_a_configuration_that_cannot_be_counted_is_no_fault(tmp_path: Path) -> None:
    folder = whole(tmp_path / "m")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "whisper", "architectures": ["Whisper"], "d_model": []})
    )
    facts = looked(folder)
    assert facts["model.faults"] == ()
    assert facts["model.type"] == "whisper"


@pytest.mark.parametrize(
    ("changes", "words", "told"),
    [
        ({}, (), set()),
        ({"architectures": ["Hyper9ForCausalLM"]}, (), {"model.architecture_unknown"}),
        ({"architectures": ["Hyper9ForCausalLM"]}, ("--model-impl", "transformers"), set()),
        ({"architectures": ["Hyper9ForCausalLM"]}, ("--hf-overrides", "{}"), set()),
        ({"architectures": ["DogeForCausalLM"], "model_type": "doge"}, (), set()),
        ({"architectures": ["LlamaForSequenceClassification"]}, (), set()),
        ({"architectures": ["Hyper9ForCausalLM"], "model_type": "hyper9"}, (), {"model.type_unknown"}),
        ({"architectures": ["LlamaForCausalLM"], "model_type": "own_llama"}, (), set()),
        ({"architectures": ["H9"], "model_type": "h9", "auto_map": {"AutoConfig": "c.C"}}, (), {"model.needs_code"}),
        (
            {"architectures": ["H9"], "model_type": "h9", "auto_map": {"AutoConfig": "c.C"}},
            ("--trust-remote-code",),
            set(),
        ),
    ],
)
def test_what_this_vllm_knows(tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...], told: set[str]) -> None:
    facts = looked(whole(tmp_path / "m", **changes), *words)
    assert {name for name in facts if name.startswith("model.") and facts[name] is True} == told


def test_plugins_may_bring_any_class_or_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWER, "plugins", ["ours"])
    facts = looked(whole(tmp_path / "m", architectures=["Hyper9ForCausalLM"]), "--tool-call-parser", "ours")
    assert not {"model.architecture_unknown", "api.tool_parser_unknown"} & facts.keys()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--tool-call-parser", "hermes", "--enable-auto-tool-choice"), set()),
        (("--enable-auto-tool-choice",), {"api.tool_parser_missing"}),
        (("--tool-call-parser", "hermess"), {"api.tool_parser_unknown"}),
        (("--tool-call-parser", "ours", "--tool-parser-plugin", "ours.py"), set()),
        (("--reasoning-parser", "qwen4"), {"api.reasoning_parser_unknown"}),
    ],
)
def test_parsers(tmp_path: Path, words: tuple[str, ...], told: set[str]) -> None:
    facts = looked(whole(tmp_path / "m"), *words)
    assert {name for name in facts if name.startswith("api.") and facts[name] is True} == told


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize(
    ("section", "words", "told"),
    [
        (None, (), set()),
        (None, ("--quantization", "fp8"), set()),
        (None, ("--quantization", "awq"), {"quant.not_in_checkpoint"}),
        (AWQ, ("--quantization", "awq_marlin"), set()),
        (AWQ, ("--quantization", "gptq"), {"quant.conflict"}),
        (AWQ, ("--quantization", "moe_wna16"), set()),
        (AWQ, (), set()),
    ],
)
def test_quantisation_of_command_and_checkpoint(
    tmp_path: Path, section: dict[str, Any] | None, words: tuple[str, ...], told: set[str]
) -> None:
    facts = looked(whole(tmp_path / "m", **({"quantization_config": section} if section else {})), *words)
    assert {name for name in facts if name.startswith("quant.") and facts[name] is True} == told
    assert facts.get("model.quantization") == ("awq" if section and not words else None)


@pytest.mark.parametrize(
    ("changes", "tp", "told"),
    [
        ({}, 2, {}),
        ({"num_attention_heads": 12, "num_key_value_heads": 4}, 3, {"tp.dividend": 4, "tp.divisor": 3}),
        ({"num_key_value_heads": 8, "intermediate_size": 516}, 8, {"tp.dividend": 516, "tp.divisor": 8}),
        # Two KV heads on eight GPUs are copied, whole.
        ({}, 8, {}),
        ({"quantization_config": AWQ, "intermediate_size": 1280}, 2, {}),
        (
            {"quantization_config": AWQ, "intermediate_size": 1280},
            4,
            {"quant.partition": 320, "quant.tile": 128},
        ),
    ],
)
def test_what_tensor_parallelism_cuts(tmp_path: Path, changes: dict[str, Any], tp: int, told: dict[str, int]) -> None:
    folder = whole(tmp_path / "m", **changes)
    facts = looked(folder, "--tensor-parallel-size", str(tp), **{"vllm.version": "0.20.0"})
    names = ("tp.dividend", "tp.divisor", "quant.partition", "quant.tile")
    assert {name: facts[name] for name in names if name in facts} == told


@pytest.mark.parametrize(
    ("rope", "longest"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 16384),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "longrope", "original_max_position_embeddings": 512, "short_factor": [1.0]}, 4096),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16384),
    ],
)
def test_the_longest_length_that_any_release_allows(tmp_path: Path, rope: dict[str, Any], longest: int) -> None:
    assert looked(whole(tmp_path / "m", rope_scaling=rope))["model.derived_max_len"] == longest


def test_a_model_that_is_elsewhere(tmp_path: Path) -> None:
    env = {"HF_HOME": str(tmp_path)}
    facts = looked("org/name", env=env)
    assert facts["missed"] == {"model": "org/name is not on this disk"}
    assert "hub.offline" not in facts
    assert looked("org/name", env=env | {"HF_HUB_OFFLINE": "1"})["hub.offline"] is True
    assert looked("meta/tiny", env=env)["model.heads"] == 8


def test_the_cache_that_the_command_sets_is_counted_exactly(tmp_path: Path) -> None:
    folder = whole(tmp_path / "m", max_position_embeddings=8_000_000)
    known = {"vllm.version": "0.32.0+cpu", "launch.device": "cpu"}
    facts = looked(folder, env={"VLLM_CPU_KVCACHE_SPACE": "1"}, **known)
    # 4 layers, keys and values, 2 heads of 32 in 2 bytes: 1 KiB a token.
    assert (facts["mem.shortage"], facts["mem.shortage_exact"]) == ("short-cache", True)
    assert facts["kv.estimated_len"] == pytest.approx(1 << 20, abs=256)
    assert facts["mem.kv_needed_gib"] > facts["mem.kv_available_gib"] == 1.0
    assert looked(folder, env={"VLLM_CPU_KVCACHE_SPACE": "8"}, **known)["mem.shortage"] == "none"
    assert looked(folder, env={}, **known).get("mem.shortage", "none") == "none"


def test_seen_keeps_what_looks_hand_on() -> None:
    one, other = Seen(), Seen()
    other.things["target"] = {}
    one.merge(other)
    assert one.things == {"target": {}}


@pytest.mark.parametrize(
    ("words", "changes", "version", "cut"),
    [
        (("-tp", "8"), {}, "0.20.0", 192),
        (("-tp", "4"), {}, "0.20.0", None),
        (("-tp", "8"), {}, "0.30.0", None),
        (("-tp", "8", "--enable-expert-parallel"), {}, "0.20.0", None),
        (("-tp", "8"), {"moe_intermediate_size": 2048}, "0.20.0", None),
        (("-tp", "8"), {"modules_to_not_convert": ["model.layers.0.mlp.gate"]}, "0.20.0", 192),
        (("-tp", "8"), {"modules_to_not_convert": ["model.layers.0.mlp.experts"]}, "0.20.0", None),
    ],
)
def test_blocks_of_fp8_weights(
    words: tuple[str, ...], changes: dict[str, Any], version: str, cut: int | None, tmp_path: Path
) -> None:
    kept = changes.pop("modules_to_not_convert", [])
    section = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": kept}
    moe = {"model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 1536, "quantization_config": section}
    found = looked(whole(tmp_path / "m", **moe | changes), *words, **{"vllm.version": version})
    assert found.get("quant.partition") == cut


@pytest.mark.parametrize(("version", "length"), [("0.29.0", 16384), ("0.30.0", 4096), ("0.32.0+cpu", 4096)])
def test_yarn_is_stretched_by_older_releases(version: str, length: int, tmp_path: Path) -> None:
    rope = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    found = looked(whole(tmp_path / "m", rope_scaling=rope), **{"vllm.version": version})
    assert found["model.derived_max_len"] == length
