"""What one layer keeps in the cache, and how many blocks of it a request needs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Literal

from vdoctor.budget.settings import Settings

Kind = Literal["full", "mla", "window", "chunk", "state", "cross"]


def up(number: int, by: int) -> int:
    """Division that rounds up."""
    return -(-number // by)


@dataclass(frozen=True, slots=True)
class Page:
    """The cache of one layer on one rank.

    `token_bytes`: one token in this layer; for a state, the whole state of a request. `span`: tokens of the window or
    chunk. `geometry` tells apart layers whose bytes are equal by chance. `padded`: bytes that the page is stretched to.
    """

    kind: Kind
    token_bytes: int
    block_size: int
    geometry: Hashable = None
    span: int = 0
    padded: int = 0
    checkpoints: int = 0

    @property
    def bytes(self) -> int:
        """One block of this layer."""
        return self.padded or self.content

    @property
    def content(self) -> int:
        """One block without padding."""
        return self.token_bytes if self.kind == "state" else self.token_bytes * self.block_size

    @property
    def keeps_everything(self) -> bool:
        """Whether the layer needs room for every token of a request."""
        return self.kind in ("full", "mla")

    def with_block(self, block_size: int) -> Page:
        """The same layer with more tokens in a block."""
        return replace(self, block_size=block_size)

    def as_full(self, block_size: int) -> Page:
        """A local layer counted as one that keeps everything: what happens without the hybrid cache manager."""
        return replace(self, kind="full", block_size=block_size)

    def blocks(self, length: int, flight: int, settings: Settings) -> int:
        """Blocks that one request of `length` tokens holds at most.

        `flight`: tokens that may be scheduled and not yet settled. The sums are those of max_memory_usage_bytes
        of each kind in vllm/v1/kv_cache_interface.py.
        """
        if self.kind == "window":
            return up(min(self.span - 1 + flight, length), self.block_size) + 1
        if self.kind == "chunk":
            return up(min(self.span + flight, length), self.block_size)
        if self.kind == "cross":
            return up(self.span, self.block_size)
        if self.kind == "state":
            extra = settings.speculative_tokens
            aligned = settings.prefix_caching if settings.prefix_caching is not None else settings.release.states_cached
            return (2 + extra + self.checkpoints) if aligned else 1 + extra
        return up(length, self.block_size)
