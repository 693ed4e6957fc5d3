"""How many tokens and requests a step may hold: the defaults of `vllm serve`."""

from __future__ import annotations

from dataclasses import dataclass

from vdoctor.budget.settings import GIB, Settings


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of one step (--max-num-batched-tokens) and requests at a time (--max-num-seqs)."""

    tokens: int
    requests: int


def batch_of(settings: Settings, length: int) -> Batch:
    """get_batch_defaults and what follows it in vllm/engine/arg_utils.py.

    Large cards (70 GiB, not A100) take 8192 tokens and 1024 requests, from 0.28 those of 160 GiB 16384; others 2048
    and 256. The CPU build takes 2048 and 128 for each rank. An unknown card counts as a small one.
    """
    memory = settings.gpu_bytes or 0
    large = memory >= 70 * GIB and "a100" not in settings.gpu_name.lower()
    tokens, requests = (8192, 1024) if large else (2048, 256)
    if settings.platform == "cpu":
        tokens, requests = 2048 * settings.world, 128 * settings.world
    elif memory >= 160 * GIB and settings.release.huge_batch:
        tokens = 16384
    requests = settings.seqs or requests
    if settings.batched:
        return Batch(settings.batched, min(requests, settings.batched))
    tokens = min(tokens, requests * length)
    return Batch(tokens, min(requests, tokens))
