"""Where the memory went, from the log's figures and the samples."""

from __future__ import annotations

from typing import Any

from vdoctor.model import Facts, GpuSample, Sample

_GIB = 1 << 30
_FROM_LOG = {
    "total": "gpu.total_gib",
    "free_at_start": "gpu.free_gib",
    "requested": "mem.requested_gib",
    "weights": "mem.weights_gib",
    "activation_peak": "mem.activation_gib",
    "kv_cache": "mem.kv_available_gib",
    "cuda_graphs": "mem.graph_gib",
}


class Ledger:
    """Keeps the highest and the latest value of each GPU and of the process tree."""

    def __init__(self) -> None:
        self._first: dict[int, GpuSample] = {}
        self._last: dict[int, GpuSample] = {}
        self._peak: dict[int, int] = {}
        self._rss_peak = 0

    def feed(self, sample: Sample) -> None:
        """Take the next sample."""
        for gpu in sample.gpus:
            self._first.setdefault(gpu.index, gpu)
            self._last[gpu.index] = gpu
            if gpu.memory_used is not None:
                self._peak[gpu.index] = max(self._peak.get(gpu.index, 0), gpu.memory_used)
        if sample.host is not None:
            self._rss_peak = max(self._rss_peak, sample.host.rss)

    def memory(self, facts: Facts) -> dict[str, Any]:
        """GiB: `log` as vLLM stated it for one GPU, `gpus` and `host` as measured."""
        memory: dict[str, Any] = {}
        stated = {name: facts[fact].value for name, fact in _FROM_LOG.items() if fact in facts}
        if stated:
            memory["log"] = stated
        if self._last:
            memory["gpus"] = [self._row(index) for index in sorted(self._last)]
        if self._rss_peak:
            memory["host"] = {"rss_peak": round(self._rss_peak / _GIB, 3)}
        return memory

    def _row(self, index: int) -> dict[str, Any]:
        first, last = self._first[index], self._last[index]
        return {
            "index": index,
            "name": last.name,
            "total": _gib(last.memory_total),
            "used_at_start": _gib(first.memory_used),
            "used": _gib(last.memory_used),
            "used_peak": _gib(self._peak.get(index)),
        }


def _gib(value: int | None) -> float | None:
    return None if value is None else round(value / _GIB, 3)
