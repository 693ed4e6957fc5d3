"""The budget of a launch: what the utilisation means, what fits, what would make it fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA
from vdoctor.budget.blueprint import blueprint
from vdoctor.budget.changes import CARDS, cards, remedies
from vdoctor.budget.config import ModelConfig, parse_config
from vdoctor.budget.estimate import Estimate, estimate
from vdoctor.budget.presets import PRESETS, plan
from vdoctor.budget.settings import GIB, Settings
from vdoctor.budget.weights import Part
from vdoctor.cli.estimate_options import PRESET_NAMES
from vdoctor.commands.subjects import known_models
from vdoctor.errors import UserError
from vdoctor.launch.options import load


def model(name: str) -> tuple[ModelConfig, tuple[Part, ...]]:
    config = parse_config(known_models()[name], name)
    parts = blueprint(config)
    assert parts is not None
    return config, parts


def of(name: str, gib: float | None, **settings: Any) -> Estimate:
    config, parts = model(name)
    return estimate(config, parts, Settings(gpu_bytes=None if gib is None else int(gib * GIB), **settings))


LLAMA_8B = "meta-llama/Llama-3.1-8B"


def test_ends_of_the_ranges_add_up_to_the_share() -> None:
    rank = of(LLAMA_8B, 79.1, version="0.23.0").ranks[0]
    for end in (0, 1):
        whole = (
            rank.weights + rank.activation[1 - end] + rank.other[1 - end] + rank.graphs[1 - end] + rank.kv_range[end]
        )
        assert whole == int(int(79.1 * GIB) * 0.92)


def test_graphs_come_off_the_cache_from_0_20_on() -> None:
    before, after = (of(LLAMA_8B, 79.1, version=version, utilization=0.9).ranks[0] for version in ("0.19.0", "0.20.0"))
    assert before.kv_range[0] - after.kv_range[0] == before.graphs[1] > 0
    eager = of(LLAMA_8B, 79.1, version="0.20.0", utilization=0.9, eager=True).ranks[0]
    assert eager.kv_range == before.kv_range
    switched_off = of(LLAMA_8B, 79.1, version="0.20.0", utilization=0.9, graph_estimate=False).ranks[0]
    assert switched_off.kv_range == before.kv_range


def test_a_high_share_leaves_no_room_for_graphs_that_are_not_counted() -> None:
    """0.98 of 23.5 GiB leaves 0.47 GiB: graphs took up to 1.5."""
    assert of(LLAMA_8B, 23.5, version="0.11.0", utilization=0.98, max_len=8192).fits is None
    assert of(LLAMA_8B, 23.5, version="0.11.0", utilization=0.9, max_len=8192).fits is True
    assert of(LLAMA_8B, 23.5, version="0.11.0", utilization=0.98, max_len=8192, eager=True).fits is True


def test_default_share_by_release() -> None:
    assert (Settings(version="0.19.1").release.utilization, Settings(version="0.20.0").release.utilization) == (
        0.9,
        0.92,
    )


@pytest.mark.parametrize(
    ("gib", "log"),
    [
        # (card, kv cache that vLLM printed) of runs in public tickets
        (79.25, 53.47),  # Llama 8B with LoRA slots, 0.11.1, 80 GB
    ],
)
def test_ranges_hold_what_a_server_printed(gib: float, log: float) -> None:
    rank = of(LLAMA_8B, gib, version="0.11.1").ranks[0]
    assert rank.kv_range[0] / GIB < log < rank.kv_range[1] / GIB


def test_activation_holds_what_profile_runs_printed() -> None:
    """Llama 8B, 256 requests and 8192 tokens at a time: 1.19, 1.26 and 1.40 GiB (vllm-project/vllm#10511 and others)."""
    low, high = of(LLAMA_8B, 79.2, batched=8192, seqs=256).ranks[0].activation
    assert low / GIB < 1.19 and high / GIB > 1.40


def test_bytes_given_for_the_cache_ignore_the_share() -> None:
    found = of(LLAMA_8B, 23.5, kv_bytes=2 * GIB, max_len=8192, version="0.20.0")
    assert (found.exact, found.ranks[0].kv_range, found.tokens) == (True, (2 * GIB, 2 * GIB), 16384)
    assert found.fits is True
    assert of(LLAMA_8B, 23.5, kv_bytes=12 * GIB, max_len=8192).fits is False


@pytest.mark.parametrize(
    ("version", "space", "gib"),
    [("0.11.0", None, 4), ("0.11.0", 7, 7), ("0.32.0", 7, 7)],
)
def test_cache_of_the_cpu_build(version: str, space: int | None, gib: int) -> None:
    config, parts = model(LLAMA_8B)
    found = estimate(config, parts, Settings(platform="cpu", version=version, cpu_space_gib=space))
    assert (found.exact, found.ranks[0].kv_cache) == (True, gib * GIB)


def test_a_share_of_the_node_is_no_exact_figure() -> None:
    config, parts = model(LLAMA_8B)
    found = estimate(config, parts, Settings(platform="cpu", version="0.32.0", gpu_bytes=64 * GIB))
    assert (found.exact, "cpu_share" in found.doubts) == (False, True)


def test_nothing_is_said_about_an_unknown_card() -> None:
    found = of(LLAMA_8B, None)
    assert (found.fits, found.needed_kv) == (None, 131072 * 131072 + 16 * 131072)


def test_unknown_architectures_are_counted_with_a_doubt() -> None:
    config = parse_config(LLAMA | {"model_type": "novel"}, "c")
    assert "architecture" in estimate(config, 1 << 30, Settings()).doubts


def test_a_size_alone_is_shared_out_evenly() -> None:
    config = parse_config(LLAMA, "c")
    found = estimate(config, 8 << 30, Settings(tp=2, pp=2))
    assert [rank.weights for rank in found.ranks] == [2 << 30] * 4


def test_single_changes_are_really_enough() -> None:
    config, parts = model("Qwen/Qwen3-8B")
    found = estimate(config, parts, Settings(gpu_bytes=int(23.5 * GIB)))
    assert found.fits is None
    helps = remedies(found, parts, load(), gpus=1)
    assert [remedy.key for remedy in helps] == ["fp8", "length", "quantization"]
    assert all(remedy.after.fits for remedy in helps)
    shorter = helps[1]
    assert shorter.after.length == int(str(shorter.flags["--max-model-len"])) <= found.longest_range[0]


def test_more_gpus_come_first_when_they_are_there() -> None:
    config, parts = model("Qwen/Qwen3-8B")
    found = estimate(config, parts, Settings(gpu_bytes=int(23.5 * GIB)))
    assert remedies(found, parts, load(), gpus=4)[0].flags == {"--tensor-parallel-size": "2"}


def test_together_only_what_is_needed() -> None:
    config, parts = model("Qwen/Qwen3-8B")
    found = estimate(config, parts, Settings(gpu_bytes=int(15.6 * GIB)))
    (helps,) = remedies(found, parts, load(), gpus=1)
    assert helps.key == "together" and helps.after.fits and "--quantization" in helps.flags
    assert len(helps.flags) == len(helps.kinds) == 3


def test_nothing_helps_a_card_that_is_far_too_small() -> None:
    config, parts = model("meta-llama/Llama-3.3-70B-Instruct")
    found = estimate(config, parts, Settings(gpu_bytes=int(15.6 * GIB)))
    assert remedies(found, parts, load(), gpus=1) == []
    assert [(card.gib, card.gpus) for card in cards(found, parts)][-1] == (180, 2)


def test_cards_that_are_enough_are_enough() -> None:
    config, parts = model("Qwen/Qwen3-32B")
    found = estimate(config, parts, Settings(gpu_bytes=int(23.5 * GIB)))
    real = dict(CARDS)
    for card in cards(found, parts):
        settings = Settings(gpu_bytes=int(real[card.gib] * GIB), tp=card.gpus)
        assert estimate(config, parts, settings).fits is True


@pytest.mark.parametrize("version", ["0.8.5", "0.11.0", "0.16.0", "0.23.0", "0.33.0"])
@pytest.mark.parametrize("preset", PRESET_NAMES)
@pytest.mark.parametrize("name", [LLAMA_8B, "Qwen/Qwen3-0.6B", "openai/gpt-oss-20b"])
def test_presets_give_flags_of_the_release_that_fit(preset: str, name: str, version: str) -> None:
    config, parts = model(name)
    options = load()
    made = plan(PRESETS[preset], config, parts, Settings(version=version), options)
    assert made.after.fits is True
    assert made.after.settings.tp * made.after.settings.dp <= PRESETS[preset].gpus
    assert all(options.exists(choice.name, version) for choice in made.choices)


def test_presets_that_cannot_hold_the_model() -> None:
    config, parts = model("deepseek-ai/DeepSeek-R1")
    assert plan(PRESETS["8x80gb"], config, parts, Settings(), load()).after.fits is False


def test_preset_names_of_the_options() -> None:
    assert tuple(PRESETS) == PRESET_NAMES


def test_heads_that_fit_no_size_of_the_preset() -> None:
    config = parse_config(LLAMA | {"num_attention_heads": 9, "num_key_value_heads": 9, "hidden_size": 288}, "c")
    with pytest.raises(UserError):
        estimate(config, 1, Settings(tp=2))
    assert plan(PRESETS["2x24gb"], config, 1, Settings(), load()).after.settings.tp == 1


MODELOPT = {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}
COMPRESSED = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}


@pytest.mark.parametrize(
    ("section", "version", "kv_dtype", "token", "told"),
    [
        (MODELOPT, "0.13.0", "auto", 1024, {"kv_ignored"}),
        (MODELOPT, "0.14.0", "auto", 512, {"kv_asked"}),
        ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}}, "0.32.0", "auto", 512, {"kv_asked"}),
        (COMPRESSED, "0.14.1", "auto", 1024, {"kv_ignored"}),
        (COMPRESSED, "0.15.0", "auto", 512, {"kv_asked"}),
        (COMPRESSED, "0.14.1", "fp8", 512, set()),
        (COMPRESSED, "0.32.0", "bfloat16", 1024, set()),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, "0.32.0", "auto", 1024, set()),
        ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "0.32.0", "auto", 1024, set()),
    ],
)  # fmt: skip
def test_a_checkpoint_asks_for_its_cache(
    section: dict[str, Any], version: str, kv_dtype: str, token: int, told: set[str]
) -> None:
    config = parse_config(LLAMA | {"quantization_config": section}, "c")
    found = estimate(config, 1 << 20, Settings(version=version, kv_dtype=kv_dtype, gpu_bytes=GIB))
    assert found.ranks[0].kv_per_token == token
    assert {"kv_asked", "kv_ignored"} & set(found.doubts) == told


def test_a_packed_cache_that_a_checkpoint_asks_for_is_refused() -> None:
    section = {"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}
    config = parse_config(LLAMA | {"quantization_config": section}, "c")
    with pytest.raises(UserError, match="nvfp4"):
        estimate(config, 1 << 20, Settings(gpu_bytes=GIB))
