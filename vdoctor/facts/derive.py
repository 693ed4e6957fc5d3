"""Numbers for fixes, computed from the log's own figures."""

from __future__ import annotations

import math
from collections.abc import Callable

from packaging.version import Version

from vdoctor.launch.options import parse_version
from vdoctor.model import Fact, Facts, FactValue

_Rule = Callable[[dict[str, FactValue]], FactValue | None]
_DERIVED: list[tuple[str, tuple[str, ...], _Rule]] = []

#: Below this the KV cache of any model worth serving is empty; above 0.98 the CUDA context does not fit.
_LOWEST_UTILIZATION, _HIGHEST_UTILIZATION = 0.3, 0.98


def _derived(name: str, *needs: str) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        _DERIVED.append((name, needs, rule))
        return rule

    return register


def derive(facts: Facts) -> dict[str, Fact]:
    """Facts that follow from `facts`; a fact that is there already is kept."""
    known = dict(facts)
    for name, needs, rule in _DERIVED:
        if name in known or any(need not in known for need in needs):
            continue
        values = {key: fact.value for key, fact in known.items()}
        value = rule(values)
        if value is not None:
            known[name] = Fact(value, "derived")
    return known


def _number(value: FactValue | None) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@_derived("mem.utilization", "vllm.version", "launch.layer")
def _default_utilization(v: dict[str, FactValue]) -> FactValue | None:
    """The command is known and does not set it: the default was 0.90 to 0.18 and is 0.92 from 0.20 on (vllm/config/cache.py)."""
    version = parse_version(str(v["vllm.version"]))
    if version is None:
        return None
    return 0.92 if version >= Version("0.20") else 0.9


@_derived("gpu.used_gib", "gpu.total_gib", "gpu.free_gib")
def _used(v: dict[str, FactValue]) -> FactValue | None:
    total, free = _number(v["gpu.total_gib"]), _number(v["gpu.free_gib"])
    return round(total - free, 2) if total is not None and free is not None and total >= free else None


@_derived("mem.utilization_fits_free", "gpu.total_gib", "gpu.free_gib")
def _fits_free(v: dict[str, FactValue]) -> FactValue | None:
    """vLLM checks free >= total * utilisation: round down to two digits, keep one digit of margin."""
    total, free = _number(v["gpu.total_gib"]), _number(v["gpu.free_gib"])
    if not total or free is None:
        return None
    value = math.floor(free / total * 100 - 1) / 100
    return min(value, _HIGHEST_UTILIZATION) if value >= _LOWEST_UTILIZATION else None


@_derived("gpu.free_share", "gpu.total_gib", "gpu.free_gib")
def _free_share(v: dict[str, FactValue]) -> FactValue | None:
    """vLLM compares free with total * utilisation (v1/worker/utils.py: request_memory)."""
    total, free = _number(v["gpu.total_gib"]), _number(v["gpu.free_gib"])
    return round(free / total, 4) if total and free is not None else None


@_derived("mem.utilization_lower", "mem.utilization")
def _lower(v: dict[str, FactValue]) -> FactValue | None:
    now = _number(v["mem.utilization"])
    value = round(now - 0.05, 2) if now is not None else None
    return value if value is not None and value >= _LOWEST_UTILIZATION else None


@_derived("mem.utilization_higher", "mem.utilization")
def _higher(v: dict[str, FactValue]) -> FactValue | None:
    """With the shortfall in the log, exactly what closes it (plus 1 GiB of cache); else five points."""
    now = _number(v["mem.utilization"])
    if now is None:
        return None
    missing, total = _number(v.get("mem.kv_available_gib")), _number(v.get("gpu.total_gib"))
    value = round(now + 0.05, 2)
    if missing is not None and total and missing <= 0:
        value = math.ceil(round((now + (1.0 - missing) / total) * 100, 6)) / 100
    if value > _HIGHEST_UTILIZATION:
        return None
    free = _number(v.get("gpu.free_gib"))
    return value if free is None or not total or value <= free / total else None


@_derived("kv.estimated_len", "model.max_len", "mem.kv_needed_gib", "mem.kv_available_gib")
def _estimated_len(v: dict[str, FactValue]) -> FactValue | None:
    """Releases that print no estimate: the cache of one request grows in proportion to its length."""
    length, needed, available = (
        _number(v[name]) for name in ("model.max_len", "mem.kv_needed_gib", "mem.kv_available_gib")
    )
    if not length or not needed or not available or not 0 < available < needed:
        return None
    return int(length * available / needed)


@_derived("kv.fit_len", "kv.estimated_len")
def _fit_len(v: dict[str, FactValue]) -> FactValue | None:
    """vLLM's estimate is exact for its blocks; a round number below it survives small changes of free memory."""
    length = _number(v["kv.estimated_len"])
    if length is None or length < 16:
        return None
    step = 256 if length >= 4096 else 16
    return int(length // step * step)


@_derived("driver.cuda_major", "driver.cuda")
def _driver_major(v: dict[str, FactValue]) -> FactValue | None:
    """12040 is CUDA 12.4."""
    value = _number(v["driver.cuda"])
    return int(value) // 1000 if value is not None and value >= 1000 else None


@_derived("cuda.torch_major", "cuda.torch")
def _torch_major(v: dict[str, FactValue]) -> FactValue | None:
    major = str(v["cuda.torch"]).partition(".")[0]
    return int(major) if major.isdecimal() and len(major) < 4 else None


@_derived("tp.valid", "model.heads")
def _valid_sizes(v: dict[str, FactValue]) -> FactValue | None:
    """Query heads must divide; KV heads divide or are replicated whole (vllm/config/model.py).

    With the KV heads unknown only powers of two are listed: every GQA model in use splits by these.
    """
    heads, kv_heads, gpus = (_number(v.get(name)) for name in ("model.heads", "model.kv_heads", "gpu.count"))
    if heads is None or not 1 <= heads <= 4096:
        return None
    most = int(gpus) if gpus else 16
    sizes = [size for size in range(1, most + 1) if heads % size == 0]
    if kv_heads:
        return tuple(size for size in sizes if kv_heads % size == 0 or size % kv_heads == 0)
    return tuple(size for size in sizes if size & (size - 1) == 0)


@_derived("tp.remainder", "model.heads", "tp.size")
def _heads_left(v: dict[str, FactValue]) -> FactValue | None:
    heads, size = _number(v["model.heads"]), _number(v["tp.size"])
    return int(heads) % int(size) if heads and size and size >= 1 else None


@_derived("tp.suggested", "tp.valid", "tp.size")
def _suggested(v: dict[str, FactValue]) -> FactValue | None:
    """No more GPUs than were asked for: more may not be there."""
    size, valid = _number(v["tp.size"]), v["tp.valid"]
    if size is None or not isinstance(valid, tuple):
        return None
    return max((option for option in valid if option <= size), default=None)


@_derived("seqs.lower", "seqs.warmup")
def _fewer_warmup(v: dict[str, FactValue]) -> FactValue | None:
    """1024 is the default of cards of 70 GiB and more since 0.8.5; 256 was the default before."""
    now = _number(v["seqs.warmup"])
    return None if now is None or now < 2 else 256 if now > 256 else int(now) // 2


@_derived("port.next", "port")
def _next_port(v: dict[str, FactValue]) -> FactValue | None:
    port = _number(v["port"])
    return int(port) + 1 if port is not None and 0 < port < 65535 else None


def generation(facts: Facts, v2_runner: bool) -> str | None:
    """`v0`, `v1`, or `v1-mrv2` when Model Runner V2 was seen; None when the log does not tell."""
    if v2_runner:
        return "v1-mrv2"
    fact = facts.get("vllm.generation")
    return str(fact.value) if fact else None
