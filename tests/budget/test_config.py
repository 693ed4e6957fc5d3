"""config.json as numbers: nested ones, spellings, and what is no configuration."""

from __future__ import annotations

from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA
from vdoctor.budget.config import ModelConfig, parse_config
from vdoctor.errors import UserError


def config(**changes: Any) -> ModelConfig:
    """The Llama with other values; None takes a key out."""
    data = {key: value for key, value in (LLAMA | changes).items() if value is not None}
    return parse_config(data, "config.json")


def test_numbers_of_a_llama() -> None:
    one = config()
    assert (one.layers, one.hidden, one.heads, one.kv_heads, one.head_dim) == (4, 256, 8, 2, 32)
    assert (one.vocab, one.max_len, one.dtype, one.tied, one.quantization) == (1000, 4096, "bfloat16", False, None)


def test_gpt2_spells_it_otherwise() -> None:
    data = {"model_type": "gpt2", "n_layer": 3, "n_embd": 64, "n_head": 4, "n_positions": 512, "vocab_size": 100}
    one = parse_config(data, "c")
    assert (one.layers, one.hidden, one.heads, one.kv_heads, one.head_dim, one.max_len, one.tied) == (
        3,
        64,
        4,
        4,
        16,
        512,
        True,
    )


def test_language_model_inside_a_multimodal_one() -> None:
    inner = {key: value for key, value in LLAMA.items() if key not in ("architectures", "dtype")}
    one = parse_config(
        {"model_type": "llava", "text_config": inner, "vision_config": {}, "torch_dtype": "torch.float16"}, "c"
    )
    assert (one.layers, one.type, one.dtype) == (4, "llama", "float16")


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 4096),
        ({"max_position_embeddings": None}, 2048),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}}, 4096),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}}, 4096),
        ({"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 1024}, 1024),
        ({"rope_scaling": {"type": "dynamic", "factor": "many"}}, 4096),
    ],
)
def test_longest_sequence(changes: dict[str, Any], length: int) -> None:
    assert config(**changes).max_len == length


@pytest.mark.parametrize(
    ("section", "name"),
    [({"quant_method": "AWQ"}, "awq"), ({"quantization": {"quant_algo": "FP8"}}, "modelopt"), ({}, "unknown")],
)
def test_quantization(section: dict[str, Any], name: str) -> None:
    assert config(quantization_config=section).quantization == name


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"num_attention_heads": None}, "num_attention_heads is missing"),
        ({"num_hidden_layers": -4}, "num_hidden_layers is -4, not a count"),
        ({"num_hidden_layers": 0}, "0 layers"),
        ({"num_hidden_layers": 10**7}, "10000000 layers"),
        ({"hidden_size": "256"}, "hidden_size is 256, not a count"),
        ({"hidden_size": 2.5}, "hidden_size is 2.5, not a count"),
        ({"hidden_size": True}, "hidden_size is True, not a count"),
        ({"hidden_size": float("nan")}, "hidden_size is nan"),
        ({"hidden_size": 10**30}, "not a count"),
        ({"hidden_size": 4}, "smaller than 8 heads"),
        ({"head_dim": -1}, "head_dim is -1"),
        ({"quantization_config": "awq"}, "quantization_config is no JSON object"),
    ],
)
def test_what_is_no_configuration(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        config(**changes)


@pytest.mark.parametrize("data", [[], "x", None, 3])
def test_not_an_object(data: object) -> None:
    with pytest.raises(UserError, match="not a JSON object"):
        parse_config(data, "config.json")


def test_older_releases_stretch_yarn_by_themselves() -> None:
    """Qwen 2.5 with the rope_scaling that its page tells to add: vLLM before 0.30 took 131072, since then 32768."""
    rope = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    one = config(max_position_embeddings=32768, rope_scaling=rope)
    assert (one.max_len, one.yarn_len) == (32768, 131072)
    assert config(rope_scaling={"rope_type": "llama3", "factor": 8.0}).yarn_len == 0


def test_a_nested_configuration_leaves_out_what_its_class_has() -> None:
    """As published with the 4B Gemma 3: heads, head size, vocabulary and length stand in the class alone."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    one = parse_config({"model_type": "gemma3", "text_config": {**text, "sliding_window": 1024}}, "c")
    assert (one.heads, one.kv_heads, one.head_dim, one.vocab, one.max_len) == (8, 4, 256, 262208, 131072)
    assert (one.text["sliding_window"], one.hidden, one.tied) == (1024, 2560, True)


def test_what_stands_in_a_nested_configuration_beats_its_class() -> None:
    text = LLAMA | {"model_type": "mistral", "sliding_window": None}
    one = parse_config({"model_type": "mistral3", "text_config": text}, "c")
    assert (one.layers, one.kv_heads, one.max_len, one.text["sliding_window"]) == (4, 2, 4096, None)
