"""Layers that share a block table, and what the pool of blocks holds: vLLM's arithmetic of each release.

Source of every sum: vllm/v1/core/kv_cache_utils.py of the release.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vdoctor.budget.pages import Page, up
from vdoctor.budget.settings import Release, Settings
from vdoctor.errors import UserError


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table: index of each layer and its page."""

    layers: tuple[int, ...]
    pages: tuple[Page, ...]

    def bytes_on(self, mine: frozenset[int]) -> int:
        """One block of the layers that a rank has."""
        return sum(page.bytes for layer, page in zip(self.layers, self.pages, strict=True) if layer in mine)

    def blocks(self, length: int, flight: int, settings: Settings) -> int:
        """Blocks of a request of `length` tokens: the layer that needs most decides."""
        return max(page.blocks(length, flight, settings) for page in self.pages)


@dataclass(frozen=True, slots=True)
class Pool:
    """All groups of a model, and the layers of each rank of the pipeline."""

    groups: tuple[Group, ...]
    stages: tuple[frozenset[int], ...]
    settings: Settings
    batched: int

    @property
    def flight(self) -> int:
        """Tokens in flight: one batch, from 0.28 one of each step that may run at the same time
        (max_in_flight_tokens in vllm/config/vllm.py)."""
        return self.batched * steps_in_flight(self.settings)

    def block_bytes(self, stage: int) -> int:
        """One block of the pool on a rank: groups overlay each other, the largest decides."""
        return max((group.bytes_on(self.stages[stage]) for group in self.groups), default=0)

    def request_blocks(self, length: int) -> int:
        """Blocks that one request of this length takes from the pool."""
        return sum(group.blocks(length, self.flight, self.settings) for group in self.groups)

    def block_count(self, budgets: Sequence[int]) -> int:
        """Blocks for the bytes of each stage: the poorest rank decides."""
        if self.settings.blocks is not None:
            return self.settings.blocks
        counts = [budget // bytes_ for stage, budget in enumerate(budgets) if (bytes_ := self.block_bytes(stage))]
        return max(min(counts, default=0), 0)

    def tokens(self, blocks: int, length: int) -> int:
        """The number that vLLM prints as "KV cache size: N tokens"."""
        rule = self.settings.release.tokens_rule
        if rule == "requests":
            return int(blocks / self.request_blocks(length) * length)
        smallest = min(page.block_size for group in self.groups for page in group.pages)
        return blocks // len(self.groups) * smallest

    def concurrency(self, blocks: int, length: int) -> float:
        """The number that vLLM prints as "Maximum concurrency": requests of this length that fit."""
        if self.settings.release.tokens_rule == "blocks":
            return self.tokens(blocks, length) / length
        return blocks / self.request_blocks(length)

    def needed_blocks(self, length: int) -> int:
        """Blocks without which vLLM refuses to start: one request, and from 0.30 the block that is held back."""
        return self.request_blocks(length) + self.settings.release.keeps_null_block

    def longest(self, blocks: int, limit: int) -> int:
        """The longest request up to `limit` tokens that fits into that many blocks; 0 when none does."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed_blocks(middle) <= blocks:
                low = middle
            else:
                high = middle - 1
        return low

    @property
    def growth_bytes(self) -> tuple[int, ...]:
        """Bytes by which the cache of a request grows with each token beyond all windows, per stage.

        When every layer has a window: with each token within it.
        """
        growing = [group for group in self.groups if any(page.keeps_everything for page in group.pages)]
        growing = growing or [group for group in self.groups if group.pages[0].kind != "state"]
        return tuple(
            sum(self.block_bytes(stage) // group.pages[0].block_size for group in growing)
            for stage in range(len(self.stages))
        )


def steps_in_flight(settings: Settings) -> int:
    """How many batches may be in flight whose tokens windows must keep."""
    if not settings.release.counts_steps_in_flight:
        return 1
    overlapped = settings.async_scheduling
    if overlapped is None:
        overlapped = settings.platform != "cpu"
    return settings.pp + 1 if overlapped else settings.pp


def group_pages(pages: Sequence[Page], settings: Settings) -> tuple[Group, ...]:
    """The groups that a release makes of a model's layers; UserError where the release refuses the model."""
    release = settings.release
    if not pages:
        return ()
    local = any(page.kind in ("window", "chunk") for page in pages)
    if local and not _manages_hybrids(pages, settings):
        pages = _without_hybrids(pages)
    if release.version.release < (0, 11) and len({page.bytes for page in pages}) > 1:
        raise UserError(
            f"vLLM {release.version} has no cache for layers of different sizes",
            "use vLLM 0.12 or later for this model",
        )
    if _alike(pages):
        return (Group(tuple(range(len(pages))), tuple(pages)),)
    if release.tokens_rule == "blocks":
        raise UserError(
            f"vLLM {release.version} has no cache for layers of different kinds", "use vLLM 0.9 or later for this model"
        )
    return _uniform_groups(_same_bytes(pages, release), release)


def _manages_hybrids(pages: Sequence[Page], settings: Settings) -> bool:
    """The hybrid manager is on unless switched off; never in 0.8; off for chunked attention by default."""
    if settings.hybrid_manager is not None:
        return settings.hybrid_manager
    chunked = any(page.kind == "chunk" for page in pages)
    return settings.release.tokens_rule != "blocks" and not chunked


def _without_hybrids(pages: Sequence[Page]) -> list[Page]:
    """Local layers beside full ones count as full ones. Alone they stay what they are."""
    full = [page.block_size for page in pages if page.keeps_everything]
    if not full:
        return list(pages)
    return [page.as_full(full[0]) if page.kind in ("window", "chunk") else page for page in pages]


def _alike(pages: Sequence[Page]) -> bool:
    """Whether all layers need the same number of tokens of room, so that one table serves them."""
    first = pages[0]
    if len({page.block_size for page in pages}) > 1:
        return False
    if first.keeps_everything:
        return all(page.keeps_everything for page in pages)
    if first.kind == "state":
        return all(page.kind == "state" and page.bytes == first.bytes for page in pages)
    return all(page.kind == first.kind and page.span == first.span for page in pages)


def _same_bytes(pages: Sequence[Page], release: Release) -> list[Page]:
    """Pages of one size: smaller ones hold more tokens, or are padded."""
    largest = max(page.bytes for page in pages)
    same: list[Page] = []
    for page in pages:
        if page.bytes == largest:
            same.append(page)
        elif page.kind == "state":
            same.append(replace(page, padded=largest))
        elif largest % page.bytes == 0 and release.scales_blocks:
            same.append(page.with_block(page.block_size * (largest // page.bytes)))
        elif release.pads_pages and page.kind != "mla":
            same.append(replace(page, padded=largest))
        else:
            raise UserError(
                f"vLLM {release.version} cannot share one pool between pages of {page.bytes} and {largest} bytes",
                "layers of this model keep caches of sizes that do not divide: use a newer release",
            )
    return same


def _uniform_groups(pages: Sequence[Page], release: Release) -> tuple[Group, ...]:
    """Kinds of layers cut into groups of equal count; what is left over is padded with layers that do not exist."""
    kinds: dict[Page, list[int]] = defaultdict(list)
    for index, page in enumerate(pages):
        kinds[page].append(index)
    counts = [len(layers) for layers in kinds.values()]
    size = min(counts)
    if max(counts) < size * release.group_slack:
        size = max(counts)
    groups = []
    for page, layers in kinds.items():
        number = up(len(layers), size)
        parts: Iterable[list[int]] = (layers[start::number] for start in range(number))
        if release.version.release < (0, 11):
            parts = (layers[start : start + size] for start in range(0, len(layers), size))
        groups += [Group(tuple(part), (page,) * len(part)) for part in parts]
    return tuple(groups)


def stages_of(layers: int, pp: int) -> tuple[frozenset[int], ...]:
    """The layers of each rank of the pipeline (get_pp_indices in vllm/distributed/utils.py): what does not divide
    goes, one each, to the ranks before the last, from behind."""
    share, rest = divmod(layers, pp)
    sizes = [share] * pp
    for at in range(2, rest + 2):
        sizes[-at] += 1
    starts = [sum(sizes[:at]) for at in range(pp)]
    return tuple(frozenset(range(start, start + size)) for start, size in zip(starts, sizes, strict=True))
