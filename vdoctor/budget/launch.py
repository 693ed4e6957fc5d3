"""A start command read for what matters to memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from vdoctor.budget.config import DTYPE_BYTES
from vdoctor.budget.extras import Lora
from vdoctor.budget.settings import Settings
from vdoctor.errors import UserError
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import given, last_values, object_of, text_of
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
    asked = speculation(launch, options)
    if asked is not None:
        found = replace(found, speculative_tokens=asked.tokens, drafts=asked.loads)
    found = replace(found, lora=lora_of(launch, options) or found.lora)
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


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding as the command asks for it; "" and None where it says nothing."""

    method: str = ""
    model: str = ""
    tokens: int = 1
    tp: int | None = None

    @property
    def loads(self) -> bool:
        """Whether further weights are loaded; n-grams and suffixes are looked up in the prompt."""
        return not self.method.strip("[]").startswith(("ngram", "suffix")) and self.model != "[ngram]"


def speculation(launch: Launch, options: OptionTable) -> Speculation | None:
    """--speculative-config, --spec-* and the options of 0.8; None without them."""
    data = object_of(launch, "--speculative-config", options)
    single = {
        key: text
        for key, names in _SPECULATIVE.items()
        for name in names
        if (text := text_of(launch, name, options)) is not None
    }
    if data is None and not single:
        return None
    told: dict[str, Any] = {**(data or {}), **single}
    return Speculation(
        method=_string(told.get("method")),
        model=_string(told.get("model")),
        tokens=_small(told.get("num_speculative_tokens")) or 1,
        tp=_small(told.get("draft_tensor_parallel_size")),
    )


_SPECULATIVE = {
    "method": ("--spec-method",),
    "model": ("--spec-model", "--speculative-model"),
    "num_speculative_tokens": ("--spec-tokens", "--num-speculative-tokens"),
    "draft_tensor_parallel_size": ("--speculative-draft-tensor-parallel-size",),
}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _small(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and 0 < len(text) < 4 and int(text) > 0 else None


def lora_of(launch: Launch, options: OptionTable) -> Lora | None:
    """The slots for adapters; None without --enable-lora."""
    asked = last_values(launch, options)
    if "--enable-lora" not in asked:
        return None
    slots, rank = asked.get("--max-loras") or "1", asked.get("--max-lora-rank") or "16"
    return Lora(
        slots=count(slots, "--max-loras"),
        rank=count(rank, "--max-lora-rank"),
        dtype=asked.get("--lora-dtype") or "auto",
        sharded="--fully-sharded-loras" in asked,
    )


#: Options that change what lies on the GPU in ways that are not counted, and the text that says how: less or more
#: memory is needed than shown, or either.
BEYOND: dict[str, str] = {
    "--cpu-offload-gb": "beyond_less",
    "--cpu-offload-params": "beyond_less",
    "--offload-backend": "beyond_less",
    "--decode-context-parallel-size": "beyond_less",
    "--kv-transfer-config": "beyond_more",
    "--hf-overrides": "beyond_either",
    "--load-format": "beyond_either",
    "--model-impl": "beyond_either",
    "--runner": "beyond_either",
    "--convert": "beyond_either",
    "--task": "beyond_either",
    "--additional-config": "beyond_either",
}


def beyond(launch: Launch, options: OptionTable) -> list[tuple[str, str]]:
    """(option, direction) of what the command asks for and the budget does not count."""
    asked = last_values(launch, options)
    harmless = {
        "--cpu-offload-gb": ("0", "0.0"),
        "--decode-context-parallel-size": ("1",),
        "--runner": ("auto", "generate"),
    }
    harmless |= {
        "--load-format": ("auto", "safetensors", "hf"),
        "--model-impl": ("auto", "vllm"),
        "--task": ("auto", "generate"),
    }
    harmless |= {"--convert": ("auto", "none"), "--offload-backend": ("auto",)}
    return [(name, way) for name, way in BEYOND.items() if name in asked and asked[name] not in harmless.get(name, ())]


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
