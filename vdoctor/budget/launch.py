"""A start command read for what matters to memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from vdoctor.budget.config import DTYPE_BYTES
from vdoctor.budget.settings import Settings
from vdoctor.errors import UserError
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import given
from vdoctor.model import Launch

# vLLM takes "16k" for 16000 and "16K" for 16384.
_HUMAN = re.compile(r"(-?\d+(?:\.\d+)?)([kmgtKMGT])$")
_MOST = 1 << 50


def settings_of(launch: Launch, options: OptionTable, base: Settings) -> Settings:
    """`base` with what the command says; UserError for a value that is no such number."""
    found = base
    for one in given(launch, options):
        if not one.key:
            found = apply_flag(found, one.name, one.value or "", one.written)
    for name, value in launch.env:
        found = apply_variable(found, name, value)
    return found


def apply_flag(settings: Settings, name: str, value: str, written: str = "") -> Settings:
    """The settings with one option; an option that does not matter changes nothing."""
    on = not (written or name).startswith("--no-")
    if name == "--enforce-eager":
        return replace(settings, eager=on)
    if name == "--enable-prefix-caching":
        return replace(settings, prefix_caching=on)
    if name == "--enable-expert-parallel":
        return replace(settings, expert_parallel=on)
    if name == "--async-scheduling":
        return replace(settings, async_scheduling=on)
    if name == "--disable-hybrid-kv-cache-manager":
        return replace(settings, hybrid_manager=not on)
    if name == "--speculative-config":
        return replace(settings, speculative_tokens=_draft_tokens(value))
    known = _VALUES.get(name)
    if known is None or not value:
        return settings
    field, convert = known
    return replace(settings, **{field: convert(value, name)})


def apply_variable(settings: Settings, name: str, value: str) -> Settings:
    """The settings with one environment variable."""
    if name == "VLLM_CPU_KVCACHE_SPACE" and value:
        return replace(settings, cpu_space_gib=count(value, name))
    if name == "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS" and value:
        return replace(settings, graph_estimate=value != "0")
    return settings


def count(text: str, name: str) -> int:
    """A whole number of one or more, also as "16k"."""
    number = _human(text, name)
    if not 1 <= number <= _MOST:
        raise UserError(f"{name} {text[:40]}: not a number of one or more", f"as in: {name} 8")
    return number


def length(text: str, name: str) -> int:
    """A length; -1 and "auto" ask vLLM for the longest that fits."""
    if text in ("auto", "-1"):
        return -1
    return count(text, name)


def share(text: str, name: str) -> float:
    """A number above 0, at most 1."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise UserError(f"{name} {text[:40]}: not a share between 0 and 1", f"as in: {name} 0.9")
    return number


def _human(text: str, name: str) -> int:
    found = _HUMAN.match(text)
    try:
        if found is None:
            return int(text)
        base = 1000 if found[2].islower() else 1024
        return int(float(found[1]) * base ** ("kmgt".index(found[2].lower()) + 1))
    except ValueError:
        raise UserError(f"{name} {text[:40]}: not a number", f"as in: {name} 8192") from None


def _dtype(text: str, name: str) -> str:
    if text != "auto" and text not in DTYPE_BYTES:
        raise UserError(f"{name} {text[:40]}: not a type that vLLM has", f"one of: auto, {', '.join(DTYPE_BYTES)}")
    return text


def _word(text: str, name: str) -> str:
    return text


def _draft_tokens(value: str) -> int:
    try:
        data: Any = json.loads(value)
    except (ValueError, RecursionError):
        return 1
    number = data.get("num_speculative_tokens") if isinstance(data, Mapping) else None
    return number if isinstance(number, int) and 0 < number < 1000 else 1


_VALUES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "--max-model-len": ("max_len", length),
    "--tensor-parallel-size": ("tp", count),
    "--pipeline-parallel-size": ("pp", count),
    "--data-parallel-size": ("dp", count),
    "--block-size": ("block_size", count),
    "--kv-cache-dtype": ("kv_dtype", _word),
    "--dtype": ("dtype", _dtype),
    "--quantization": ("quantization", _word),
    "--gpu-memory-utilization": ("utilization", share),
    "--kv-cache-memory-bytes": ("kv_bytes", count),
    "--num-gpu-blocks-override": ("blocks", count),
    "--max-num-seqs": ("seqs", count),
    "--max-num-batched-tokens": ("batched", count),
    "--mamba-ssm-cache-dtype": ("state_dtype", _dtype),
}
