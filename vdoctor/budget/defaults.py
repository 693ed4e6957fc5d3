"""What a nested configuration leaves out: transformers writes of it only what differs from its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_MISTRAL = _LLAMA | {"intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072}
_QWEN2 = _LLAMA | {
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "use_sliding_window": False,
}
_GEMMA2 = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "sliding_window": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}
#: Defaults of the configuration classes (transformers, models/*/configuration_*.py), as far as memory depends on them.
_CLASSES: dict[str, dict[str, Any]] = {
    "llama": _LLAMA | {"rope_theta": 10000.0},
    "mistral": _MISTRAL | {"sliding_window": 4096, "rope_theta": 10000.0},
    "mixtral": _MISTRAL | {"num_local_experts": 8, "num_experts_per_tok": 2, "rope_theta": 1000000.0},
    "qwen2": _QWEN2 | {"rope_theta": 10000.0},
    "qwen3": _QWEN2 | {"head_dim": 128, "rope_theta": 10000.0},
    "gemma": {
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "max_position_embeddings": 8192,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    },
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA2 | {"vocab_size": 262208, "max_position_embeddings": 131072, "rope_theta": 1000000.0},
}


def completed(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """A nested configuration with what its class adds; one of an unknown class as it is."""
    own = _CLASSES.get(str(text.get("model_type")))
    return {**own, **text} if own else text
