"""Memory of a server that is ready: GPU memory that swings or grows, host memory that never comes back."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping

from vdoctor.model import Fact, FactValue, HostSample, Sample

_GIB = 1 << 30
#: Loading, first requests and their compilation make the memory of a server grow for a while after it is ready.
_SETTLE_S = 300.0
_LEAK_S, _LEAK_BINS = 1800.0, 6


def named(values: Mapping[str, FactValue], source: str) -> dict[str, Fact]:
    """Values as facts of one source."""
    return {name: Fact(value, source) for name, value in values.items()}


class Drift:
    """GPU and host memory of a server that is ready."""

    def __init__(self) -> None:
        self._ready_at: float | None = None
        self._gpu_first: dict[int, int] = {}
        self._gpu_least: dict[int, int] = {}
        self._gpu_most: dict[int, int] = {}
        self._gpu_free: dict[int, int] = {}
        self._gpu_last: dict[int, int] = {}
        self._rss: deque[tuple[float, int]] = deque(maxlen=20_000)
        self._host: HostSample | None = None

    def feed(self, sample: Sample) -> None:
        """Take a sample of a server that is ready."""
        if self._ready_at is None:
            self._ready_at = sample.t
        for gpu in sample.gpus:
            used, total = gpu.memory_used, gpu.memory_total
            if used is None or total is None or gpu.lost:
                continue
            free = gpu.memory_free if gpu.memory_free is not None else total - used
            self._gpu_first.setdefault(gpu.index, used)
            self._gpu_last[gpu.index] = used
            self._gpu_least[gpu.index] = min(used, self._gpu_least.get(gpu.index, used))
            self._gpu_most[gpu.index] = max(used, self._gpu_most.get(gpu.index, used))
            self._gpu_free[gpu.index] = min(free, self._gpu_free.get(gpu.index, free))
        if sample.host is not None and sample.host.processes:
            self._host = sample.host
            if sample.t >= self._ready_at + _SETTLE_S:
                self._rss.append((sample.t, sample.host.rss))

    @property
    def facts(self) -> dict[str, Fact]:
        """`gpu.swing_gib`, `gpu.growth_gib`, `gpu.headroom_gib` of the GPU with the least room; `host.leak_*`."""
        found: dict[str, FactValue] = {}
        if self._gpu_free:
            tightest = min(self._gpu_free, key=self._gpu_free.__getitem__)
            found["gpu.tightest"] = tightest
            found["gpu.headroom_gib"] = round(self._gpu_free[tightest] / _GIB, 2)
            found["gpu.swing_gib"] = round((self._gpu_most[tightest] - self._gpu_least[tightest]) / _GIB, 2)
            found["gpu.growth_gib"] = round((self._gpu_last[tightest] - self._gpu_first[tightest]) / _GIB, 2)
        found.update(leak(self._rss))
        room = self._room()
        if "host.leak_gib_per_h" in found and room is not None:
            found["host.leak_hours_left"] = round(room / float(found["host.leak_gib_per_h"]), 1)  # type: ignore[arg-type]
        return named(found, "sample")

    def _room(self) -> float | None:
        """GiB until the limit of the cgroup, else of the host."""
        host = self._host
        if host is None:
            return None
        if host.cgroup_limit is not None and host.cgroup_used is not None:
            return max(0, host.cgroup_limit - host.cgroup_used) / _GIB
        return None if host.available is None else host.available / _GIB


def leak(points: Iterable[tuple[float, int]]) -> dict[str, FactValue]:
    """Growth of memory that never gives back: the least use of each sixth of half an hour and more rises every time,
    by a tenth and a GiB in all. `points`: (seconds, bytes)."""
    series = list(points)
    if not series or series[-1][0] - series[0][0] < _LEAK_S:
        return {}
    start, length = series[0][0], (series[-1][0] - series[0][0]) / _LEAK_BINS
    bins: list[list[int]] = [[] for _ in range(_LEAK_BINS)]
    for t, rss in series:
        bins[min(_LEAK_BINS - 1, int((t - start) / length))].append(rss)
    if any(not part for part in bins):
        return {}
    floors = [min(part) for part in bins]
    growth = floors[-1] - floors[0]
    steps = [after - before for before, after in itertools.pairwise(floors)]
    # Steps that fade out are a cache that fills, not a leak.
    if min(steps) <= 0 or steps[-1] < growth / (3 * len(steps)) or growth < max(_GIB, floors[0] / 10):
        return {}
    # The floors are (bins - 1) lengths apart.
    per_hour = growth / _GIB / (length * (_LEAK_BINS - 1)) * 3600
    return {"host.leak_gib_per_h": round(per_hour, 2), "host.leak_minutes": round((series[-1][0] - series[0][0]) / 60)}
