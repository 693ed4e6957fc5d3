#!/usr/bin/env python3
"""Tiny models of many attention kinds, with random weights, for tests of the memory budget.

Made once in the cache folder of ``tools/real_vllm.py`` with the transformers of the real vLLM::

    $ python3 tools/tiny_models.py
    {"llama-gqa": "/.../models/kinds-<hash>/llama-gqa", ...}

The JSON object is the last line of standard output.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import real_vllm

# Runs in the interpreter of the real vLLM. Every size is small, and no two that could be mixed up are equal.
SCRIPT = r"""
import sys
from pathlib import Path

import torch
import transformers as t

target = Path(sys.argv[1])
small = dict(vocab_size=500, hidden_size=128, intermediate_size=320, num_hidden_layers=4, num_attention_heads=8,
             max_position_embeddings=2048, bos_token_id=0, eos_token_id=1, pad_token_id=1, tie_word_embeddings=False)
gqa = dict(small, num_key_value_heads=2)
moe = dict(gqa, num_experts_per_tok=2, moe_intermediate_size=96)
mla = dict(small, num_key_value_heads=8, kv_lora_rank=64, qk_rope_head_dim=32, qk_nope_head_dim=64, v_head_dim=64,
           moe_intermediate_size=96, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
           first_k_dense_replace=1, n_group=1, topk_group=1)
mamba = dict(small, num_key_value_heads=2, mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16, mamba_n_groups=1,
             mamba_d_conv=4, mamba_expand=2)
kinds = {
    'llama-mha': t.LlamaConfig(**dict(small, num_key_value_heads=8)),
    'llama-gqa': t.LlamaConfig(**gqa),
    'llama-mqa': t.LlamaConfig(**dict(small, num_key_value_heads=1)),
    'llama-tied': t.LlamaConfig(**dict(gqa, tie_word_embeddings=True)),
    'qwen2': t.Qwen2Config(**gqa),
    'qwen3': t.Qwen3Config(**gqa, head_dim=32),
    'mistral-window': t.MistralConfig(**gqa, sliding_window=256, head_dim=16),
    'phi3': t.Phi3Config(**gqa),
    'gemma2': t.Gemma2Config(**dict(gqa, num_hidden_layers=6, tie_word_embeddings=True), head_dim=32, sliding_window=128),
    'gemma3': t.Gemma3TextConfig(**dict(gqa, num_hidden_layers=8, tie_word_embeddings=True), head_dim=32, sliding_window=128),
    'mixtral': t.MixtralConfig(**dict(gqa), num_local_experts=4, num_experts_per_tok=2),
    'qwen3-moe': t.Qwen3MoeConfig(**moe, num_experts=4, head_dim=32, decoder_sparse_step=1, mlp_only_layers=[]),
    'deepseek-v2': t.DeepseekV2Config(**mla, q_lora_rank=None, topk_method='greedy'),
    'deepseek-v3': t.DeepseekV3Config(**mla, q_lora_rank=48, topk_method='noaux_tc', scoring_func='sigmoid'),
    'gpt2': t.GPT2Config(vocab_size=500, n_positions=1024, n_embd=128, n_layer=4, n_head=8, bos_token_id=0, eos_token_id=1),
    'opt': t.OPTConfig(vocab_size=500, hidden_size=128, word_embed_proj_dim=128, num_hidden_layers=4, ffn_dim=320,
                       num_attention_heads=8, max_position_embeddings=1024, bos_token_id=0, eos_token_id=1, pad_token_id=1),
    'granite-hybrid': t.GraniteMoeHybridConfig(**mamba, layer_types=['mamba', 'mamba', 'mamba', 'attention'],
                       num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=320, position_embedding_type='rope'),
    'qwen3-next': t.Qwen3NextConfig(**dict(moe), num_experts=4, head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4,
                       linear_key_head_dim=32, linear_value_head_dim=32, shared_expert_intermediate_size=96,
                       decoder_sparse_step=1, mlp_only_layers=[], layer_types=['linear_attention'] * 3 + ['full_attention']),
    'falcon-h1': t.FalconH1Config(**dict(small, num_key_value_heads=2), mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16,
                       mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_d_ssm=256),
    'lfm2': t.Lfm2Config(**gqa, full_attn_idxs=[1, 3], conv_L_cache=3, conv_dim=128, block_dim=128, block_ff_dim=320,
                       block_auto_adjust_ff_dim=False, block_use_swiglu=True),
    'nemotron-h': t.NemotronHConfig(**dict(small, num_key_value_heads=2, hidden_act='silu'), head_dim=16, layers_block_type=['mamba', 'mlp', 'attention', 'mlp'],
                       mamba_num_heads=8, mamba_head_dim=32, n_groups=1, ssm_state_size=16, conv_kernel=4),
    'jamba': t.JambaConfig(**gqa, num_experts=2, num_experts_per_tok=1, attn_layer_period=2, attn_layer_offset=1,
                       expert_layer_period=2, expert_layer_offset=1, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=8, use_mamba_kernels=False),
    'gpt-oss': t.GptOssConfig(**dict(gqa, head_dim=32), num_local_experts=4, num_experts_per_tok=2, sliding_window=128),
}
only = sys.argv[2:] or list(kinds)
for name in only:
    torch.manual_seed(0)
    config = kinds[name]
    config.dtype = torch.bfloat16
    try:
        model = t.AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
        model.generation_config.pad_token_id = None
        model.save_pretrained(target / name)
    except Exception as error:
        print('cannot make', name, type(error).__name__, error, file=sys.stderr)
        raise
"""


def folder(cache: Path) -> Path:
    """Where the models of this recipe are."""
    key = hashlib.sha256((SCRIPT + real_vllm.VLLM_VERSION).encode()).hexdigest()[:12]
    return cache / "models" / f"kinds-{key}"


def build(paths: real_vllm.Paths, target: Path) -> None:
    """Make all models beside their place and move them there when they are whole."""
    with real_vllm.locked(paths.cache.parent / "tiny-models.lock") as lock:
        if target.is_dir():
            return
        with tempfile.TemporaryDirectory(prefix=real_vllm.BUILDING, dir=target.parent) as beside:
            fresh = Path(beside) / "models"
            real_vllm.run([paths.python, "-c", SCRIPT, fresh], lock)
            fresh.rename(target)


def main() -> int:
    """Make what is missing and say where it is; the real vLLM itself must be there."""
    cache = real_vllm.cache_folder(os.environ)
    target = folder(cache)
    if not target.is_dir():
        try:
            build(real_vllm.paths_in(cache), target)
        except (real_vllm.BuildError, OSError) as error:
            print(f"tiny_models: error: {error}", file=sys.stderr)
            return 1
    print(json.dumps({one.name: str(one) for one in sorted(target.iterdir())}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
