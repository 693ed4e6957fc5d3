"""The cache of every layer of a model on one rank: which kind of attention, how many heads, how wide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vdoctor.budget.cache_type import cache_type
from vdoctor.budget.config import DTYPE_BYTES, ModelConfig
from vdoctor.budget.pages import Kind, Page
from vdoctor.budget.refusals import MLA, refuse
from vdoctor.budget.settings import Settings
from vdoctor.budget.states import State, aligned_block, state_bytes, state_of
from vdoctor.errors import UserError

_FULL = ("full_attention", "attention", "hybrid", "full", "global_attention")
_STATE = ("linear_attention", "mamba", "mamba2", "conv", "short_conv", "recurrent", "gated_deltanet")
_WINDOW = ("sliding_attention", "sliding", "local_attention", "sliding_window")
_NOTHING = ("mlp", "moe", "dense", "-", "none")
#: Bytes of an element of the cache for each --kv-cache-dtype whose page is elements alone.
_KV_BYTES = {
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "int8": 1, "bfloat16": 2, "float16": 2, "half": 2, "float32": 4,
}  # fmt: skip
#: Packed latent of sparse MLA: 512 fp8 values, 4 scales, 64 bfloat16 (flashmla_sparse.py).
_DS_MLA_BYTES = 656
#: Layers of the family that keep everything; the others have a window. Configurations written before
#: transformers listed layer_types leave it to the code of the model.
_PERIODS = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2, "gemma3n_text": 5, "exaone4": 4}


def check_heads(config: ModelConfig, settings: Settings) -> None:
    """UserError when the heads cannot be shared: query heads divide, KV heads divide or are replicated whole."""
    tp, heads, kv_heads = settings.tp, config.heads, config.kv_heads
    if not heads or (heads % tp == 0 and (kv_heads % tp == 0 or tp % kv_heads == 0)):
        return
    fits = [
        size for size in range(1, heads + 1) if heads % size == 0 and (kv_heads % size == 0 or size % kv_heads == 0)
    ]
    raise UserError(
        f"{config.name}: {heads} heads ({kv_heads} KV heads) cannot be shared by {tp} GPUs",
        f"take --tensor-parallel-size {', '.join(map(str, fits[:10]))}",
    )


def model_bytes(config: ModelConfig, settings: Settings) -> int:
    """Bytes of an element of the running model: "auto" takes float32 checkpoints as bfloat16 or float16."""
    name = settings.dtype if settings.dtype not in (None, "auto") else config.dtype
    width = DTYPE_BYTES.get(str(name), 2)
    return 2 if width == 4 and settings.dtype in (None, "auto") else width


def kv_element_bytes(config: ModelConfig, settings: Settings) -> int:
    """Bytes of an element of the cache; UserError for a packed format."""
    kind = cache_type(config, settings)
    if kind == "auto":
        return model_bytes(config, settings)
    width = _KV_BYTES.get(kind)
    if width is None:
        raise UserError(
            f"--kv-cache-dtype {kind}: vdoctor does not know its layout",
            f"it counts {', '.join(sorted(_KV_BYTES))}",
        )
    return width


def uses_mla(config: ModelConfig) -> bool:
    """Whether the layers cache one latent vector instead of keys and values."""
    return config.type in MLA and config.text.get("kv_lora_rank") is not None


def pages_of(config: ModelConfig, settings: Settings) -> list[Page | None]:
    """The cache of each layer, None for one that has none. UserError for a model that cannot be counted."""
    refuse(config)
    check_heads(config, settings)
    kinds = layer_kinds(config)
    attention = _attention(config, settings)
    state = state_of(config, settings) if "state" in kinds or "both" in kinds else None
    if state is None and ("state" in kinds or "both" in kinds):
        raise UserError(
            f"{config.name}: the state of model type {config.type or '?'} is not known to vdoctor",
            "only vLLM itself can count this model",
        )
    if state is not None:
        attention, recurrent = _beside_states(config, settings, attention, state)
    pages: list[Page | None] = []
    second: list[Page | None] = []
    for kind in kinds:
        if kind == "state":
            pages.append(recurrent)
        elif kind == "both":
            pages.append(attention)
            second.append(recurrent)
        elif kind is None:
            pages.append(None)
        else:
            pages.append(_of_kind(kind, attention, config))
    return pages + second


def layer_kinds(config: ModelConfig) -> list[Any]:
    """full, window, chunk, state, both (attention and a state in one layer) or None, for each layer."""
    text, count = config.text, config.layers
    if config.type == "falcon_h1":
        return ["both"] * count
    if config.type in ("mamba", "mamba2", "falcon_mamba"):
        return ["state"] * count
    types = text.get("layer_types") or text.get("layers_block_type")
    if isinstance(types, list) and types:
        kinds = [_named(str(one), config) for one in types[:count]]
        return kinds + [kinds[-1]] * (count - len(kinds))
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return [{"M": "state", "*": "full"}.get(one) for one in pattern[:count]]
    return _unlisted(config)


def _named(name: str, config: ModelConfig) -> str | None:
    for names, kind in ((_FULL, "full"), (_STATE, "state"), (_WINDOW, "window"), (("chunked_attention",), "chunk")):
        if name in names:
            if kind == "window" and not _window(config):
                return "full"
            return kind
    if name in _NOTHING:
        return None
    raise UserError(
        f"{config.name}: layers of type {name[:40]!r} are not known to vdoctor", "only vLLM itself can count this model"
    )


def _unlisted(config: ModelConfig) -> list[Any]:
    """Layers by the rules that stand in the code of the model."""
    text, count = config.text, config.layers
    number = config.number
    if config.type == "jamba":
        period, offset = number("attn_layer_period"), number("attn_layer_offset")
        return ["full" if at % max(period, 1) == offset else "state" for at in range(count)]
    if config.type in ("bamba", "granitemoehybrid") and isinstance(text.get("attn_layer_indices"), list):
        return ["full" if at in text["attn_layer_indices"] else "state" for at in range(count)]
    if config.type in ("lfm2", "lfm2_moe") and isinstance(text.get("full_attn_idxs"), list):
        return ["full" if at in text["full_attn_idxs"] else "state" for at in range(count)]
    if config.type in ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"):
        every = number("full_attention_interval", default=4)
        return ["full" if (at + 1) % max(every, 1) == 0 else "state" for at in range(count)]
    if config.type in ("llama4", "llama4_text"):
        every = number("no_rope_layer_interval", default=4)
        return ["full" if (at + 1) % max(every, 1) == 0 else "chunk" for at in range(count)]
    if not _window(config):
        return ["full"] * count
    if config.type not in _PERIODS:
        return ["window"] * count
    period = _PERIODS[config.type]
    period = (
        number("sliding_window_pattern", "_sliding_window_pattern", default=period) if config.type != "gemma2" else 2
    )
    return ["full" if (at + 1) % max(period, 1) == 0 else "window" for at in range(count)]


def _window(config: ModelConfig) -> int:
    """Tokens of the window, 0 for none. Qwen configurations name one and switch it off."""
    if config.text.get("use_sliding_window") is False:
        return 0
    return config.number("sliding_window", default=0)


def _of_kind(kind: Kind, attention: Page, config: ModelConfig) -> Page:
    if kind == "window":
        return replace(attention, kind=kind, span=_window(config))
    if kind == "chunk":
        return replace(attention, kind=kind, span=config.number("attention_chunk_size", default=8192))
    return attention


def _attention(config: ModelConfig, settings: Settings) -> Page:
    """A layer that keeps every token. KV heads fewer than ranks are replicated; a latent vector always is."""
    width = kv_element_bytes(config, settings) if settings.kv_dtype != "fp8_ds_mla" else 1
    if uses_mla(config):
        latent = config.number("kv_lora_rank") + config.number("qk_rope_head_dim")
        bytes_ = _DS_MLA_BYTES if settings.kv_dtype == "fp8_ds_mla" else latent * width
        return Page("mla", bytes_, _block_size(config, settings, mla=True), geometry=(1, latent))
    kv_heads = max(1, config.kv_heads // settings.tp)
    wide = (
        config.number("v_head_dim", default=config.head_dim) if config.type in ("mimo_v2_flash",) else config.head_dim
    )
    bytes_ = kv_heads * (config.head_dim + wide) * width
    return Page("full", bytes_, _block_size(config, settings, mla=False), geometry=(kv_heads, config.head_dim))


def _block_size(config: ModelConfig, settings: Settings, mla: bool) -> int:
    """Tokens in a block. The default of CUDA backends is 16; of the CPU build 128, before 0.12 16.

    The CPU build takes 16 for MLA, whatever the command says, unless it has AMX.
    For MLA on CUDA the backend decides, by the GPU: 64 (FlashMLA, Hopper) is what is counted here.
    """
    release = settings.release
    amx = release.cpu_mla == "amx" and "amx_tile" in settings.cpu_flags
    if settings.platform == "cpu" and mla and release.cpu_mla != "none" and not amx:
        return 16
    if settings.block_size:
        return settings.block_size
    if settings.platform == "cpu":
        return 128 if release.scales_blocks else 16
    return 64 if mla else 16


def _beside_states(config: ModelConfig, settings: Settings, attention: Page, state: State) -> tuple[Page, Page]:
    """Attention whose page is as large as a state, and the state padded to it."""
    size = state_bytes(state, config, settings, model_bytes(config, settings))
    block, padded = attention.block_size, 0
    if attention.token_bytes:
        block, padded = aligned_block(
            attention.block_size, attention.token_bytes, size, settings, mla=attention.kind == "mla"
        )
    recurrent = Page("state", size, block, geometry=("state", size), padded=padded, checkpoints=state.checkpoints)
    return attention.with_block(block), recurrent
