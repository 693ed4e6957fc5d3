"""Bytes of a model's weights on each rank: what is cut over the tensor parallel ranks, what every rank holds.

The rules follow the layer classes in vllm/model_executor/layers (ColumnParallelLinear, RowParallelLinear,
QKVParallelLinear, VocabParallelEmbedding, FusedMoE) and the names that checkpoints use for their parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vdoctor.budget.config import ModelConfig, rope_of
from vdoctor.budget.groups import stages_of
from vdoctor.budget.layers import layer_kinds, model_bytes, uses_mla
from vdoctor.budget.pages import up
from vdoctor.budget.settings import Settings
from vdoctor.budget.tensors import Tensor

#: Rows of an embedding come in multiples of this (DEFAULT_VOCAB_PADDING_SIZE in vocab_parallel_embedding.py).
VOCAB_PADDING = 64
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|decoder_layers)\.(\d+)\.")
_TOWER = re.compile(r"(?:^|\.)(?:vision|visual|audio|image|speech|vit|encoder)[a-z_]*\.")
EMBEDDING = re.compile(r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|embeddings|tok_embeddings|embed_in)\.weight$")
HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output)\.weight$")
_KV = re.compile(r"\.(?:k_proj|v_proj|wk|wv|key|value|k_b_proj|v_b_proj)\.")
_FUSED_QKV = re.compile(r"\.(?:qkv_proj|query_key_value|Wqkv|W_pack|c_attn|qkv)\.")
_COLUMN = re.compile(
    r"\.(?:q_proj|wq|query|q_b_proj|kv_b_proj|gate_proj|up_proj|gate_up_proj|w1|w3|fc1|fc_in|c_fc|dense_h_to_4h"
    r"|in_proj|in_proj_[a-z]+|conv1d|linear_in|up_gate_proj|x_proj|dt_proj|g_proj)(?:\.|$|_)"
)
_ROW = re.compile(r"\.(?:o_proj|wo|down_proj|w2|fc2|fc_out|c_proj|dense|dense_4h_to_h|out_proj|linear_out)(?:\.|$|_)")
_PERHEAD = re.compile(r"\.(?:A_log|D|dt_bias|sinks)$")
_EXPERT = re.compile(r"\.experts?\.")
_SHARED = re.compile(r"\.shared_experts?\.")
_ROUTER = re.compile(r"\.(?:gate|router)\.weight$")
_SCALE = re.compile(r"scale|zero_point|qzeros|g_idx")
_WIDE = re.compile(r"\.(?:A_log|e_score_correction_bias)$")
_NUMBER = re.compile(r"\d+")
#: Masks that old checkpoints hold and nobody loads.
_CONSTANTS = (".attn.bias", ".masked_bias")
#: Ropes are stretched less than this.
_LARGEST_FACTOR = 10_000
_FLOATS = ("F16", "BF16", "F32", "F64")
#: Six scalars of float32 that each attention layer holds (k, v, q and probability scale, and two more).
_LAYER_SCALARS = 24
#: Bits of an element after --quantization quantised the layers of a plain checkpoint at start, with its scales.
_ONLINE_BITS = {
    "fp8": 8.0,
    "fp8_per_tensor": 8.0,
    "fp8_per_block": 8.01,
    "bitsandbytes": 4.5,
    "int8_per_channel_weight_only": 8.0,
}


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes on one rank of each stage of the pipeline, and names of large tensors whose place is a guess."""

    stages: tuple[int, ...]
    guessed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Tensors of a checkpoint that differ by their numbers alone: one of them, and how many each layer has.

    `layers` counts by layer; None stands for what belongs to no layer.
    """

    tensor: Tensor
    layers: Mapping[int | None, int]


def parts_of(tensors: Iterable[Tensor]) -> tuple[Part, ...]:
    """A checkpoint in short: a model of 90,000 tensors has some dozens of parts."""
    parts: dict[tuple[str, str, tuple[int, ...]], tuple[Tensor, Counter[int | None]]] = {}
    for tensor in tensors:
        key = (_NUMBER.sub("#", tensor.name), tensor.dtype, tensor.shape)
        known = parts.get(key)
        if known is None:
            known = parts[key] = (tensor, Counter())
        known[1][_layer_of(tensor.name)] += 1
    return tuple(Part(tensor, layers) for tensor, layers in parts.values())


def rank_weights(parts: Iterable[Part], config: ModelConfig, settings: Settings) -> Weights:
    """What one rank of each stage holds after loading."""
    guessed: list[str] = []
    sizes = spread(parts, config, settings, lambda tensor: _bytes(tensor, config, settings, guessed))
    ends = _stage_ends(config.layers, settings.pp)
    extras = [_made_at_start(config, settings, start, end) for start, end in zip([0, *ends], ends, strict=False)]
    scalars = [_LAYER_SCALARS * count for count in _layer_counts(ends)]
    return Weights(
        tuple(round(size) + extra + scalar for size, extra, scalar in zip(sizes, extras, scalars, strict=True)),
        tuple(guessed[:5]),
    )


def spread(
    parts: Iterable[Part], config: ModelConfig, settings: Settings, size: Callable[[Tensor], float]
) -> list[float]:
    """The sum of `size` over the tensors of each stage of the pipeline."""
    sizes = [0.0] * settings.pp
    ends = _stage_ends(config.layers, settings.pp)
    for part in parts:
        if _is_left_out(part.tensor, config):
            continue
        one = size(part.tensor)
        for layer, count in part.layers.items():
            if layer is None or layer < config.layers:
                for stage in _stages(part.tensor, layer, config, ends):
                    sizes[stage] += one * count
    return sizes


def linear_on_rank(tensor: Tensor, config: ModelConfig, settings: Settings) -> tuple[float, float, bool] | None:
    """(outputs, inputs, whether the outputs are cut) of a linear layer on one rank; None for what is none."""
    name = tensor.name
    if len(tensor.shape) != 2 or not name.endswith(".weight") or _TOWER.search(name):
        return None
    rows, columns = tensor.shape
    if _ROUTER.search(name):
        return rows, columns, True
    if not (_COLUMN.search(name) or _is_other_linear(name)) or _is_vocabulary(tensor, config):
        return None
    cut = _parts(tensor, config, settings, [])
    return (rows, columns / cut, False) if _ROW.search(name) else (rows / cut, columns, True)


def _stage_ends(layers: int, pp: int) -> list[int]:
    ends, at = [], 0
    for stage in stages_of(layers, pp):
        at += len(stage)
        ends.append(at)
    return ends


def _layer_counts(ends: Sequence[int]) -> list[int]:
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def _is_left_out(tensor: Tensor, config: ModelConfig) -> bool:
    """Tied heads are stored once; what predicts further tokens loads as a draft only."""
    if config.tied and HEAD.search(tensor.name):
        return True
    return tensor.name.startswith("mtp.") or ".rotary_emb." in tensor.name or tensor.name.endswith(_CONSTANTS)


def _layer_of(name: str) -> int | None:
    if _TOWER.search(name):
        return None
    found = _LAYER.search(name)
    return int(found[1]) if found and len(found[1]) < 6 else None


def _stages(tensor: Tensor, layer: int | None, config: ModelConfig, ends: Sequence[int]) -> tuple[int, ...]:
    last = len(ends) - 1
    if layer is not None:
        return (next(stage for stage, end in enumerate(ends) if layer < end),)
    if EMBEDDING.search(tensor.name):
        return (0, last) if config.tied and last else (0,)
    if _TOWER.search(tensor.name) or "embed" in tensor.name:
        return (0,)
    return (last,)


def _bytes(tensor: Tensor, config: ModelConfig, settings: Settings, guessed: list[str]) -> float:
    size = _element_bytes(tensor, config, settings) * tensor.elements
    if _is_vocabulary(tensor, config):
        rows = tensor.shape[0]
        size = size / rows * up(rows, VOCAB_PADDING) * VOCAB_PADDING
    if settings.tp * settings.dp == 1:
        return size
    return size / _parts(tensor, config, settings, guessed)


def _is_vocabulary(tensor: Tensor, config: ModelConfig) -> bool:
    wide = len(tensor.shape) == 2 and tensor.shape[0] >= config.vocab > 0
    return wide and bool(EMBEDDING.search(tensor.name) or HEAD.search(tensor.name))


def _element_bytes(tensor: Tensor, config: ModelConfig, settings: Settings) -> float:
    """Floats are converted to the model's type when they are loaded; scales and packed numbers stay."""
    own = tensor.bytes / max(tensor.elements, 1)
    if _WIDE.search(tensor.name):
        return 4
    if tensor.dtype not in _FLOATS or (_SCALE.search(tensor.name) and config.quantization):
        return own
    online = _ONLINE_BITS.get(settings.quantization or "") if config.quantization is None else None
    if online is not None and len(tensor.shape) >= 2 and (_COLUMN.search(tensor.name) or _is_other_linear(tensor.name)):
        return online / 8
    return model_bytes(config, settings)


def _is_other_linear(name: str) -> bool:
    return any(pattern.search(name) for pattern in (_KV, _ROW, _FUSED_QKV)) or bool(_EXPERT.search(name))


def _parts(tensor: Tensor, config: ModelConfig, settings: Settings, guessed: list[str]) -> float:
    """Into how many parts a tensor is cut."""
    name, tp = tensor.name, settings.tp
    if _is_vocabulary(tensor, config):
        return tp
    if _EXPERT.search(name) and not _SHARED.search(name):
        # Experts are cut, or dealt out whole with expert parallelism: as many bytes, over all replicas.
        return tp * settings.dp
    flat = len(tensor.shape) < 2 or tensor.elements == 1
    if (
        name.endswith(("kv_a_proj_with_mqa.weight", "q_a_proj.weight"))
        or "norm" in name.rpartition(".")[0].rpartition(".")[2]
    ):
        return 1
    if _KV.search(name):
        return min(tp, config.kv_heads or tp)
    if _FUSED_QKV.search(name):
        return _fused_parts(config, tp)
    if _COLUMN.search(name) or _PERHEAD.search(name):
        return tp
    if _ROW.search(name):
        whole = flat or (tensor.shape[-1] == 1 and bool(_SCALE.search(name)))
        return 1 if whole and not name.endswith("g_idx") else tp
    if tensor.bytes > 1 << 24 and not flat and not _is_router(name):
        guessed.append(name)
    return 1


def _is_router(name: str) -> bool:
    return bool(re.search(r"\.(?:gate|router)\.|embed_positions|wpe\.|pos_embed", name))


def _fused_parts(config: ModelConfig, tp: int) -> float:
    """Query heads are cut, KV heads only as far as there are any."""
    heads, kv_heads = max(config.heads, 1), max(config.kv_heads, 1)
    mine = heads / tp + 2 * max(1, kv_heads / tp)
    return (heads + 2 * kv_heads) / mine


def _made_at_start(config: ModelConfig, settings: Settings, start: int, end: int) -> int:
    """Tables of the rotary embedding: one row of cosines and sines a position; one table a stage, in Gemma 3 one for
    each kind of layer that the stage has."""
    text = config.text
    if not (text.get("rope_theta") or rope_of(text)):
        return 0
    rope = rope_of(text)
    share = share_of(text.get("partial_rotary_factor"), share_of(rope.get("partial_rotary_factor"), 1.0))
    width = config.number("qk_rope_head_dim") if uses_mla(config) else int(config.head_dim * share)
    rows = config.number("max_position_embeddings", default=config.max_len)
    kind, factor = rope.get("rope_type") or rope.get("type"), rope.get("factor")
    element = model_bytes(config, settings)
    if kind in ("yarn", "deepseek_yarn") and isinstance(factor, int | float) and 1 <= factor <= _LARGEST_FACTOR:
        rows = int(_trained_positions(rope, rows) * factor)
    if kind == "deepseek_yarn" or (kind == "yarn" and uses_mla(config)) or config.type == "gpt_oss":
        element = 4
    tables = len(set(layer_kinds(config)[start:end])) if config.type.startswith("gemma3") else 1
    return rows * width * element * tables


def share_of(value: object, default: float) -> float:
    """A share above 0, at most 1; the default for anything else."""
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1 else default
    )


def _trained_positions(rope: Mapping[str, object], rows: int) -> int:
    """Positions that the model was trained on before its rope was stretched."""
    value = rope.get("original_max_position_embeddings")
    return value if isinstance(value, int) and 0 < value < 1 << 30 else rows
