"""The GPUs of this machine, their driver, and who holds their memory, through NVML."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import psutil

from vdoctor.live.probe.finding import Seen

_GIB = 1 << 30
#: Holders below this are desktop helpers and contexts without data.
_WORTH_NAMING = 64 << 20


def gpus(visible: str | None) -> Seen:
    """Facts about the GPUs that the launch would see; `visible` is its CUDA_VISIBLE_DEVICES."""
    seen = Seen()
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:
        seen.miss("gpu", f"NVML: {error}")
        if type(error).__name__ == "NVMLError_LibraryNotFound":
            seen.add("driver.missing", "libnvidia-ml.so.1", "probe:loader")
        return seen
    try:
        _driver(seen, pynvml)
        handles = _handles(pynvml)
        seen.add("gpu.present", len(handles), "nvml")
        _devices(seen, pynvml, _visible(seen, pynvml, handles, visible))
    finally:
        _try(pynvml.nvmlShutdown)
    return seen


def _driver(seen: Seen, nvml: ModuleType) -> None:
    seen.add("driver.version", _text(_try(nvml.nvmlSystemGetDriverVersion)), "nvml")
    cuda = _try(nvml.nvmlSystemGetCudaDriverVersion_v2)
    # 12040 is CUDA 12.4, the form in which torch prints it, too.
    seen.add("driver.cuda", int(cuda) if cuda else None, "nvml")


def _handles(nvml: ModuleType) -> list[Any]:
    count = _try(nvml.nvmlDeviceGetCount) or 0
    return [handle for index in range(count) if (handle := _try(nvml.nvmlDeviceGetHandleByIndex, index)) is not None]


def _visible(seen: Seen, nvml: ModuleType, handles: list[Any], visible: str | None) -> list[Any]:
    """The devices behind CUDA_VISIBLE_DEVICES, as CUDA reads it: the first entry that is none ends the list."""
    if visible is None:
        return handles
    uuids = [_text(_try(nvml.nvmlDeviceGetUUID, handle)) or "" for handle in handles]
    chosen: list[Any] = []
    for entry in (part.strip() for part in visible.split(",") if part.strip()):
        matches = [at for at, uuid in enumerate(uuids) if entry.startswith("GPU-") and uuid.startswith(entry)]
        if entry.lstrip("+").isdecimal() and int(entry) < len(handles):
            matches = [int(entry)]
        if entry.startswith("MIG-"):
            seen.miss("gpu", f"{entry}: a MIG instance; its size is not read")
            return []
        if len(matches) != 1:
            seen.add("gpu.visible_wrong", entry, "CUDA_VISIBLE_DEVICES")
            break
        chosen.append(handles[matches[0]])
    return chosen


def _devices(seen: Seen, nvml: ModuleType, handles: list[Any]) -> None:
    seen.add("gpu.count", len(handles), "nvml")
    if not handles:
        return
    seen.add("gpu.name", _text(_try(nvml.nvmlDeviceGetName, handles[0])), "nvml")
    capabilities = [_try(nvml.nvmlDeviceGetCudaComputeCapability, handle) for handle in handles]
    known = [int(one[0]) * 10 + int(one[1]) for one in capabilities if one is not None]
    seen.add("gpu.cc", min(known, default=None), "nvml")
    memories = [memory for handle in handles if (memory := _try(nvml.nvmlDeviceGetMemoryInfo, handle)) is not None]
    if memories:
        fullest = min(memories, key=lambda memory: int(memory.free))
        seen.add("gpu.total_gib", round(int(fullest.total) / _GIB, 2), "nvml")
        seen.add("gpu.free_gib", round(int(fullest.free) / _GIB, 2), "nvml")
        seen.add("gpu.in_use_gib", round(int(fullest.used) / _GIB, 2), "nvml")
    names = tuple(holder for handle in handles for holder in _holders(nvml, handle))
    seen.add("gpu.holders", tuple(dict.fromkeys(names)) or None, "nvml")
    if any((_try(nvml.nvmlDeviceGetTotalEccErrors, handle, 1, 0) or 0) > 0 for handle in handles):
        seen.add("gpu.ecc", True, "nvml")


def _holders(nvml: ModuleType, handle: Any) -> list[str]:
    """`VLLM::EngineCore (pid 812, 20.1 GiB, user ann, since 2 h)`."""
    found = []
    for process in _try(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ():
        memory = getattr(process, "usedGpuMemory", None)
        if memory is None or memory >= _WORTH_NAMING:
            found.append(_holder(int(process.pid), memory))
    return found


def _holder(pid: int, memory: int | None) -> str:
    parts = [f"pid {pid}"]
    if memory:
        parts.append(f"{memory / _GIB:.1f} GiB")
    name = "a process of another container"
    try:
        process = psutil.Process(pid)
        name = (process.cmdline() or [process.name()])[0]
        hours = (time.time() - process.create_time()) / 3600
        parts += [f"user {process.username()}", f"for {hours:.0f} h" if hours >= 1 else f"for {hours * 60:.0f} min"]
        if process.ppid() == 1 and "VLLM" in name:
            parts.append("left over: its parent is gone")
    except (psutil.Error, KeyError):
        pass
    return f"{name} ({', '.join(parts)})"


def _try(function: Callable[..., Any], *arguments: Any) -> Any:
    """None for what this driver or GPU does not support."""
    try:
        return function(*arguments)
    except Exception:
        return None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
