"""Machines from practice, and the start command that fits a model to one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from vdoctor.budget.config import ModelConfig
from vdoctor.budget.estimate import Estimate, estimate
from vdoctor.budget.settings import GIB, Settings
from vdoctor.budget.weights import Part
from vdoctor.errors import UserError
from vdoctor.launch.options import OptionTable
from vdoctor.model import FlagValue

#: Tokens below which a length is of little use.
_USEFUL = 8192


class Preset(NamedTuple):
    """A machine: GPUs, GiB that CUDA reports for each, and what it lacks."""

    name: str
    gpus: int
    gib: float
    share: float | None  # of the memory for vLLM, where the default is wrong
    requests: int | None  # at a time
    traits: tuple[str, ...] = ()


PRESETS = {
    one.name: one
    for one in (
        # L4 and A10, the poorest of this size; an RTX 3090 or 4090 has 23.5 (--gpu-memory 23.5).
        Preset("24gb", 1, 21.9, None, 64),
        Preset("2x24gb", 2, 21.9, None, 64, ("no_nvlink",)),
        Preset("8x80gb", 8, 79.1, None, None),
        # The processor's programs live in the same memory: a share of 0.9 leaves them 3 GiB.
        Preset("unified-32gb", 1, 30.0, 0.7, 16, ("unified",)),
    )
}


class Choice(NamedTuple):
    """One flag or variable of the command. `reason` names its text (report/estimate_words.py)."""

    name: str
    value: FlagValue
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A start command for a preset, and what it makes of the memory. `after.fits` says whether it works."""

    preset: Preset
    choices: tuple[Choice, ...]
    variables: tuple[Choice, ...]
    after: Estimate


def preset_settings(preset: Preset, base: Settings) -> Settings:
    """The settings of the machine; what the caller set stays."""
    return replace(
        base,
        platform="cuda",
        gpu_bytes=base.gpu_bytes or int(preset.gib * GIB),
        utilization=base.utilization or preset.share,
        seqs=base.seqs or preset.requests,
    )


def plan(
    preset: Preset, config: ModelConfig, parts: Sequence[Part] | int, base: Settings, options: OptionTable
) -> Plan:
    """The fewest GPUs on which the longest requests fit for certain, else all of them and the length that fits;
    the cache in fp8 only where less than a useful length fits without."""
    settings = preset_settings(preset, base)
    tried = [after for size in _sizes(preset, base) for after in _tried(config, parts, replace(settings, tp=size))]
    if not tried:
        raise UserError(f"{config.name}: its heads cannot be shared by {preset.gpus} GPUs", "take another preset")
    best = next((after for after in tried if after.fits), tried[-1])
    if best.fits is not True and base.kv_dtype == "auto" and best.longest_range[0] < min(_USEFUL, best.length):
        best = next((after for after in _tried(config, parts, replace(best.settings, kv_dtype="fp8"))), best)
    if best.fits is not True and base.max_len is None:
        best = _shortened(best, parts)
    copies = preset.gpus // best.settings.tp
    if copies > 1 and base.dp == 1 and options.exists("--data-parallel-size", base.version):
        best = next((after for after in _tried(config, parts, replace(best.settings, dp=copies)) if after.fits), best)
    choices = [
        choice
        for choice in _choices(preset, best)
        if options.exists(choice.name, base.version) and not _is_given(choice.name, base)
    ]
    return Plan(preset, tuple(choices), tuple(_variables(preset, best)), best)


def _is_given(name: str, base: Settings) -> bool:
    """Whether the caller chose the option: it stands in the command already, for a reason of its own."""
    asked = {
        "--max-model-len": base.max_len is not None,
        "--kv-cache-dtype": base.kv_dtype != "auto",
        "--max-num-seqs": base.seqs is not None,
        "--gpu-memory-utilization": base.utilization is not None,
        "--enable-expert-parallel": base.expert_parallel,
        "--data-parallel-size": base.dp > 1,
    }
    return asked.get(name, False)


def _sizes(preset: Preset, base: Settings) -> list[int]:
    return [size for size in (1, 2, 4, 8) if base.tp <= size <= preset.gpus]


def _tried(config: ModelConfig, parts: Sequence[Part] | int, settings: Settings) -> Iterator[Estimate]:
    try:
        yield estimate(config, parts, settings)
    except UserError:
        return


def _shortened(found: Estimate, parts: Sequence[Part] | int) -> Estimate:
    longest = found.longest_range[0]
    step = 1024 if longest >= 4096 else 16
    rounded = longest // step * step
    if rounded < 16:
        return found
    return next(iter(_tried(found.config, parts, replace(found.settings, max_len=rounded))), found)


def _choices(preset: Preset, after: Estimate) -> Iterator[Choice]:
    settings = after.settings
    if settings.tp > 1:
        yield Choice("--tensor-parallel-size", str(settings.tp), "tp")
    if settings.dp > 1:
        yield Choice("--data-parallel-size", str(settings.dp), "dp")
    if settings.tp * settings.dp > 1 and after.config.experts and preset.gpus >= 8:
        yield Choice("--enable-expert-parallel", True, "ep")
    if "no_nvlink" in preset.traits and settings.tp > 1:
        yield Choice("--disable-custom-all-reduce", True, "custom_all_reduce")
    if settings.max_len is not None and settings.max_len > 0:
        yield Choice("--max-model-len", str(settings.max_len), "max_len")
    if settings.kv_dtype != "auto":
        yield Choice("--kv-cache-dtype", settings.kv_dtype, "kv_dtype")
    if settings.seqs is not None:
        yield Choice("--max-num-seqs", str(settings.seqs), "seqs")
    if settings.utilization is not None:
        yield Choice("--gpu-memory-utilization", f"{settings.utilization:g}", "unified" if preset.share else "share")


def _variables(preset: Preset, after: Estimate) -> Iterator[Choice]:
    if "no_nvlink" in preset.traits and after.settings.tp > 1:
        yield Choice("NCCL_P2P_DISABLE", "1", "p2p")
