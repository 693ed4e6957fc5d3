"""Whether the launch fits into memory: the budget of `vdoctor estimate`, said only where its ranges leave no doubt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vdoctor.budget.estimate import Estimate, estimate
from vdoctor.budget.launch import BEYOND, apply_variable, settings_of
from vdoctor.budget.settings import GIB, Settings
from vdoctor.errors import UserError
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import last_values
from vdoctor.live.probe.finding import Seen
from vdoctor.live.probe.model import ModelLook
from vdoctor.model import FactValue, Launch

#: Options whose need the estimate knows less well than a finding has to.
_UNSURE = frozenset(
    (
        *("--speculative-config", "--spec-method", "--spec-model", "--speculative-model", "--enable-lora"),
        *("--quantization", "--config"),
    )
)
#: Doubts of the estimate that concern the start-up log only, or say what was counted.
_HARMLESS = frozenset({"too_long", "kv_asked", "kv_ignored"})
#: Doubts about the cache alone, and about what would come on top: weights that fill the card fill it all the same.
_BESIDE_WEIGHTS = frozenset({"mla_block", "towers"})


def fit(
    seen: Seen, launch: Launch, env: Mapping[str, str], options: OptionTable, facts: Mapping[str, FactValue]
) -> Seen:
    """Facts `mem.shortage` ("none", "weights", "no-cache", "short-cache") and its figures; nothing where it may fit."""
    found = Seen()
    look, version, device = seen.things.get("model"), facts.get("vllm.version"), facts.get("launch.device")
    if not isinstance(look, ModelLook) or look.config is None or (parts := look.parts) is None:
        return found
    if not isinstance(version, str) or device not in ("cuda", "cpu") or _open(launch, options):
        return found
    try:
        answer = estimate(look.config, parts, _settings(launch, env, options, version, facts))
    except UserError:
        return found
    doubts = set(answer.doubts) - _HARMLESS
    if (answer.settings.gpu_bytes or answer.exact) and not doubts - _BESIDE_WEIGHTS and not answer.guessed:
        _judge(found, answer, sure=not isinstance(parts, int), cache=not doubts)
    return found


def _open(launch: Launch, options: OptionTable) -> bool:
    return bool((_UNSURE | BEYOND.keys()) & last_values(launch, options).keys())


def _settings(
    launch: Launch, env: Mapping[str, str], options: OptionTable, version: str, facts: Mapping[str, FactValue]
) -> Settings:
    cpu = facts.get("launch.device") == "cpu"
    base = Settings(version=version, platform="cpu" if cpu else "cuda", cpu_flags=_cpu_flags() if cpu else frozenset())
    for name in ("VLLM_CPU_KVCACHE_SPACE", "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"):
        if env.get(name, "0") != "0":
            base = apply_variable(base, name, env[name])
    base = settings_of(launch, options, base)
    total = facts.get("gpu.total_gib")
    if cpu or not isinstance(total, int | float) or isinstance(total, bool):
        return base
    return replace(base, gpu_bytes=int(total * GIB), gpu_name=str(facts.get("gpu.name") or ""))


def _cpu_flags() -> frozenset[str]:
    """What this processor can do; the CPU build of vLLM chooses layouts by it."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as file:
            line = next((one for one in file if one.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset({"avx512_bf16", "amx_tile"} & set(line.split()))


def _judge(found: Seen, answer: Estimate, *, sure: bool, cache: bool) -> None:
    """`sure`: the tensors are known one by one; else only what the files hold in bytes counts. `cache`: how many tokens
    it holds is known as well."""
    total = answer.settings.gpu_bytes
    weights = max(rank.weights for rank in answer.ranks)
    left = min(rank.kv_range[1] for rank in answer.ranks)
    shortage = "none"
    if total and answer.settings.platform == "cuda" and weights > total:
        shortage = "weights"
    elif sure and answer.fits is False and (answer.exact or total):
        shortage = "no-cache" if left == 0 else "short-cache" if cache else ""
    if not shortage or (shortage == "none" and not cache):
        return
    found.add("mem.shortage", shortage, "estimate")
    if shortage == "none":
        return
    found.add("mem.shortage_exact", answer.exact, "estimate")
    found.add("mem.weights_gib", round(weights / GIB, 2), "estimate")
    if shortage != "short-cache":
        return
    # Two digits, rounded so that what is needed never reads as no more than what is there.
    found.add("mem.kv_needed_gib", math.ceil(answer.needed_kv / GIB * 100) / 100, "estimate")
    found.add("kv.space_gib", answer.needed_kv / GIB, "estimate")
    found.add("mem.kv_available_gib", math.floor(left / GIB * 100) / 100, "estimate")
    found.add("model.max_len", answer.length, "argv" if answer.settings.max_len else "probe:config.json")
    found.add("kv.estimated_len", answer.longest_range[0] or None, "estimate")
