"""The GPUs of the launch before it starts: what is asked once, where Nvml.samples() asks again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import byref
from dataclasses import dataclass
from itertools import combinations
from types import ModuleType
from typing import Any

from vdoctor.live.visible import Device

Ask = Callable[..., Any]
#: What NVML calls the states of the NVLink fabric of machines with NVSwitch (nvml.h: nvmlGpuFabricState_t).
_FABRIC = {1: "not started", 2: "in progress", 3: "completed"}
_P2P_NVLINK = 2


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU or a slice of one. Memory in bytes, `capability` times ten; None for what the driver does not tell.

    `holders`: process id and bytes (None: not told) of whatever computes on it.
    """

    device: Device
    total: int | None
    free: int | None
    capability: int | None
    holders: tuple[tuple[int, int | None], ...]
    ecc_errors: int | None
    persistence: bool | None
    fabric: str | None


def read_card(lib: ModuleType, ask: Ask, device: Device, handle: Any, memory: tuple[int | None, int | None]) -> Card:
    """One card; `ask` answers None for what this driver or GPU does not support."""
    capability = ask(lib.nvmlDeviceGetCudaComputeCapability, handle)
    persistence = ask(lib.nvmlDeviceGetPersistenceMode, handle)
    running = ask(lib.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    kind, counter = lib.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, lib.NVML_VOLATILE_ECC
    return Card(
        device=device,
        total=memory[0],
        free=memory[1],
        capability=int(capability[0]) * 10 + int(capability[1]) if capability else None,
        holders=tuple((int(one.pid), one.usedGpuMemory) for one in running),
        ecc_errors=ask(lib.nvmlDeviceGetTotalEccErrors, handle, kind, counter),
        persistence=None if persistence is None else bool(persistence),
        fabric=_fabric(lib, ask, handle),
    )


def _fabric(lib: ModuleType, ask: Ask, handle: Any) -> str | None:
    """None where there is no such fabric, or the driver does not know the question."""
    kind = getattr(lib, "c_nvmlGpuFabricInfo_t", None)
    if kind is None:
        return None
    info = kind()
    done = ask(lib.nvmlDeviceGetGpuFabricInfo, handle, byref(info))
    return _FABRIC.get(int(info.state)) if done is not None else None


def link(lib: ModuleType, ask: Ask, handles: Sequence[Any]) -> str | None:
    """`nvlink` when it joins every pair of these GPUs, `mixed` when some, `pcie` when none; None for unknown."""
    answers = [ask(lib.nvmlDeviceGetP2PStatus, one, two, _P2P_NVLINK) for one, two in combinations(handles, 2)]
    if not answers or None in answers:
        return None
    joined = sum(answer == 0 for answer in answers)
    return "nvlink" if joined == len(answers) else "mixed" if joined else "pcie"
