"""A model's config.json as the numbers that memory depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vdoctor.budget.defaults import completed
from vdoctor.errors import UserError

#: Where multimodal models keep the configuration of their language model.
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "text_config_dict")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len", "n_ctx",
)  # fmt: skip
_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
#: vLLM takes this when config.json names no length (vllm/config/model.py).
_DEFAULT_LENGTH = 2048
#: Rope types that leave max_position_embeddings as it stands; "linear" and "dynamic" multiply it.
_UNSCALED_ROPE = ("default", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "mrope")
#: What to do about a model that is not counted.
ASK_VLLM = "start vLLM once and read its lines 'Available KV cache memory' and 'KV cache size'"
DTYPE_BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
#: No real model is beyond these; what is, was written by mistake or malice.
_LARGEST = 10**9
_MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The numbers of one model. `text` is the language model's part of `raw`; `name` is for messages.

    Sizes count elements; `max_len` is the longest sequence in tokens that the configuration allows, `yarn_len` the one
    by the rule of older releases, 0 where it is the same.
    """

    name: str
    raw: Mapping[str, Any]
    text: Mapping[str, Any]
    type: str
    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_len: int
    dtype: str
    tied: bool
    experts: int
    quantization: str | None
    yarn_len: int = 0

    def number(self, *names: str, default: int | None = None) -> int:
        """The first of these keys that the language model has; UserError when there is none and no default."""
        return _number(self.text, names, self.name, default)


def parse_config(data: object, name: str) -> ModelConfig:
    """The configuration in a decoded config.json; UserError names what is missing or no number."""
    if not isinstance(data, dict):
        raise UserError(f"{name}: not a JSON object", "config.json must be the file that came with the model")
    text = _text_part(data)
    if text is not data:
        text = completed(text)
    if is_encoder_decoder(data) and not any(key in text for key in _HEADS):
        raise no_cross(name)
    state_only = not any(key in text for key in _HEADS) and any(key in text for key in ("state_size", "ssm_state_size"))
    heads = 0 if state_only else _number(text, _HEADS, name)
    if not heads and not state_only:
        raise UserError(f"{name}: no attention heads", "take config.json from the model again")
    hidden = _number(text, _HIDDEN, name)
    kv_heads = _number(text, _KV_HEADS, name, default=heads)
    vocab = _number({**data, **text}, ("vocab_size",), name)
    if not vocab:
        raise UserError(f"{name}: vocab_size is 0", "take config.json from the model again")
    if isinstance(text.get("num_attention_heads"), list):
        raise UserError(f"{name}: layers of different head counts", "vdoctor cannot count this architecture yet")
    architectures = data.get("architectures") or text.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else ""
    kind = text.get("model_type") or data.get("model_type")
    return ModelConfig(
        name=name,
        raw=data,
        text=text,
        type=kind if isinstance(kind, str) else "",
        architecture=first if isinstance(first, str) else "",
        layers=_layer_count(text, name),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads or heads,
        head_dim=_head_dim(text, hidden, heads, name),
        vocab=vocab,
        max_len=_longest(text, name),
        dtype=_dtype(text) or _dtype(data) or "bfloat16",
        tied=_tied(data, text, kind),
        experts=_number(text, _EXPERTS, name, default=0),
        quantization=_quantization(data, text, name),
        yarn_len=_stretched(text, name),
    )


def has_towers(config: ModelConfig) -> bool:
    """Whether encoders of images or sound stand beside the language model."""
    return any(key in config.raw for key in ("vision_config", "audio_config", "thinker_config"))


def is_encoder_decoder(data: Mapping[str, Any]) -> bool:
    """Whether layers look at the output of an encoder and keep that, too (cross-attention)."""
    return data.get("is_encoder_decoder") is True or bool(data.get("cross_attention_layers"))


def no_cross(name: str) -> UserError:
    """The answer for an encoder-decoder model."""
    return UserError(
        f"{name}: an encoder-decoder model; the cache of its cross-attention is not counted by vdoctor", ASK_VLLM
    )


def _text_part(data: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in _NESTED:
        inner = data.get(key)
        if isinstance(inner, dict) and any(one in inner or one in ("text_config",) for one in _LAYERS):
            return inner
        if isinstance(inner, dict) and isinstance(inner.get("text_config"), dict):
            return _text_part(inner)
    return data


def _number(text: Mapping[str, Any], names: Sequence[str], where: str, default: int | None = None) -> int:
    for name in names:
        value = text.get(name)
        if value is None:
            continue
        if isinstance(value, list) and value and all(isinstance(one, int) for one in value):
            value = max(value)
        whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not whole or value != int(value) or not 0 <= value <= _LARGEST:
            raise UserError(
                f"{where}: {name} is {str(value)[:60]}, not a count", "take config.json from the model again"
            )
        return int(value)
    if default is not None:
        return default
    raise UserError(
        f"{where}: {names[0]} is missing",
        "without it the model cannot be counted; is this the config.json of a language model?",
    )


def _layer_count(text: Mapping[str, Any], name: str) -> int:
    layers = text.get("layers_block_type")
    count = _number(text, _LAYERS, name, default=len(layers) if isinstance(layers, list) else None)
    if not 1 <= count <= _MOST_LAYERS:
        raise UserError(f"{name}: {count} layers", "take config.json from the model again")
    return count


def _head_dim(text: Mapping[str, Any], hidden: int, heads: int, name: str) -> int:
    given = _number(text, ("head_dim", "hidden_size_per_head", "attention_head_dim"), name, default=0)
    if given:
        return given
    if heads and hidden < heads:
        raise UserError(
            f"{name}: hidden_size {hidden} is smaller than {heads} heads", "take config.json from the model again"
        )
    return hidden // heads if heads else 0


def _longest(text: Mapping[str, Any], name: str) -> int:
    """What vLLM derives from config.json, in tokens (vllm/config/model.py, _get_and_verify_max_len)."""
    known = [_number(text, (key,), name) for key in _LENGTHS if isinstance(text.get(key), int)]
    length = min((one for one in known if one), default=_DEFAULT_LENGTH)
    rope = rope_of(text)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if "gemma3" in str(text.get("model_type")):
        return length
    if kind == "longrope":
        return _number(text, ("original_max_position_embeddings",), name, default=length)
    factor = rope.get("factor")
    if kind not in _UNSCALED_ROPE and isinstance(factor, int | float) and 1 <= factor <= 10_000:
        return int(length * factor)
    return length


def _stretched(text: Mapping[str, Any], name: str) -> int:
    """Older releases take YaRN's original length times its factor, whatever max_position_embeddings says."""
    rope = rope_of(text)
    factor = rope.get("factor")
    if (rope.get("rope_type") or rope.get("type")) != "yarn" or "gemma3" in str(text.get("model_type")):
        return 0
    if not isinstance(factor, int | float) or not 1 <= factor <= 10_000:
        return 0
    return int(_number(rope, ("original_max_position_embeddings",), name, default=0) * factor)


def rope_of(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of the rotary embedding; of several kinds of layers, those of the first."""
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(rope, dict):
        return {}
    inner = [one for one in rope.values() if isinstance(one, dict)]
    return inner[0] if inner and "rope_type" not in rope else rope


def _dtype(text: Mapping[str, Any]) -> str | None:
    value = text.get("dtype") or text.get("torch_dtype")
    return value.removeprefix("torch.") if isinstance(value, str) and value else None


#: Configuration classes of transformers whose embeddings are tied unless config.json says otherwise.
_TIED_BY_DEFAULT = ("gemma", "gpt2", "opt", "bloom", "falcon", "cohere", "phi3small", "gpt_bigcode", "lfm2")


#: vLLM ties these whatever config.json says (vllm/model_executor/models/lfm2.py).
_ALWAYS_TIED = ("lfm2", "lfm2_moe")


def _tied(data: Mapping[str, Any], text: Mapping[str, Any], kind: object) -> bool:
    if kind in _ALWAYS_TIED:
        return True
    for part in (text, data):
        value = part.get("tie_word_embeddings", part.get("tie_embedding"))
        if isinstance(value, bool):
            return value
    return str(kind).startswith(_TIED_BY_DEFAULT)


def _quantization(data: Mapping[str, Any], text: Mapping[str, Any], name: str) -> str | None:
    """The method's name as config.json spells it."""
    for part in (data, text):
        for key in ("quantization_config", "compression_config"):
            section = part.get(key)
            if section is None:
                continue
            if not isinstance(section, dict):
                raise UserError(f"{name}: {key} is no JSON object", "take config.json from the model again")
            method = section.get("quant_method") or ("modelopt" if "quantization" in section else None)
            return str(method).lower() if method else "unknown"
    return None
