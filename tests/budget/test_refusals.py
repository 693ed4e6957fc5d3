"""Models that are refused: a sentence instead of a wrong number."""

from __future__ import annotations

from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA
from vdoctor.budget.config import parse_config
from vdoctor.budget.estimate import estimate
from vdoctor.budget.settings import Settings
from vdoctor.errors import UserError

LATENT = {"kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (LATENT | {"model_type": "deepseek_v32", "index_topk": 64, "index_n_heads": 4}, "sparse attention"),
        ({"model_type": "deepseek_v4", "compress_ratios": [4, 8]}, "sparse attention"),
        (LATENT | {"model_type": "deepseek_v3", "index_topk": 64}, "sparse attention"),
        ({"model_type": "novel", "sparse_attention_config": {"topk": 4}}, "sparse attention"),
        (LATENT | {"model_type": "kimi_linear"}, "latent cache"),
        (LATENT | {"model_type": "longcat_flash"}, "latent cache"),
        ({"is_encoder_decoder": True}, "cross-attention is not counted"),
        ({"model_type": "mllama_text_model", "cross_attention_layers": [1]}, "cross-attention is not counted"),
    ],
)
def test_refused_with_a_sentence_and_what_next(changes: dict[str, Any], says: str) -> None:
    config = parse_config(LLAMA | changes, "m")
    with pytest.raises(UserError, match=says) as caught:
        estimate(config, 1 << 30, Settings())
    assert "KV cache size" in caught.value.hint


def test_whisper_is_refused_though_it_names_no_heads() -> None:
    data = {"model_type": "whisper", "is_encoder_decoder": True, "num_hidden_layers": 4, "d_model": 384}
    with pytest.raises(UserError, match="encoder-decoder"):
        parse_config(data, "w")


def test_latent_models_that_are_counted_stay() -> None:
    config = parse_config(LLAMA | LATENT | {"model_type": "deepseek_v3"}, "m")
    assert estimate(config, 1 << 30, Settings()).ranks[0].kv_per_token == 4 * (64 + 16) * 2


@pytest.mark.parametrize(("version", "length"), [("0.29.0", 131072), ("0.30.0", 32768)])
def test_length_by_the_rule_of_the_release(version: str, length: int) -> None:
    rope = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    config = parse_config(LLAMA | {"max_position_embeddings": 32768, "rope_scaling": rope}, "m")
    assert estimate(config, 1 << 30, Settings(version=version)).length == length
