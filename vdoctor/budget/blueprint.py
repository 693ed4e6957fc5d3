"""The tensors of a checkpoint that is not there, from its configuration alone.

Names and shapes as transformers saves them. Only families whose files were compared with it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from vdoctor.budget.config import ModelConfig
from vdoctor.budget.pages import up
from vdoctor.budget.tensors import Tensor
from vdoctor.budget.weights import Part

_DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "seed_oss", "granite")
_ROUTED = ("mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3", "kimi_k2", "gpt_oss")
_WIDTH = {"F32": 4.0, "BF16": 2.0, "F8_E4M3": 1.0, "U8": 1.0}
#: Weights of one scale in fp8 checkpoints with block scales.
_BLOCK = 128

Shape = tuple[int, ...]


def blueprint(config: ModelConfig) -> tuple[Part, ...] | None:
    """The parts of the checkpoint; None for a family or a quantisation that is not known."""
    if config.type not in _DENSE + _ROUTED or config.quantization not in (None, "fp8", "mxfp4"):
        return None
    parts = [*_ends(config), *_layers(config)]
    return tuple(parts)


def _part(name: str, shape: Shape, layers: Counter[int | None], dtype: str = "BF16", many: int = 1) -> Part:
    size = int(math.prod(shape) * _WIDTH[dtype])
    return Part(Tensor(name, dtype, shape, size), Counter({layer: number * many for layer, number in layers.items()}))


def _ends(config: ModelConfig) -> Iterator[Part]:
    once: Counter[int | None] = Counter({None: 1})
    yield _part("model.embed_tokens.weight", (config.vocab, config.hidden), once)
    yield _part("model.norm.weight", (config.hidden,), once)
    if not config.tied:
        yield _part("lm_head.weight", (config.vocab, config.hidden), once)


def _layers(config: ModelConfig) -> Iterator[Part]:
    every: Counter[int | None] = Counter(range(config.layers))
    norms = 4 if config.type in ("gemma2", "gemma3_text") else 2
    yield _part("model.layers.0.input_layernorm.weight", (config.hidden,), every, many=norms)
    for name, shape, quantized in _attention(config):
        yield from _linear(f"model.layers.0.self_attn.{name}", shape, every, config, quantized)
    dense, routed = _kinds(config)
    if dense:
        inner = config.number("intermediate_size")
        for name, shape in _mlp(config.hidden, inner):
            yield from _linear(f"model.layers.0.mlp.{name}", shape, dense, config)
    if routed:
        yield from _experts(config, routed)


def _attention(config: ModelConfig) -> Iterator[tuple[str, Shape, bool]]:
    """(name, shape, whether quantisation covers it)."""
    hidden, heads, wide = config.hidden, config.heads, config.head_dim
    if config.type in ("deepseek_v2", "deepseek_v3", "kimi_k2"):
        yield from _latent(config)
        return
    covered = config.type != "gpt_oss"
    for name, count in (("q_proj", heads), ("k_proj", config.kv_heads), ("v_proj", config.kv_heads)):
        yield f"{name}.weight", (count * wide, hidden), covered
        if config.type in ("qwen2", "gpt_oss") or config.text.get("attention_bias") is True:
            yield f"{name}.bias", (count * wide,), False
    yield "o_proj.weight", (hidden, heads * wide), covered
    if config.type == "gpt_oss":
        yield "o_proj.bias", (hidden,), False
        yield "sinks", (heads,), False
    if config.type in ("qwen3", "qwen3_moe", "gemma3_text"):
        yield "q_norm.weight", (wide,), False
        yield "k_norm.weight", (wide,), False


def _latent(config: ModelConfig) -> Iterator[tuple[str, Shape, bool]]:
    number, hidden, heads = config.number, config.hidden, config.heads
    rank, rope, nope, value = (
        number(name) for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    )
    query = number("q_lora_rank", default=0)
    if query:
        yield "q_a_proj.weight", (query, hidden), True
        yield "q_a_layernorm.weight", (query,), False
        yield "q_b_proj.weight", (heads * (nope + rope), query), True
    else:
        yield "q_proj.weight", (heads * (nope + rope), hidden), True
    yield "kv_a_proj_with_mqa.weight", (rank + rope, hidden), True
    yield "kv_a_layernorm.weight", (rank,), False
    yield "kv_b_proj.weight", (heads * (nope + value), rank), True
    yield "o_proj.weight", (hidden, heads * value), True


def _mlp(hidden: int, inner: int) -> Iterator[tuple[str, Shape]]:
    yield "gate_proj.weight", (inner, hidden)
    yield "up_proj.weight", (inner, hidden)
    yield "down_proj.weight", (hidden, inner)


def _kinds(config: ModelConfig) -> tuple[Counter[int | None], Counter[int | None]]:
    """Layers with one MLP, layers with experts."""
    layers = range(config.layers)
    if config.type in _DENSE:
        return Counter(layers), Counter()
    first = config.number("first_k_dense_replace", default=0)
    return Counter(at for at in layers if at < first), Counter(at for at in layers if at >= first)


def _experts(config: ModelConfig, routed: Counter[int | None]) -> Iterator[Part]:
    hidden, experts = config.hidden, config.experts
    inner = config.number("moe_intermediate_size", "intermediate_size")
    if config.type == "gpt_oss":
        yield from _fused_experts(config, routed, inner)
        return
    yield _part("model.layers.0.mlp.gate.weight", (experts, hidden), routed)
    if config.type in ("deepseek_v3", "kimi_k2"):
        yield _part("model.layers.0.mlp.gate.e_score_correction_bias", (experts,), routed, "F32")
    for name, shape in _mlp(hidden, inner):
        yield from _linear(f"model.layers.0.mlp.experts.0.{name}", shape, routed, config, many=experts)
    shared = config.number("n_shared_experts", default=0)
    if shared:
        for name, shape in _mlp(hidden, shared * inner):
            yield from _linear(f"model.layers.0.mlp.shared_experts.{name}", shape, routed, config)


def _fused_experts(config: ModelConfig, routed: Counter[int | None], inner: int) -> Iterator[Part]:
    """All experts in one tensor; mxfp4 keeps two numbers a byte and a scale for 32 of them."""
    hidden, experts = config.hidden, config.experts
    yield _part("model.layers.0.mlp.router.weight", (experts, hidden), routed)
    yield _part("model.layers.0.mlp.router.bias", (experts,), routed)
    for name, rows, columns in (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)):
        base = f"model.layers.0.mlp.experts.{name}"
        yield _part(f"{base}_bias", (experts, rows), routed)
        if config.quantization == "mxfp4":
            yield _part(f"{base}_blocks", (experts, rows, columns // 2), routed, "U8")
            yield _part(f"{base}_scales", (experts, rows, columns // 32), routed, "U8")
        else:
            yield _part(base, (experts, columns, rows), routed)


def _linear(
    name: str, shape: Shape, layers: Counter[int | None], config: ModelConfig, quantized: bool = True, many: int = 1
) -> Iterator[Part]:
    if config.quantization != "fp8" or not quantized or len(shape) < 2:
        yield _part(name, shape, layers, many=many)
        return
    yield _part(name, shape, layers, "F8_E4M3", many)
    yield _part(f"{name}_scale_inv", (up(shape[0], _BLOCK), up(shape[1], _BLOCK)), layers, "F32", many)
