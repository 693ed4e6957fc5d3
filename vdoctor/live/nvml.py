"""The only user of pynvml. Every field may be missing; a GPU that vanishes gives no row."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from vdoctor.model import GpuSample

T = TypeVar("T")


class Nvml:
    """An open NVML, or none: `samples` is empty where there is no NVIDIA driver."""

    def __init__(self) -> None:
        self._lib: ModuleType | None = None
        self._handles: list[tuple[int, Any, str | None, str | None]] = []
        self.error: str | None = None
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception as error:
            # pynvml raises its own NVMLError for a missing library, and OSError for a broken one.
            self.error = str(error)
            return
        self._lib = pynvml
        for index in range(self._try(pynvml.nvmlDeviceGetCount) or 0):
            handle = self._try(pynvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                name = _text(self._try(pynvml.nvmlDeviceGetName, handle))
                self._handles.append((index, handle, name, _text(self._try(pynvml.nvmlDeviceGetUUID, handle))))

    def samples(self) -> tuple[GpuSample, ...]:
        """One row for each GPU that answers; memory in bytes, utilisation in percent."""
        if self._lib is None:
            return ()
        rows = []
        for index, handle, name, uuid in self._handles:
            memory = self._try(self._lib.nvmlDeviceGetMemoryInfo, handle)
            rates = self._try(self._lib.nvmlDeviceGetUtilizationRates, handle)
            if memory is None and rates is None:
                continue
            rows.append(
                GpuSample(
                    index,
                    name,
                    uuid,
                    int(memory.total) if memory is not None else None,
                    int(memory.used) if memory is not None else None,
                    int(rates.gpu) if rates is not None else None,
                )
            )
        return tuple(rows)

    def close(self) -> None:
        """Release NVML."""
        if self._lib is not None:
            self._try(self._lib.nvmlShutdown)
            self._lib = None

    def _try(self, function: Callable[..., T], *arguments: Any) -> T | None:
        """None for "not supported", a lost GPU, or a function that this driver lacks."""
        try:
            return function(*arguments)
        except Exception:
            return None


def _text(value: object) -> str | None:
    """Old pynvml returns bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
