"""The only user of pynvml. Every field may be missing; a GPU that stops answering gives a row that says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

from vdoctor.intake.gpu_log import SLOWING
from vdoctor.live import procfs
from vdoctor.live.cards import Card, link, read_card
from vdoctor.live.visible import Device, visible
from vdoctor.model import GpuProcess, GpuSample, Xid

T = TypeVar("T")

#: Memory and utilisation cost the driver microseconds and are asked at each call. Power, clock reasons and the list of
#: processes cost a millisecond. The PCIe counters are measured over 20 ms each while the caller waits, and error
#: counts hardly change. At each call at most one GPU is asked for more than the cheap ones.
_SELDOM_SECONDS, _RARE_SECONDS = 2.0, 5.0
#: A GPU that is gone makes each question last (the driver waits for it): asked so often whether it is back.
_LOST_SECONDS = 5.0
#: So many calls in a row without an answer, from a GPU that did answer, mean that it is not there any more.
_SILENT_CALLS = 5
#: NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED: the driver itself says that the GPU failed.
_GONE = (15, 16)
_NOT_SUPPORTED, _NO_LIBRARY, _UNKNOWN = 3, 12, 999
#: Not supported, no permission, function not found, unknown to this version: about the question, not about the GPU.
_QUESTION = (2, _NOT_SUPPORTED, 4, 13, 25)


@dataclass(slots=True)
class _Gpu:
    device: Device
    handle: Any
    ours: bool = True
    has_memory: bool = False
    answered: bool = False
    silent: int = 0
    lost: bool = False
    fault: str | None = None
    seldom_due: float = 0.0
    rare_due: float = 0.0
    lost_due: float = 0.0
    faults: list[tuple[int, str]] = field(default_factory=list)


class Nvml:
    """An open NVML, or none: `samples` is empty where there is no NVIDIA driver, and `error` says why."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env`: the launch's environment, which decides which GPUs are looked at; None: all of them."""
        self._lib: ModuleType | None = None
        self._gpus: list[_Gpu] = []
        self._events: Any = None
        self._names: dict[int, str | None] = {}
        self.error: str | None = None
        self.no_library = False
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception as error:
            # pynvml raises its own NVMLError for a missing library, and OSError for a broken one.
            self.error = str(error)
            self.no_library = getattr(error, "value", None) == _NO_LIBRARY
            return
        self._lib = pynvml
        for index in range(self._ask(pynvml.nvmlDeviceGetCount) or 0):
            handle = self._ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                self._gpus += self._slices(index, handle)
        self.choose(env)

    @property
    def there(self) -> bool:
        """Whether there is any GPU, the launch's or not."""
        return bool(self._gpus)

    def choose(self, env: Mapping[str, str] | None) -> None:
        """Look only at the GPUs that a process with this environment gets."""
        chosen = visible(env or {}, [gpu.device for gpu in self._gpus])
        for gpu in self._gpus:
            gpu.ours = gpu.device in chosen

    def samples(self) -> tuple[GpuSample, ...]:
        """One row for each of the launch's GPUs: memory in bytes, utilisation in percent, now and then the rest."""
        if self._lib is None:
            return ()
        rows = []
        more = True
        for gpu in self._gpus:
            if not gpu.ours or (gpu.lost and time.monotonic() < gpu.lost_due):
                continue
            row, asked = self._row(gpu, more)
            more = more and not asked
            if row is not None:
                rows.append(row)
        return tuple(rows)

    @property
    def devices(self) -> list[Device]:
        """All GPUs and slices of this machine, the launch's or not."""
        return [gpu.device for gpu in self._gpus]

    def driver(self) -> tuple[str | None, int | None]:
        """Release of the driver, and its CUDA version as 12040 for 12.4."""
        if self._lib is None:
            return None, None
        cuda = self._ask(self._lib.nvmlSystemGetCudaDriverVersion_v2)
        return _text(self._ask(self._lib.nvmlSystemGetDriverVersion)), int(cuda) if cuda else None

    def cards(self) -> tuple[Card, ...]:
        """The launch's GPUs with all that is worth asking once."""
        if self._lib is None:
            return ()
        return tuple(
            read_card(self._lib, self._ask, gpu.device, gpu.handle, self._sizes(gpu)) for gpu in self._gpus if gpu.ours
        )

    def link(self) -> str | None:
        """How the launch's GPUs are joined; None for a single one."""
        if self._lib is None:
            return None
        return link(self._lib, self._ask, [gpu.handle for gpu in self._gpus if gpu.ours])

    def _sizes(self, gpu: _Gpu) -> tuple[int | None, int | None]:
        """Total and free memory; of a GPU without its own, the system's."""
        gpu.faults.clear()
        memory = self._memory(gpu)
        if memory is not None:
            return int(memory.total), int(memory.free)
        if any(code == _NOT_SUPPORTED for code, _ in gpu.faults[:1]):
            shared = _system_memory()
            return shared.get("memory_total"), shared.get("memory_free")
        return None, None

    def register(self) -> bool:
        """Subscribe to Xid events; False where the driver does not offer them (WSL, MIG)."""
        lib = self._lib
        if lib is None:
            return False
        events = self._ask(lib.nvmlEventSetCreate)
        if events is None:
            return False
        heard = False
        for gpu in self._gpus:
            try:
                if gpu.device.instances is None:
                    lib.nvmlDeviceRegisterEvents(gpu.handle, lib.nvmlEventTypeXidCriticalError, events)
                    heard = True
            except Exception:
                continue
        self._events = events if heard else None
        return heard

    def xid(self, milliseconds: int) -> Xid | None:
        """Wait for the next Xid event; None when none came. Blocks its caller alone: the lock of Python is released."""
        if self._lib is None or self._events is None:
            return None
        try:
            event = self._lib.nvmlEventSetWait_v2(self._events, milliseconds)
            index = self._lib.nvmlDeviceGetIndex(event.device)
        except Exception:
            # The time is up, or the driver lost the GPU while we waited.
            return None
        ours = any(gpu.ours and gpu.device.index == index for gpu in self._gpus)
        return Xid(int(index), int(event.eventData)) if ours else None

    def close(self) -> None:
        """Release NVML."""
        if self._lib is not None:
            self._ask(self._lib.nvmlShutdown)
            self._lib = None

    def _slices(self, index: int, handle: Any) -> list[_Gpu]:
        """The card, or its MIG slices: with MIG on, nothing runs on the card itself."""
        assert self._lib is not None
        lib = self._lib
        card = Device(
            index, _text(self._ask(lib.nvmlDeviceGetName, handle)), _text(self._ask(lib.nvmlDeviceGetUUID, handle))
        )
        mode = self._ask(lib.nvmlDeviceGetMigMode, handle)
        found = []
        if mode and mode[0]:
            for at in range(self._ask(lib.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
                piece = self._ask(lib.nvmlDeviceGetMigDeviceHandleByIndex, handle, at)
                if piece is not None:
                    name, uuid = (
                        _text(self._ask(lib.nvmlDeviceGetName, piece)),
                        _text(self._ask(lib.nvmlDeviceGetUUID, piece)),
                    )
                    places = (lib.nvmlDeviceGetGpuInstanceId, lib.nvmlDeviceGetComputeInstanceId)
                    instance, compute = (self._ask(question, piece) for question in places)
                    instances = (at if instance is None else int(instance), int(compute or 0))
                    found.append(_Gpu(Device(index, name or card.name, uuid, instances, card.uuid), piece))
        return found or [_Gpu(card, handle)]

    def _row(self, gpu: _Gpu, more: bool) -> tuple[GpuSample | None, bool]:
        """The row, and whether dear questions were asked."""
        assert self._lib is not None
        lib, now = self._lib, time.monotonic()
        gpu.faults.clear()
        memory = self._memory(gpu)
        rates = self._ask(lib.nvmlDeviceGetUtilizationRates, gpu.handle, gpu=gpu)
        shared = memory is None and not gpu.has_memory and any(code == _NOT_SUPPORTED for code, _ in gpu.faults[:1])
        if memory is None and rates is None and not shared:
            return self._missing(gpu, now), False
        gpu.answered, gpu.silent, gpu.lost, gpu.fault = True, 0, False, None
        values: dict[str, Any] = {"utilization": int(rates.gpu) if rates is not None else None}
        if memory is not None:
            gpu.has_memory = True
            values |= {
                "memory_total": int(memory.total),
                "memory_used": int(memory.used),
                "memory_free": int(memory.free),
            }
        elif shared:
            values |= _system_memory()
        asked = more and (now >= gpu.seldom_due or now >= gpu.rare_due)
        if asked and now >= gpu.seldom_due:
            gpu.seldom_due = now + _SELDOM_SECONDS
            values |= self._seldom(gpu)
        if asked and now >= gpu.rare_due:
            gpu.rare_due = now + _RARE_SECONDS
            values |= self._rare(gpu)
        return GpuSample(gpu.device.index, gpu.device.name, gpu.device.uuid, **values), asked

    def _memory(self, gpu: _Gpu) -> Any:
        """Version 2 tells the driver's own share from what is used; drivers before 510 have only version 1."""
        assert self._lib is not None
        lib = self._lib
        second = getattr(lib, "nvmlMemory_v2", None)
        memory = self._ask(lib.nvmlDeviceGetMemoryInfo, gpu.handle, second) if second else None
        return memory or self._ask(lib.nvmlDeviceGetMemoryInfo, gpu.handle, gpu=gpu)

    def _missing(self, gpu: _Gpu, now: float) -> GpuSample | None:
        """No answer at all: failed for sure, silent for long, or one that never said anything."""
        gone = next((text for code, text in gpu.faults if code in _GONE), None)
        gpu.silent += 1
        if gone is None and (not gpu.answered or gpu.silent < _SILENT_CALLS):
            return None
        gpu.fault = gone or next((text for code, text in gpu.faults if code not in _QUESTION), None) or "no answer"
        gpu.lost, gpu.lost_due = True, now + _LOST_SECONDS
        return GpuSample(gpu.device.index, gpu.device.name, gpu.device.uuid, lost=True, fault=gpu.fault)

    def _seldom(self, gpu: _Gpu) -> dict[str, Any]:
        assert self._lib is not None
        lib = self._lib
        power = self._ask(lib.nvmlDeviceGetPowerUsage, gpu.handle)
        reasons = self._ask(lib.nvmlDeviceGetCurrentClocksThrottleReasons, gpu.handle) or 0
        holders = self._ask(lib.nvmlDeviceGetComputeRunningProcesses, gpu.handle)
        return {
            "power": round(power / 1000, 1) if power is not None else None,
            "throttle": tuple(name for bit, name in SLOWING.items() if reasons & bit),
            "processes": tuple(self._holder(one) for one in holders) if holders is not None else None,
        }

    def _holder(self, process: Any) -> GpuProcess:
        pid = int(process.pid)
        if pid not in self._names:
            found = procfs.stat(pid) if procfs.sees_all() else None
            # In a container the driver may give the host's numbers: a name found there would be another process's.
            self._names[pid] = found.name if found is not None else None
        memory = process.usedGpuMemory
        return GpuProcess(pid, int(memory) if memory is not None else None, self._names[pid])

    def _rare(self, gpu: _Gpu) -> dict[str, Any]:
        assert self._lib is not None
        lib = self._lib
        # KiB per second.
        received = self._ask(lib.nvmlDeviceGetPcieThroughput, gpu.handle, lib.NVML_PCIE_UTIL_RX_BYTES)
        sent = self._ask(lib.nvmlDeviceGetPcieThroughput, gpu.handle, lib.NVML_PCIE_UTIL_TX_BYTES)
        kind, counter = lib.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, lib.NVML_VOLATILE_ECC
        return {
            "pcie_rx": received * 1024 if received is not None else None,
            "pcie_tx": sent * 1024 if sent is not None else None,
            "ecc_errors": self._ask(lib.nvmlDeviceGetTotalEccErrors, gpu.handle, kind, counter),
        }

    def _ask(self, function: Callable[..., T], *arguments: Any, gpu: _Gpu | None = None) -> T | None:
        """None for "not supported", a lost GPU, or a function that this driver lacks; the GPU keeps why."""
        try:
            return function(*arguments)
        except Exception as error:
            if gpu is not None:
                code = getattr(error, "value", None)
                gpu.faults.append((code if isinstance(code, int) else _UNKNOWN, str(error)))
            return None


def _system_memory() -> dict[str, Any]:
    """GB10, Jetson: NVML says "not supported" to the question for memory, CPU and GPU share the system's."""
    memory = procfs.meminfo()
    total, free = memory.get("MemTotal"), memory.get("MemAvailable")
    if total is None or free is None:
        return {}
    return {"memory_total": total, "memory_used": total - free, "memory_free": free, "unified": True}


def _text(value: object) -> str | None:
    """Old pynvml returns bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
