"""Whatever stands in a config.json, the answer is a figure or a message."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.budget.checkpoints import LLAMA
from vdoctor.budget.blueprint import blueprint
from vdoctor.budget.changes import cards, remedies
from vdoctor.budget.config import parse_config
from vdoctor.budget.estimate import estimate
from vdoctor.budget.settings import GIB, Settings
from vdoctor.errors import UserError
from vdoctor.launch.options import load

TYPES = (
    "llama", "gemma2", "gemma3_text", "deepseek_v3", "mixtral", "gpt_oss", "granitemoehybrid", "nemotron_h", "jamba",
    "qwen3_next", "falcon_h1", "mamba", "mamba2", "lfm2", "llama4_text", "zamba2", "novel",
)  # fmt: skip
KEYS = (
    *LLAMA, "head_dim", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "q_lora_rank", "layer_types",
    "sliding_window", "rope_scaling", "rope_parameters", "partial_rotary_factor", "attention_chunk_size", "num_experts",
    "num_local_experts", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "mamba_d_state",
    "mamba_d_conv", "mamba_expand", "mamba_n_heads", "mamba_n_groups", "mamba_d_head", "attn_layer_period",
    "attn_layer_offset", "full_attention_interval", "sliding_window_pattern", "hybrid_override_pattern", "text_config",
    "quantization_config", "linear_num_key_heads", "conv_L_cache", "first_k_dense_replace", "architectures", "layers_block_type",
)  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10), st.integers(-(10**12), 10**12), st.floats(), st.text(max_size=4),
    st.lists(st.sampled_from(["full_attention", "sliding_attention", "mamba", "chunked_attention", "x", 3, None]), max_size=5),
    st.dictionaries(st.sampled_from(["rope_type", "type", "factor", "x", "original_max_position_embeddings"]),
                    st.one_of(st.none(), st.integers(-9, 9), st.floats(), st.sampled_from(["yarn", "linear", "dynamic"]))),
)  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), st.sampled_from([1, 2, 8]))
def test_a_figure_or_a_message(kind: str, changes: dict[str, Any], tp: int) -> None:
    data = json.loads(json.dumps(LLAMA | {"model_type": kind} | changes))
    try:
        config = parse_config(data, "config.json")
        parts = blueprint(config) or 1 << 30
        found = estimate(config, parts, Settings(gpu_bytes=24 * GIB, tp=tp))
        remedies(found, parts, load(), gpus=2)
        cards(found, parts)
    except UserError as error:
        assert error.what and error.hint
        return
    assert found.tokens >= 0 and found.longest <= config.max_len
    assert all(rank.weights >= 0 and rank.kv_cache >= 0 for rank in found.ranks)
