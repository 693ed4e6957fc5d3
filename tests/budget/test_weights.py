"""Weights by rank: what is cut, what is replicated, what is left out; sizes that vLLM printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA, header, llama_tensors
from vdoctor.budget.blueprint import blueprint
from vdoctor.budget.config import parse_config
from vdoctor.budget.settings import Settings
from vdoctor.budget.tensors import parse_header
from vdoctor.budget.weights import Weights, parts_of, rank_weights
from vdoctor.commands.subjects import known_models

#: Tables of cosines and sines: 4096 positions of 32, two bytes each; six scalars in each layer.
EXTRA = 4096 * 32 * 2 + 4 * 24
PADDED_VOCAB = 1024


def weigh(
    tensors: Mapping[str, tuple[str, Sequence[int]]], config: Mapping[str, Any] = LLAMA, **settings: Any
) -> Weights:
    head = header(tensors)
    parts = parts_of(parse_header(head, 1 << 60, "x"))
    return rank_weights(parts, parse_config(dict(config), "c"), Settings(**settings))


def plain(embedding: int, layer: int, layers: int, norm: int = 512) -> int:
    return embedding + layers * layer + norm


def test_a_llama_on_one_gpu() -> None:
    layer = 2 * (2 * 256 * 256 + 2 * 64 * 256 + 3 * 256 * 512 + 2 * 256)
    assert weigh(llama_tensors(LLAMA)).stages == (plain(2 * 2 * PADDED_VOCAB * 256, layer, 4) + EXTRA,)


@pytest.mark.parametrize(("tp", "kv_parts"), [(2, 2), (4, 2), (8, 2)])
def test_tensor_parallel(tp: int, kv_parts: int) -> None:
    """Two KV heads are cut in two at most; norms are everywhere."""
    layer = 2 * (2 * 256 * 256 // tp + 2 * 64 * 256 // kv_parts + 3 * 256 * 512 // tp + 2 * 256)
    assert weigh(llama_tensors(LLAMA), tp=tp).stages == (plain(2 * 2 * PADDED_VOCAB * 256 // tp, layer, 4) + EXTRA,)


def test_pipeline_parallel() -> None:
    """The embedding is on the first stage, head and last norm on the last; tied weights are on both."""
    layer = 2 * (2 * 256 * 256 + 2 * 64 * 256 + 3 * 256 * 512 + 2 * 256)
    ends = 2 * PADDED_VOCAB * 256
    extra = 4096 * 32 * 2 + 2 * 24
    assert weigh(llama_tensors(LLAMA), pp=2).stages == (ends + 2 * layer + extra, ends + 2 * layer + 512 + extra)
    tied = LLAMA | {"tie_word_embeddings": True}
    assert weigh(llama_tensors(LLAMA), tied, pp=2).stages == (ends + 2 * layer + extra, ends + 2 * layer + 512 + extra)
    assert weigh(llama_tensors(LLAMA), tied).stages == (ends + 4 * layer + 512 + EXTRA,)


def only(
    name: str, shape: Sequence[int], dtype: str = "BF16", config: Mapping[str, Any] = LLAMA, **settings: Any
) -> int:
    """Bytes of one tensor alone."""
    nothing = weigh({}, config, **settings).stages[0]
    return weigh({name: (dtype, shape)}, config, **settings).stages[0] - nothing


@pytest.mark.parametrize(
    ("name", "shape", "parts"),
    [
        ("model.layers.0.self_attn.q_proj.bias", (256,), 4),
        ("model.layers.0.self_attn.o_proj.bias", (256,), 1),
        ("model.layers.0.self_attn.qkv_proj.weight", (384, 256), 3),  # 8 + 2 + 2 heads become 2 + 1 + 1
        ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", (96, 256), 1),
        ("model.layers.0.self_attn.kv_b_proj.weight", (512, 64), 4),
        ("model.layers.0.self_attn.q_norm.weight", (32,), 1),
        ("model.layers.0.mlp.gate.weight", (8, 256), 1),
        ("model.layers.0.mlp.experts.3.down_proj.weight", (256, 512), 4),
        ("model.layers.0.mlp.shared_experts.gate_proj.weight", (512, 256), 4),
        ("model.layers.0.mlp.down_proj.qweight", (64, 256), 4),
        ("model.layers.0.mlp.down_proj.weight_scale", (256, 1), 1),
        ("model.layers.0.mlp.up_proj.weight_scale_inv", (4, 2), 4),
        ("transformer.h.0.attn.c_attn.weight", (256, 768), 3),
        ("transformer.h.0.mlp.c_proj.weight", (512, 256), 4),
        ("transformer.wpe.weight", (1024, 256), 1),
        ("model.layers.0.mamba.in_proj.weight", (1000, 256), 4),
        ("model.layers.0.mamba.out_proj.weight", (256, 512), 4),
    ],
)
def test_parts_on_four_ranks(name: str, shape: Sequence[int], parts: int) -> None:
    assert only(name, shape) == parts * only(name, shape, tp=4)


@pytest.mark.parametrize(
    "name",
    ["model.layers.4.self_attn.q_proj.weight", "mtp.layers.0.mlp.up_proj.weight", "transformer.h.0.attn.bias"],
)
def test_what_is_not_loaded(name: str) -> None:
    """A layer behind the last one predicts further tokens; masks of old checkpoints are made anew."""
    assert only(name, (256, 256)) == 0


def test_experts_are_dealt_out_over_all_replicas() -> None:
    name = "model.layers.0.mlp.experts.3.down_proj.weight"
    assert only(name, (256, 512), tp=2, dp=2, expert_parallel=True) == only(name, (256, 512)) // 4


def test_types() -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    assert only(name, (512, 256), "F32") == only(name, (512, 256), "F16") == 512 * 256 * 2
    assert only(name, (512, 256), dtype="F32", config=LLAMA | {"dtype": "float32"}) == 512 * 256 * 2
    assert weigh({name: ("F32", (512, 256))}, dtype="float32").stages[0] > 512 * 256 * 4
    assert only(name, (512, 256), "F8_E4M3") == 512 * 256
    quantized = LLAMA | {"quantization_config": {"quant_method": "fp8"}}
    assert only("model.layers.0.mlp.up_proj.weight_scale", (512, 1), "F32", quantized) == 512 * 4
    assert only(name, (512, 256), quantization="fp8") == 512 * 256


def test_a_large_tensor_without_a_place_is_told() -> None:
    found = weigh({"model.layers.0.swirl": ("BF16", (4096, 4096))}, tp=2)
    assert found.guessed == ("model.layers.0.swirl",)


def known(name: str, **settings: Any) -> float:
    """GiB of a model from the table."""
    config = parse_config(known_models()[name], name)
    parts = blueprint(config)
    assert parts is not None
    return rank_weights(parts, config, Settings(**settings)).stages[0] / (1 << 30)


def test_what_a_server_printed() -> None:
    """An L40S printed "Model loading took 14.9889 GiB" (vllm-project/vllm#17122); its allocator rounds each tensor up."""
    assert known("meta-llama/Llama-3.1-8B-Instruct") == pytest.approx(14.9889, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("meta-llama/Llama-3.3-70B-Instruct", 70_553_706_496),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
    ],
)
def test_parameters_of_known_models(name: str, parameters: int) -> None:
    """As their model cards count them."""
    parts = blueprint(parse_config(known_models()[name], name))
    assert parts is not None
    assert sum(part.tensor.elements * sum(part.layers.values()) for part in parts) == parameters


def test_every_model_of_the_table_is_counted() -> None:
    for name, data in known_models().items():
        config = parse_config(json.loads(json.dumps(data)), name)
        parts = blueprint(config)
        assert parts is not None, name
        assert rank_weights(parts, config, Settings(tp=2)).guessed == (), name
