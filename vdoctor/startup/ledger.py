"""Where every GiB of a GPU went: what the log states beside what was measured, and what neither explains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vdoctor.model import Fact, Facts, GpuProcess, GpuSample, Sample, Xid
from vdoctor.startup.meter import Meter
from vdoctor.startup.timeline import Timeline

_GIB = 1 << 30
_FROM_LOG = {
    "total": "gpu.total_gib",
    "free_at_start": "gpu.free_gib",
    "requested": "mem.requested_gib",
    "non_torch": "mem.non_torch_gib",
    "weights": "mem.weights_gib",
    "activation_peak": "mem.activation_gib",
    "kv_cache": "mem.kv_available_gib",
    "cuda_graphs": "mem.graph_gib",
    "cuda_graphs_estimated": "mem.graph_estimated_gib",
}
#: Parts of the ledger in the order in which they come to a GPU, and the fact that states each.
_PARTS = {
    "before_start": "gpu.used_gib",
    "context_other": "mem.non_torch_gib",
    "weights": "mem.weights_gib",
    "kv_cache": "mem.kv_available_gib",
    "cuda_graphs": "mem.graph_gib",
}
#: No server allocates within its first seconds: imports come first.
_IMPORTS_SECONDS = 2.0
#: After ready the sampler's warm-up may still allocate.
_SETTLED_SECONDS = 5.0
#: Xid numbers that mean the GPU, its memory, firmware or links; the others (13, 31, 43, 45 ...) mostly mean a program.
#: https://docs.nvidia.com/deploy/xid-errors/
HARDWARE_XIDS = frozenset(
    (48, 61, 62, 64, 74, 79, 92, 94, 95, 109, 110, 119, 120, 123, 136, 140, *range(142, 152), *range(154, 159))
)
_Key = tuple[int, str | None]


class Ledger:
    """Fed with samples; asked for `memory` and `facts` at any time."""

    def __init__(self, timeline: Timeline) -> None:
        """`timeline` tells which moment belongs to which phase."""
        self._timeline = timeline
        self._meters: dict[_Key, Meter] = {}
        self._rss_peak = 0
        self._tree: set[int] = set()
        self._roles: dict[int, str] = {}
        self._settled: float | None = None
        self._lost: GpuSample | None = None
        self._xids: list[Xid] = []
        self.source = "nvml"
        #: Whether the samples run on the clock of the lines; else only what needs no phases is told.
        self.aligned = True

    def feed(self, sample: Sample) -> None:
        """Take the next sample."""
        keep = not self._is_settled(sample.t)
        for gpu in sample.gpus:
            # Slices of one card share its index.
            self._meters.setdefault((gpu.index, gpu.uuid), Meter()).feed(sample.t, gpu, keep)
            if gpu.lost and self._lost is None:
                self._lost = gpu
        self._xids += sample.xids[: 16 - len(self._xids)] if len(self._xids) < 16 else ()
        if sample.host is not None:
            self._rss_peak = max(self._rss_peak, sample.host.rss)
            for process in sample.host.tree:
                self._tree.add(process.pid)
                if process.role:
                    self._roles[process.pid] = process.role

    def _is_settled(self, t: float) -> bool:
        """Long after ready nothing of the start is left to see."""
        if not self._timeline.ready:
            self._settled = None
        elif self._settled is None:
            self._settled = self._end("runtime.ready", first=True)
        return self._settled is not None and t > self._settled + _SETTLED_SECONDS

    # ------------------------------------------------------------------ answers

    def memory(self, facts: Facts) -> dict[str, Any]:
        """GiB: `log` as vLLM stated it for one GPU; `gpus` and `host` as measured, each GPU with its ledger."""
        memory: dict[str, Any] = {}
        stated = {name: facts[fact].value for name, fact in _FROM_LOG.items() if fact in facts and _of_log(facts[fact])}
        if stated:
            memory["log"] = stated
        rows = [self._row(meter, facts) for _, meter in self._sorted() if meter.first is not None]
        if rows:
            memory["gpus"] = rows
        if self._rss_peak:
            memory["host"] = {"rss_peak": round(self._rss_peak / _GIB, 3)}
        return memory

    def facts(self) -> dict[str, Fact]:
        """What samples tell that rules ask for; source `nvml` or `gpu-log`."""
        found: dict[str, Any] = {}
        meters = [meter for _, meter in self._sorted() if meter.last is not None]
        names = {meter.last.name for meter in meters if meter.last is not None and meter.last.name}
        if len(names) == 1:
            found["gpu.name"] = names.pop()
        held = [(before, meter) for meter in meters if (before := self._before(meter)) is not None]
        if held:
            most, meter = max(held, key=lambda one: one[0])
            found["gpu.in_use_gib"] = round(most / _GIB, 2)
            holders = tuple(_told(one) for one in self._holders(meter) if one.memory)
            if holders:
                found["gpu.holders"] = holders
        graphs = [rise for meter in meters if (rise := self._rise(meter, "graph_capture.capture")) is not None]
        if graphs:
            found["mem.graph_measured_gib"] = round(max(graphs) / _GIB, 2)
        if self._lost is not None:
            found["gpu.lost"] = self._lost.index
            if self._lost.fault:
                found["gpu.fault"] = self._lost.fault
        if self._xids:
            xid = next((one for one in self._xids if one.code in HARDWARE_XIDS), self._xids[0])
            found["gpu.xid"], found["gpu.xid_gpu"] = xid.code, xid.gpu
        return {name: Fact(value, self.source) for name, value in found.items()}

    def _sorted(self) -> Iterable[tuple[_Key, Meter]]:
        return sorted(self._meters.items(), key=lambda item: (item[0][0], item[0][1] or ""))

    def _row(self, meter: Meter, facts: Facts) -> dict[str, Any]:
        first, last = meter.first, meter.last
        assert first is not None
        assert last is not None
        row: dict[str, Any] = {
            "index": last.index,
            "name": last.name,
            "uuid": last.uuid,
            "total": _gib(meter.total),
            "used_at_start": _gib(first.memory_used),
            "used": _gib(last.memory_used),
            "used_peak": _gib(meter.peak),
            "parts": self._parts(meter, facts),
            "holders_at_start": [self._named(one) for one in self._holders(meter)],
            "processes": [self._named(one) for one in meter.listing] if meter.listing is not None else None,
        }
        row |= self._sums(meter, row["parts"])
        for flag in ("lost", "unified"):
            if getattr(last, flag):
                row[flag] = True
        return row

    def _parts(self, meter: Meter, facts: Facts) -> dict[str, Any]:
        """`{"log", "measured"}` of each part; null where it was not stated or cannot be told apart."""
        before, loading = self._before(meter), self._used_when(meter, "weight_load")
        measured: dict[str, int | None] = {
            "before_start": before,
            "context_other": loading - before if loading is not None and before is not None else None,
            "weights": self._rise(meter, "weight_load"),
            "activation_peak": self._activation(meter),
            "kv_cache": self._rise(meter, "kv_init.allocate"),
            "cuda_graphs": self._rise(meter, "graph_capture.capture"),
        }
        # Pipeline stages differ: what the first of them printed holds for no other.
        shared = "pp.size" not in facts or facts["pp.size"].value == 1
        parts: dict[str, Any] = {}
        for name, fact in {**_PARTS, "activation_peak": "mem.activation_gib"}.items():
            stated = facts[fact].value if fact in facts and _of_log(facts[fact]) and shared else None
            parts[name] = {"log": stated if isinstance(stated, int | float) else None, "measured": _gib(measured[name])}
        return parts

    def _sums(self, meter: Meter, parts: dict[str, Any]) -> dict[str, Any]:
        """What is left: free, kept by the driver, and the remainder that no part explains."""
        t = self._as_of(meter)
        used = meter.at(t) if t is not None else None
        ready = self._timeline.ready
        reserved = meter.reserved
        free = meter.total - used - (reserved or 0) if meter.total is not None and used is not None else None
        rest = None
        if ready and used is not None:
            rest = used / _GIB
            for name in _PARTS:
                part = parts[name]
                # The log's figure for what vLLM counts itself; the meter's for what it counts in part or not at all.
                order = ("log", "measured") if name in ("weights", "kv_cache") else ("measured", "log")
                value = next((part[key] for key in order if part[key] is not None), None)
                if value is None and name == "cuda_graphs" and not self._window(name="graph_capture.capture"):
                    value = 0.0
                rest = rest - value if rest is not None and value is not None else None
        return {
            "as_of": ("ready" if ready else "peak") if used is not None else None,
            "in_use": _gib(used),
            "unexplained": round(rest, 3) if rest is not None else None,
            "reserved": _gib(reserved),
            "free": _gib(free),
        }

    # ------------------------------------------------------------------ moments

    def _as_of(self, meter: Meter) -> float | None:
        """The moment that the ledger shows: when the server had settled, else when the most was in use."""
        if not self.aligned or not self._timeline.ready:
            return meter.peak_time()
        ready, end = self._end("runtime.ready", first=True), meter.last_time()
        if ready is None or end is None:
            return None
        return min(ready + _SETTLED_SECONDS, max(end, ready))

    def _before(self, meter: Meter) -> int | None:
        """In use before the server touched the GPU: at its first line, or during its imports."""
        begin, origin = meter.begin(), self._timeline.origin
        if begin is None:
            return None
        if self.aligned and origin is not None and (used := meter.at(origin)) is not None:
            return used
        # Samples of a watch count from the launch; a recording that begins later tells nothing of before.
        return meter.at(begin) if self.aligned and begin <= _IMPORTS_SECONDS else None

    def _holders(self, meter: Meter) -> list[GpuProcess]:
        """Who held memory before the start."""
        if meter.holders is None or self._before(meter) is None:
            return []
        t, processes = meter.holders
        if t > max(_IMPORTS_SECONDS, self._timeline.origin or 0.0):
            return []
        return sorted((p for p in processes if p.pid not in self._tree), key=lambda p: -(p.memory or 0))

    def _used_when(self, meter: Meter, phase: str) -> int | None:
        window = self._window(phase)
        return meter.at(window[0]) if window else None

    def _rise(self, meter: Meter, name: str) -> int | None:
        """How much more was in use after a step or phase than before it."""
        window = self._window(name)
        if window is None or window[1] is None:
            return None
        start, end = meter.at(window[0]), meter.end(window[1])
        return end - start if start is not None and end is not None else None

    def _activation(self, meter: Meter) -> int | None:
        """The peak of the profile run above the loaded weights; it ends where the KV cache is sized."""
        phase, sized = self._window("kv_init"), self._window("kv_init.allocate")
        if phase is None or sized is None:
            return None
        start, most = meter.at(phase[0]), meter.most(phase[0], sized[0])
        return max(0, most - start) if start is not None and most is not None else None

    def _window(self, name: str) -> tuple[float, float | None] | None:
        """From the first process that entered a step (or phase) to the last that left it."""
        origin = self._timeline.origin
        if origin is None or not self.aligned:
            return None
        if "." not in name:
            found = [(phase.start, phase.end) for phase in self._timeline.phases() if phase.phase == name]
        else:
            found = [(span.start, span.end) for span in self._timeline.spans() if span.step == name]
        starts = [start for start, _ in found if start is not None]
        if not starts:
            return None
        ends = [end for _, end in found if end is not None]
        return origin + min(starts), origin + max(ends) if ends and len(ends) == len(found) else None

    def _end(self, step: str, *, first: bool) -> float | None:
        window = self._window(step)
        return window[0 if first else 1] if window else None

    def _named(self, process: GpuProcess) -> dict[str, Any]:
        name = self._roles.get(process.pid) or process.name
        return {"pid": process.pid, "name": name, "gib": _gib(process.memory)}


def _told(process: GpuProcess) -> str:
    """As nvidia-smi's table is read: `python (pid 4711) 12000 MiB`."""
    return f"{process.name or 'process'} (pid {process.pid}) {(process.memory or 0) >> 20} MiB"


def _of_log(fact: Fact) -> bool:
    """Stated by vLLM, or computed from such; not measured."""
    return fact.source not in ("nvml", "gpu-log")


def _gib(value: int | None) -> float | None:
    return None if value is None else round(value / _GIB, 3)
