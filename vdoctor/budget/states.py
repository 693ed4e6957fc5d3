"""Recurrent states: Mamba, Mamba-2, gated delta net, short convolution. One state a request, not a token.

Shapes as in MambaStateShapeCalculator (vllm/model_executor/layers/mamba/mamba_utils.py): a convolution state of the
last inputs and the state proper, both cut over the tensor parallel ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdoctor.budget.config import DTYPE_BYTES, ModelConfig
from vdoctor.budget.pages import up
from vdoctor.budget.settings import Settings
from vdoctor.errors import UserError


@dataclass(frozen=True, slots=True)
class State:
    """Elements that a layer keeps for a request on one rank; `checkpoints`: further states for the prefix cache."""

    conv: int
    recurrent: int
    checkpoints: int = 0
    float32: bool = False  # the recurrent part is kept in float32 unless the command says otherwise

    def bytes(self, conv_bytes: int, recurrent_bytes: int) -> int:
        """Bytes with the given element sizes."""
        return self.conv * conv_bytes + self.recurrent * recurrent_bytes


def state_of(config: ModelConfig, settings: Settings) -> State | None:
    """The state of this model's recurrent layers; None for a family that vdoctor does not know."""
    known = _FAMILIES.get(config.type)
    return None if known is None else known(config, settings)


def state_bytes(state: State, config: ModelConfig, settings: Settings, model_bytes: int) -> int:
    """Bytes of one state. The recurrent part may be kept wider than the model (--mamba-ssm-cache-dtype)."""
    recurrent = model_bytes
    if settings.state_dtype != "auto":
        recurrent = DTYPE_BYTES[settings.state_dtype]
    elif state.float32:
        recurrent = 4
    if _widened(config, settings):
        recurrent = 4
    return state.bytes(model_bytes, recurrent)


def _widened(config: ModelConfig, settings: Settings) -> bool:
    """From 0.26 the CPU build with AMX (from 0.29: with AVX512-BF16) keeps states in float32
    (vllm/platforms/cpu.py), but from 0.29 for an explicit 16-bit type of a model whose layers are listed by type."""
    release = settings.release
    needs = "avx512_bf16" if release.cpu_mla == "amx" else "amx_tile"
    if settings.platform != "cpu" or needs not in settings.cpu_flags or not release.wide_cpu_states:
        return False
    listed = release.cpu_mla == "amx" and isinstance(config.text.get("layer_types"), list)
    return settings.state_dtype == "auto" or not listed


def _cut(number: int, tp: int, what: str, config: ModelConfig) -> int:
    if number % tp:
        raise UserError(
            f"{config.name}: {number} {what} cannot be shared by {tp} ranks",
            "take a --tensor-parallel-size that divides it",
        )
    return number // tp


def _mamba1(inner: int, size: int, kernel: int, config: ModelConfig, settings: Settings) -> State:
    width = _cut(inner, settings.tp, "state channels", config)
    return State(conv=width * (kernel - 1), recurrent=width * size)


def _mamba2(
    inner: int, groups: int, heads: int, head_dim: int, size: int, kernel: int, config: ModelConfig, settings: Settings
) -> State:
    """Groups that do not divide over the ranks are replicated, one a rank."""
    tp = settings.tp
    groups += 0 if groups % tp == 0 else tp - groups
    conv = _cut(inner + 2 * groups * size, tp, "state channels", config) * (kernel - 1 + settings.speculative_tokens)
    recurrent = _cut(heads, tp, "state heads", config) * head_dim * size
    return State(conv, recurrent, checkpoints=int(settings.release.state_checkpoints))


def _bamba(config: ModelConfig, settings: Settings) -> State:
    number = config.number
    inner = number("mamba_d_ssm", default=0) or number("mamba_expand") * config.hidden
    heads, head_dim = number("mamba_n_heads"), number("mamba_d_head", default=0)
    head_dim = head_dim or inner // max(heads, 1)
    groups, size, kernel = number("mamba_n_groups"), number("mamba_d_state"), number("mamba_d_conv")
    return _mamba2(inner, groups, heads, head_dim, size, kernel, config, settings)


def _nemotron(config: ModelConfig, settings: Settings) -> State:
    number = config.number
    heads, head_dim = number("mamba_num_heads"), number("mamba_head_dim")
    groups, size, kernel = number("n_groups"), number("ssm_state_size"), number("conv_kernel")
    state = _mamba2(heads * head_dim, groups, heads, head_dim, size, kernel, config, settings)
    return State(state.conv, state.recurrent, state.checkpoints, float32=settings.release.wide_nemotron)


def _zamba(config: ModelConfig, settings: Settings) -> State:
    number = config.number
    heads, size, kernel = number("n_mamba_heads"), number("mamba_d_state"), number("mamba_d_conv")
    inner = number("mamba_expand") * config.hidden
    head_dim = number("mamba_headdim", default=0) or inner // max(heads, 1)
    return _mamba2(inner, number("mamba_ngroups"), heads, head_dim, size, kernel, config, settings)


def _pure_mamba2(config: ModelConfig, settings: Settings) -> State:
    number = config.number
    inner = number("expand") * config.hidden
    groups, size, kernel = number("n_groups"), number("state_size"), number("conv_kernel")
    return _mamba2(inner, groups, number("num_heads"), number("head_dim"), size, kernel, config, settings)


def _pure_mamba(config: ModelConfig, settings: Settings) -> State:
    number = config.number
    return _mamba1(number("intermediate_size"), number("state_size"), number("conv_kernel"), config, settings)


def _jamba(config: ModelConfig, settings: Settings) -> State:
    number = config.number
    inner = number("mamba_expand") * config.hidden
    return _mamba1(inner, number("mamba_d_state"), number("mamba_d_conv"), config, settings)


def _delta_net(config: ModelConfig, settings: Settings) -> State:
    number, tp = config.number, settings.tp
    keys, values = number("linear_num_key_heads"), number("linear_num_value_heads")
    key_dim, value_dim = number("linear_key_head_dim"), number("linear_value_head_dim")
    kernel = number("linear_conv_kernel_dim")
    channels = _cut(key_dim * keys * 2 + value_dim * values, tp, "state channels", config)
    recurrent = _cut(values, tp, "state heads", config) * value_dim * key_dim
    wide = config.text.get("mamba_ssm_dtype") == "float32"
    return State(channels * (kernel - 1 + settings.speculative_tokens), recurrent, float32=wide)


def _short_conv(config: ModelConfig, settings: Settings) -> State:
    width = config.number("conv_dim", default=config.hidden)
    return State(_cut(width, settings.tp, "channels", config) * (config.number("conv_L_cache") - 1), 0)


_FAMILIES: dict[str, Callable[[ModelConfig, Settings], State]] = {
    "bamba": _bamba,
    "falcon_h1": _bamba,
    "granitemoehybrid": _bamba,
    "nemotron_h": _nemotron,
    "zamba2": _zamba,
    "mamba2": _pure_mamba2,
    "mamba": _pure_mamba,
    "falcon_mamba": _pure_mamba,
    "jamba": _jamba,
    "qwen3_next": _delta_net,
    "qwen3_5": _delta_net,
    "qwen3_5_text": _delta_net,
    "qwen3_5_moe": _delta_net,
    "qwen3_5_moe_text": _delta_net,
    "lfm2": _short_conv,
    "lfm2_moe": _short_conv,
}


def aligned_block(block_size: int, token_bytes: int, state: int, settings: Settings, mla: bool) -> tuple[int, int]:
    """Tokens in a block, and bytes to which a state is padded: the attention page must hold a state.

    _align_hybrid_block_size in vllm/platforms/interface.py; before 0.20 the same in models/config.py, rounded to
    16 tokens (MLA: 64) instead of to the block.
    """
    step = block_size if settings.release.aligns_to_block else 16
    if mla:
        step = max(step, 128 if settings.release.aligns_to_block else 64)
    needed = step * up(state, step * token_bytes)
    block = max(block_size, needed)
    return block, block * token_bytes
