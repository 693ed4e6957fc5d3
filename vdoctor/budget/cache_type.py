"""The type of the cache where --kv-cache-dtype leaves it to the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.version import Version

from vdoctor.budget.config import ModelConfig
from vdoctor.budget.settings import Settings

#: First releases that take the type of the cache from the checkpoint: ModelOpt's vllm-project/vllm#30785, that of
#: compressed-tensors vllm-project/vllm#30141.
_MODELOPT, _COMPRESSED = Version("0.14.0"), Version("0.15.0")


def cache_type(config: ModelConfig, settings: Settings) -> str:
    """--kv-cache-dtype as it counts: what the command says, else what the checkpoint asks for, else "auto"."""
    if settings.kv_dtype != "auto":
        return settings.kv_dtype
    asked = asked_by(config)
    since = _MODELOPT if (config.quantization or "").startswith("modelopt") else _COMPRESSED
    return asked if asked and settings.release.version >= since else "auto"


def asked_by(config: ModelConfig) -> str:
    """The cache that a quantised checkpoint was calibrated for: "fp8", "nvfp4" or "" (vllm/utils/torch_utils.py and
    vllm/model_executor/layers/attention/attention.py)."""
    method = config.quantization or ""
    if not method.startswith("modelopt") and method != "compressed-tensors":
        return ""
    for section in _sections(config):
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            found = _named(section.get(key))
            if found:
                return found
    return ""


def _sections(config: ModelConfig) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for part in (config.raw, config.text):
        for key in ("quantization_config", "compression_config"):
            section = part.get(key)
            if isinstance(section, dict):
                inner = section.get("quantization")
                found += [section, inner] if isinstance(inner, dict) else [section]
    return found


def _named(value: object) -> str:
    if isinstance(value, dict):
        if value.get("type") != "float":
            return ""
        bits = value.get("num_bits")
        return "fp8" if bits == 8 else "nvfp4" if bits == 4 else ""
    return value.lower() if isinstance(value, str) and value.lower() in ("fp8", "nvfp4") else ""
