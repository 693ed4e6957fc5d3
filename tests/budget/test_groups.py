"""Pages, groups and the printed number: numbers that vLLM printed, and each release's own arithmetic by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA
from vdoctor.budget.config import parse_config
from vdoctor.budget.estimate import Estimate, estimate
from vdoctor.budget.groups import stages_of
from vdoctor.budget.settings import Settings
from vdoctor.errors import UserError

MIB = 1 << 20
#: 4 layers of 2 KV heads of 32: 4 * 2 * 2 * 32 * 2 = 1024 bytes a token.
SLIDING = LLAMA | {
    "model_type": "gemma3_text", "num_hidden_layers": 8, "sliding_window": 128,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"] + ["sliding_attention"] * 2,
}  # fmt: skip
HYBRID = LLAMA | {
    "model_type": "granitemoehybrid", "layer_types": ["mamba", "mamba", "mamba", "attention"], "mamba_n_heads": 8,
    "mamba_d_head": 64, "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
LATENT = LLAMA | {
    "model_type": "deepseek_v2", "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64,
}  # fmt: skip


def count(config: dict[str, Any], **settings: Any) -> Estimate:
    """The estimate of a model without weights for a cache of 64 MiB."""
    given = {"max_len": 1000, "kv_bytes": 64 * MIB, "batched": 4096, "version": "0.32.0"} | settings
    return estimate(parse_config(config, "config.json"), (), Settings(**given))


def test_plain_attention() -> None:
    found = count(LLAMA)
    assert found.ranks[0].kv_per_token == 1024
    assert (found.blocks, found.tokens) == (4096, 65015)  # 63 blocks of 16 hold 1000 tokens: 4096 / 63 * 1000
    assert found.exact


@pytest.mark.parametrize(
    ("version", "tokens"),
    [("0.8.5", 65536), ("0.10.2", 65536), ("0.20.2", 65536), ("0.21.0", 65015), ("0.33.0", 65015)],
)
def test_what_the_printed_number_means(version: str, tokens: int) -> None:
    """Blocks times their size until 0.20; from 0.21 whole requests of the longest length."""
    assert count(LLAMA, version=version).tokens == tokens


@pytest.mark.parametrize(
    ("tp", "per_token"),
    [(1, 1024), (2, 512), (4, 512), (8, 512)],
)
def test_kv_heads_are_shared_then_replicated(tp: int, per_token: int) -> None:
    assert {rank.kv_per_token for rank in count(LLAMA, tp=tp).ranks} == {per_token}


def test_heads_that_do_not_divide() -> None:
    with pytest.raises(UserError, match=r"8 heads \(2 KV heads\) cannot be shared by 3 GPUs") as caught:
        count(LLAMA, tp=3)
    assert caught.value.hint == "take --tensor-parallel-size 1, 2, 4, 8"


@pytest.mark.parametrize(
    ("dtype", "per_token"),
    [("auto", 1024), ("fp8", 512), ("fp8_e5m2", 512), ("bfloat16", 1024), ("float32", 2048)],
)
def test_types_of_the_cache(dtype: str, per_token: int) -> None:
    assert count(LLAMA, kv_dtype=dtype).ranks[0].kv_per_token == per_token


def test_packed_types_are_not_guessed() -> None:
    with pytest.raises(UserError, match="does not know its layout"):
        count(LLAMA, kv_dtype="nvfp4")


def test_a_latent_vector_is_not_shared() -> None:
    """4 layers of 96 elements of 2 bytes, whatever the ranks."""
    assert [count(LATENT, tp=tp).ranks[0].kv_per_token for tp in (1, 2, 8)] == [768, 768, 768]


def test_windows_by_release() -> None:
    """7 layers with a window and 1 without: 8 groups of one layer, 16 KiB a block of 64 tokens."""
    options = {"block_size": 64, "kv_bytes": 16 * MIB, "batched": 256, "max_len": 2000}
    by_groups = count(SLIDING, version="0.11.0", **options)
    assert (by_groups.blocks, by_groups.tokens) == (1024, 1024 // 8 * 64)
    # A request needs 32 blocks in the full layer, and in each other one up(127 + 256, 64) + 1 = 7.
    by_requests = count(SLIDING, version="0.23.0", **options)
    assert by_requests.tokens == int(1024 / (32 + 7 * 7) * 2000)
    # From 0.26 the batches of two steps are in flight: up(127 + 512, 64) + 1 = 11.
    two_steps = count(SLIDING, version="0.32.0", **options)
    assert two_steps.tokens == int(1024 / (32 + 7 * 11) * 2000)
    assert count(SLIDING, version="0.32.0", async_scheduling=False, **options).tokens == by_requests.tokens


def test_without_the_hybrid_manager_windows_count_as_full() -> None:
    found = count(SLIDING, hybrid_manager=False, version="0.11.0")
    assert found.ranks[0].kv_per_token == 8 * 256
    assert found.tokens == 64 * MIB // (16 * 8 * 256) * 16


def test_kinds_of_almost_equal_number_are_padded() -> None:
    """5 full and 6 with a window: from 0.12 two groups of 6, before groups of 5."""
    types = ["sliding_attention", "full_attention"] * 5 + ["sliding_attention"]
    config = SLIDING | {"num_hidden_layers": 11, "layer_types": types}
    padded, cut = count(config, version="0.12.0"), count(config, version="0.11.0")
    assert (padded.blocks, padded.tokens) == (64 * MIB // (6 * 4096), 64 * MIB // (6 * 4096) // 2 * 16)
    assert (cut.blocks, cut.tokens) == (64 * MIB // (5 * 4096), 64 * MIB // (5 * 4096) // 3 * 16)


def test_states_pad_the_attention_block() -> None:
    """A state of (512 + 32) * 3 * 2 + 8 * 64 * 16 * 2 = 19648 bytes; a token of attention takes 256."""
    found = count(HYBRID, version="0.32.0")
    block = 80  # the smallest multiple of 16 with 256 bytes each that holds the state
    assert found.blocks == 64 * MIB // (block * 256)
    # One attention group of up(1000, 80) = 13 blocks, three groups of 2 + 1 states (prefix cache, checkpoint).
    assert found.tokens == int(found.blocks / (13 + 3 * 3) * 1000)
    assert count(HYBRID, prefix_caching=False).tokens == int(found.blocks / (13 + 3) * 1000)
    assert count(HYBRID, version="0.25.0").tokens == int(found.blocks / (13 + 3) * 1000)


def test_states_that_nobody_described() -> None:
    config = LLAMA | {"model_type": "novel", "layer_types": ["linear_attention", "full_attention"] * 2}
    with pytest.raises(UserError, match="the state of model type novel is not known"):
        count(config)
    with pytest.raises(UserError, match="layers of type 'swirl'"):
        count(LLAMA | {"layer_types": ["swirl"] * 4})


def test_the_longest_request() -> None:
    """16 blocks of 128: 2048 tokens; from 0.29 one block is held back."""
    options = {"block_size": 128, "kv_bytes": 16 * 128 * 1024}
    assert count(LLAMA, version="0.28.0", **options).longest == 2048
    assert count(LLAMA, version="0.32.0", **options).longest == 1920
    assert count(LLAMA, version="0.32.0", max_len=-1, **options).length == 1920
    assert count(LLAMA, version="0.32.0", kv_bytes=10).longest == 0


def test_blocks_given_by_the_command() -> None:
    assert count(LLAMA, blocks=37, block_size=128).tokens == int(37 / 8 * 1000)


def test_pipeline_shares_layers() -> None:
    assert [len(stage) for stage in stages_of(10, 4)] == [2, 3, 3, 2]
    assert [len(stage) for stage in stages_of(61, 2)] == [31, 30]
    found = count(LLAMA, pp=2)
    assert [rank.kv_per_token for rank in found.ranks] == [512, 512]
    assert found.blocks == 8192
    with pytest.raises(UserError, match="4 layers on 5 stages"):
        count(LLAMA, pp=5)


def test_versions_before_v1_are_refused() -> None:
    with pytest.raises(UserError, match="old engine"):
        count(LLAMA, version="0.6.3")
    with pytest.raises(UserError, match="not a vLLM version"):
        count(LLAMA, version="newest")
