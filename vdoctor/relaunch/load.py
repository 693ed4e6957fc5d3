"""A short fixed load: how fast is the server now? The same for every trial, so that two can be compared."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Fixed, so that numbers compare: requests at once, rounds of them, tokens in each answer.
CONCURRENT, ROUNDS, TOKENS = 4, 2, 32
_PROMPT = "The quick brown fox jumps over the lazy dog. " * 4


@dataclass(frozen=True, slots=True)
class Measured:
    """Tokens per second of all requests together; seconds of one request, median and longest."""

    tokens_per_second: float
    latency: float
    slowest: float
    requests: int


def measure(complete: Callable[[dict[str, Any]], Any], clock: Callable[[], float] = time.monotonic) -> Measured | None:
    """Run the load; `complete` posts a completion and gives the answer's body. None when a request fails."""
    body = {"prompt": _PROMPT, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    complete({**body, "max_tokens": 2})
    done: list[tuple[float, int]] = []

    def one() -> None:
        begun = clock()
        tokens = _tokens(complete(body))
        if tokens:
            done.append((clock() - begun, tokens))

    begun = clock()
    for _ in range(ROUNDS):
        threads = [threading.Thread(target=one, daemon=True) for _ in range(CONCURRENT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    took = clock() - begun
    if len(done) < CONCURRENT * ROUNDS or took <= 0:
        return None
    times = [seconds for seconds, _ in done]
    total = sum(tokens for _, tokens in done)
    return Measured(round(total / took, 1), round(statistics.median(times), 3), round(max(times), 3), len(done))


def _tokens(answer: Any) -> int:
    usage = answer.get("usage") if isinstance(answer, dict) else None
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) else 0
