"""What would make a launch fit: changes in order of what they cost, each computed anew, and cards that are enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vdoctor.budget.config import ModelConfig
from vdoctor.budget.estimate import Estimate, estimate
from vdoctor.budget.layers import kv_element_bytes
from vdoctor.budget.settings import GIB, Settings
from vdoctor.budget.weights import Part
from vdoctor.errors import UserError
from vdoctor.launch.options import OptionTable
from vdoctor.model import FlagValue

#: Memory that CUDA reports for cards of each nominal size, GiB, of the poorest such card (T4 of 16, L4 and A10 of 24,
#: L40S of 48 keep some for error correction): always less than what the box says.
CARDS: tuple[tuple[int, float], ...] = (
    (16, 14.5), (24, 21.9), (32, 31.3), (40, 39.3), (48, 44.3), (80, 79.1), (96, 94.4), (141, 139.7), (180, 178.3),
)  # fmt: skip
#: Above this share the context of other processes, and fragments, do not fit any more.
_HIGHEST_SHARE = 0.95
_SIZES = (1, 2, 4, 8, 16)
_FEW_REQUESTS = (64, 16)
_SMALL_BATCH = 2048
#: Shorter requests than these are no remedy.
_SHORTEST = 2048


@dataclass(frozen=True, slots=True)
class Remedy:
    """Flags that were tried together. `key` names the text (report/estimate_words.py), `kinds` those of the prices."""

    key: str
    flags: dict[str, FlagValue]
    after: Estimate
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A card of this nominal size holds the launch on so many GPUs."""

    gib: int
    gpus: int


def remedies(found: Estimate, parts: Sequence[Part] | int, options: OptionTable, gpus: int | None) -> list[Remedy]:
    """Single changes that help, cheapest first; when none is enough alone, all of them one upon the other.

    `gpus`: how many there are; None for unknown. An option that the release lacks is not proposed.
    """
    if found.fits is True:
        return []
    single = [remedy for remedy in _each(found, parts, gpus) if _exists(remedy, found.settings, options)]
    enough = [remedy for remedy in single if remedy.after.fits]
    if enough:
        return enough
    return _together(found, parts, single)


def _exists(remedy: Remedy, settings: Settings, options: OptionTable) -> bool:
    for flag, value in remedy.flags.items():
        option = options.lookup(flag, settings.version)
        if option is None or not options.exists(flag, settings.version):
            return False
        if option.choices is not None and isinstance(value, str) and value not in option.choices:
            return False
    return True


def _each(found: Estimate, parts: Sequence[Part] | int, gpus: int | None) -> Iterator[Remedy]:
    """In order of what they cost: more of the GPUs that are there, memory that was left, fewer requests at a time,
    half the bytes of the cache, shorter requests, graphs, half the bytes of the weights."""
    settings, config = found.settings, found.config
    for size in _SIZES:
        if (
            settings.platform == "cuda"
            and size > settings.tp
            and gpus is not None
            and size * settings.pp * settings.dp <= gpus
        ):
            yield from _tried("tp", {"--tensor-parallel-size": str(size)}, replace(settings, tp=size), config, parts)
    share = settings.utilization if settings.utilization is not None else settings.release.utilization
    fixed = settings.kv_bytes is not None or settings.blocks is not None
    if settings.platform == "cuda" and share < _HIGHEST_SHARE and not fixed:
        yield from _tried(
            "share",
            {"--gpu-memory-utilization": str(_HIGHEST_SHARE)},
            replace(settings, utilization=_HIGHEST_SHARE),
            config,
            parts,
        )
    for requests in _FEW_REQUESTS:
        if requests < found.batch.requests:
            yield from _tried(
                "seqs", {"--max-num-seqs": str(requests)}, replace(settings, seqs=requests), config, parts
            )
    if found.batch.tokens > _SMALL_BATCH:
        yield from _tried(
            "batched",
            {"--max-num-batched-tokens": str(_SMALL_BATCH)},
            replace(settings, batched=_SMALL_BATCH),
            config,
            parts,
        )
    if settings.kv_dtype == "auto" and kv_element_bytes(config, settings) > 1:
        yield from _tried("fp8", {"--kv-cache-dtype": "fp8"}, replace(settings, kv_dtype="fp8"), config, parts)
    yield from _shorter(found, parts)
    if not settings.eager and settings.platform == "cuda":
        yield from _tried("eager", {"--enforce-eager": True}, replace(settings, eager=True), config, parts)
    if (
        config.quantization is None
        and settings.quantization is None
        and settings.platform == "cuda"
        and not isinstance(parts, int)
    ):
        yield from _tried(
            "quantization", {"--quantization": "fp8"}, replace(settings, quantization="fp8"), config, parts
        )


def _shorter(found: Estimate, parts: Sequence[Part] | int) -> Iterator[Remedy]:
    """A round number below the longest request that fits for certain."""
    longest = found.longest_range[0]
    step = 1024 if longest >= 16_384 else 256 if longest >= 2048 else 16
    rounded = longest // step * step
    if 16 <= rounded < found.length:
        settings = replace(found.settings, max_len=rounded)
        yield from _tried("length", {"--max-model-len": str(rounded)}, settings, found.config, parts)


def _tried(
    key: str, flags: dict[str, FlagValue], settings: Settings, config: ModelConfig, parts: Sequence[Part] | int
) -> Iterator[Remedy]:
    """Nothing where the release refuses the change."""
    try:
        yield Remedy(key, flags, estimate(config, parts, settings), (key,))
    except UserError:
        return


def _together(found: Estimate, parts: Sequence[Part] | int, single: Sequence[Remedy]) -> list[Remedy]:
    """Changes added one by one until it fits, then those left out again that are not needed, the costliest first;
    nothing when all of them are not enough. Of one kind the last change counts."""
    kinds = {remedy.key: remedy for remedy in single}
    chosen: list[str] = []
    enough: Remedy | None = None
    for key in kinds:
        chosen.append(key)
        enough = _combined(found, parts, [kinds[one] for one in chosen])
        if enough is not None:
            break
    if enough is None:
        return []
    for key in reversed(chosen[:-1]):
        fewer = [one for one in chosen if one != key]
        without = _combined(found, parts, [kinds[one] for one in fewer])
        if without is not None and _length_of(without) >= _length_of(enough):
            chosen, enough = fewer, without
    return [enough]


def _length_of(remedy: Remedy) -> int:
    return remedy.after.length


def _combined(found: Estimate, parts: Sequence[Part] | int, remedies: Sequence[Remedy]) -> Remedy | None:
    """All of these changes in one, if need be with shorter requests; None when that is not enough."""
    settings = found.settings
    flags: dict[str, FlagValue] = {}
    for remedy in remedies:
        field = _FIELDS[remedy.key]
        settings = replace(settings, **{field: getattr(remedy.after.settings, field)})
        flags |= remedy.flags
    for tried in _tried("together", flags, settings, found.config, parts):
        kinds = tuple(remedy.key for remedy in remedies)
        if tried.after.fits:
            return replace(tried, kinds=kinds)
        for short in _shorter(tried.after, parts):
            if short.after.fits and short.after.length >= _SHORTEST:
                return Remedy("together", flags | short.flags, short.after, (*kinds, "length"))
    return None


_FIELDS = {
    "tp": "tp", "share": "utilization", "seqs": "seqs", "batched": "batched", "fp8": "kv_dtype", "length": "max_len",
    "eager": "eager", "quantization": "quantization",
}  # fmt: skip


def cards(found: Estimate, parts: Sequence[Part] | int) -> list[Card]:
    """For each size of card the fewest GPUs (tensor parallel) on which the launch fits for certain."""
    if found.settings.platform != "cuda":
        return []
    rows = []
    for nominal, real in CARDS:
        for size in _SIZES:
            settings = replace(found.settings, gpu_bytes=int(real * GIB), gpu_name="", tp=size, pp=1)
            after = next((remedy.after for remedy in _tried("card", {}, settings, found.config, parts)), None)
            if after is not None and after.fits:
                rows.append(Card(nominal, size))
                break
    return rows
