"""How a server fares at one moment: from its periodic log line, or from its /metrics, whatever the release calls them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

#: The periodic line of V0 and V1 (vllm/engine/metrics.py, vllm/v1/metrics/loggers.py, 0.5.5 to 0.33.0).
_LINE = re.compile(
    r"(?:Engine (?P<engine>\d{1,4}): )?Avg prompt throughput: (?P<prompt>[\d.]{1,20}) tokens/s, "
    r"Avg generation throughput: (?P<generation>[\d.]{1,20}) tokens/s, Running: (?P<running>\d{1,9}) reqs, "
    r"(?:Swapped: \d{1,9} reqs, )?(?:Pending|Waiting): (?P<waiting>\d{1,9}) reqs, .{0,250}?"
    r"KV cache usage: (?P<kv>[\d.]{1,8})%"
)
#: Our name -> names in /metrics, the newest first. `_total` is what prometheus-client adds to a counter.
NAMES: Mapping[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "swapped": ("vllm:num_requests_swapped",),
    "kv": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prompt": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "generation": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "ttft_sum": ("vllm:time_to_first_token_seconds_sum",),
    "ttft_count": ("vllm:time_to_first_token_seconds_count",),
    # V1 renamed time_per_output_token (of one token) to inter_token_latency; releases in between have both.
    "itl_sum": ("vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum"),
    "itl_count": ("vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"),
}
#: All names that are worth keeping of the thousands of series of a /metrics page.
KEPT = frozenset(name for names in NAMES.values() for name in names)


@dataclass(frozen=True, slots=True)
class Stats:
    """One moment. Rates in tokens per second, `kv` in percent; `preemptions` so far; latencies are means since the last.

    `ttft` is the time to the first token, `itl` the time from one token to the next, both in seconds.
    """

    t: float
    running: float
    waiting: float
    kv: float
    prompt: float | None = None
    generation: float | None = None
    preemptions: float | None = None
    ttft: float | None = None
    itl: float | None = None


def from_line(text: str, t: float) -> tuple[str, Stats] | None:
    """(engine, stats) of the periodic line, None for other lines. `t`: seconds on the log's clock."""
    found = _LINE.search(text)
    if found is None:
        return None
    try:
        prompt, generation, kv = (float(found[name]) for name in ("prompt", "generation", "kv"))
    except ValueError:
        return None
    return found["engine"] or "", Stats(t, int(found["running"]), int(found["waiting"]), kv, prompt, generation)


class Counters:
    """Turns pages of /metrics into Stats: rates and means come from the growth of counters between two pages."""

    def __init__(self) -> None:
        self._last: tuple[float, dict[str, float]] | None = None

    def feed(self, t: float, metrics: Mapping[str, float]) -> Stats | None:
        """None when the page lacks what every vLLM has (another server, an engine that is not up)."""
        now = {
            ours: metrics[name]
            for ours, names in NAMES.items()
            for name in [next((name for name in names if name in metrics), None)]
            if name is not None and math.isfinite(metrics[name])
        }
        if "running" not in now or "waiting" not in now or "kv" not in now:
            return None
        before, self._last = self._last, (t, now)
        known = before if before is not None and before[0] < t and _grew(before[1], now) else None
        return Stats(
            t,
            now["running"],
            now["waiting"] + now.get("swapped", 0.0),
            now["kv"] * 100,
            _rate(known, t, now, "prompt"),
            _rate(known, t, now, "generation"),
            now.get("preemptions"),
            _mean(known, now, "ttft"),
            _mean(known, now, "itl"),
        )


def _grew(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """Counters that fall belong to a server that was started again."""
    return all(
        now[name] >= before[name] for name in ("prompt", "generation", "preemptions") if name in before and name in now
    )


def _rate(
    before: tuple[float, Mapping[str, float]] | None, t: float, now: Mapping[str, float], name: str
) -> float | None:
    if before is None or name not in before[1] or name not in now:
        return None
    return (now[name] - before[1][name]) / (t - before[0])


def _mean(before: tuple[float, Mapping[str, float]] | None, now: Mapping[str, float], name: str) -> float | None:
    total, count = f"{name}_sum", f"{name}_count"
    if before is None or any(key not in page for key in (total, count) for page in (before[1], now)):
        return None
    number = now[count] - before[1][count]
    return (now[total] - before[1][total]) / number if number > 0 else None
