"""Whether the GPUs show work: memory that changes, utilisation."""

from __future__ import annotations

from collections.abc import Sequence

from vdoctor.model import GpuSample

#: Memory that changes by less is noise of the driver; a GPU is full from this utilisation on, busy from that one.
_CHANGE, _FULL, _BUSY = 2 << 20, 95, 5


class GpuPulse:
    """All GPUs that the server uses. Times on the caller's clock, in seconds."""

    def __init__(self) -> None:
        self._memory: dict[int, int] = {}
        #: last time that memory changed; that one of them worked; since when all are at full utilisation
        self.memory_at: float | None = None
        self.busy_at: float | None = None
        self.full_since: float | None = None

    def feed(self, t: float, gpus: Sequence[GpuSample], pids: set[int]) -> None:
        """Take the GPUs of one sample; `pids` are those of the tree."""
        used = [gpu for gpu in gpus if self._is_ours(gpu, pids)]
        for gpu in used:
            memory = _memory(gpu, pids)
            known = self._memory.get(gpu.index)
            if memory is not None and (known is None or abs(memory - known) >= _CHANGE):
                self._memory[gpu.index] = memory
                self.memory_at = t
        rates = [gpu.utilization for gpu in used if gpu.utilization is not None]
        if not rates:
            return
        if any(rate >= _BUSY for rate in rates):
            self.busy_at = t
        if all(rate >= _FULL for rate in rates):
            self.full_since = t if self.full_since is None else self.full_since
        else:
            self.full_since = None

    def full_for(self, t: float) -> float:
        """Seconds for which all of them have been at full utilisation."""
        return 0.0 if self.full_since is None else t - self.full_since

    @staticmethod
    def _is_ours(gpu: GpuSample, pids: set[int]) -> bool:
        # Without a list of processes (MIG, WSL, containers) every visible GPU counts.
        return not gpu.processes or any(one.pid in pids for one in gpu.processes)


def _memory(gpu: GpuSample, pids: set[int]) -> int | None:
    own = [one.memory for one in gpu.processes or () if one.pid in pids and one.memory is not None]
    return sum(own) if own else gpu.memory_used
