"""Models whose cache vdoctor does not count: a clear answer instead of a wrong number."""

from __future__ import annotations

from vdoctor.budget.config import ASK_VLLM, ModelConfig, is_encoder_decoder, no_cross
from vdoctor.errors import UserError

#: Keys of layers that choose the tokens they read: each keeps an indexer's cache, or a compressed one, beside its own
#: (DeepseekV32IndexerCache in vllm/model_executor/models/deepseek_v2.py, vllm/models/deepseek_v4/attention.py).
_SPARSE = ("index_topk", "index_n_heads", "index_head_dim", "index_kpool", "compress_ratios", "sparse_attention_config")
_SPARSE_TYPES = (
    "deepseek_v32", "deepseek_v4", "deepseek_v41", "glm_moe_dsa", "glm5_next", "glm5_next_text", "dots3_note", "hy_v4",
    "minimax_m3", "minimax_m3_text", "qwen4_exp", "qwen4_exp_text",
)  # fmt: skip
#: Model types that vLLM runs with a latent vector, and whose cache has been compared with vLLM's, or is built alike.
MLA = ("deepseek_v2", "deepseek_v3", "kimi_k2", "pangu_ultra_moe", "glm4_moe_lite", "axk1")


def refuse(config: ModelConfig) -> None:
    """UserError for a model whose layers keep more, or something else, than is counted."""
    text = config.text
    if config.type in _SPARSE_TYPES or any(text.get(key) for key in _SPARSE):
        raise UserError(
            f"{config.name}: sparse attention ({config.type or '?'}) keeps a second cache beside that of each layer, "
            "which vdoctor does not count",
            ASK_VLLM,
        )
    if text.get("kv_lora_rank") and config.type not in MLA:
        raise UserError(
            f"{config.name}: model type {config.type or '?'} has a latent cache (kv_lora_rank) that vdoctor does not know",
            ASK_VLLM,
        )
    if is_encoder_decoder(config.raw) or is_encoder_decoder(text):
        raise no_cross(config.name)
