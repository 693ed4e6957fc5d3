"""GPUs through the nvidia-smi command, where its library cannot be loaded. The command dies with us."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

from vdoctor.intake.gpu_log import Table
from vdoctor.live.visible import Device, visible
from vdoctor.model import GpuSample

_COLUMNS = (
    *("index", "uuid", "name", "memory.total", "memory.used", "memory.free", "utilization.gpu", "power.draw"),
    "ecc.errors.uncorrected.volatile.total",
)
#: Each round of the command costs tens of milliseconds of CPU for every GPU: not more often than once a second.
_LEAST_MILLISECONDS = 1000
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
#: WSL keeps it outside of the usual path.
_ELSEWHERE = "/usr/lib/wsl/lib"


class NvidiaSmi:
    """A running nvidia-smi; `samples` gives what it printed since the last call. `error` says why there is none."""

    def __init__(self, interval: float, env: Mapping[str, str] | None = None) -> None:
        """`interval` in seconds. The thread that makes it must live as long as it is used: the command ends with that."""
        self._env = env
        self._table = Table()
        self._lock = threading.Lock()
        self._ready: dict[int, GpuSample] = {}
        self._known: dict[int, Device] = {}
        self.error: str | None = None
        self._process: subprocess.Popen[str] | None = None
        path = shutil.which("nvidia-smi", path=os.pathsep.join((os.environ.get("PATH", os.defpath), _ELSEWHERE)))
        if path is None:
            self.error = "nvidia-smi not found"
            return
        period = max(_LEAST_MILLISECONDS, round(interval * 1000))
        argv = [path, f"--query-gpu={','.join(_COLUMNS)}", "--format=csv,nounits", f"--loop-ms={period}"]
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            self.error = f"{path}: {error.strerror}"
            return
        # The loop is quiet between two rounds, and a hanging driver keeps it so for ever: read beside.
        threading.Thread(target=self._read, name="vdoctor-nvidia-smi", daemon=True).start()

    def choose(self, env: Mapping[str, str] | None) -> None:
        """Give only the GPUs that a process with this environment gets."""
        self._env = env

    def samples(self) -> tuple[GpuSample, ...]:
        """The newest row of each of the launch's GPUs, each one once."""
        with self._lock:
            ready, self._ready = self._ready, {}
            known = sorted(self._known.values(), key=lambda device: device.index)
        ours = {device.index for device in visible(self._env or {}, known)}
        return tuple(ready[index] for index in sorted(ready) if index in ours)

    def close(self) -> None:
        """End the command."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            row = self._table.feed(line)
            if row is not None:
                with self._lock:
                    self._ready[row.gpu.index] = row.gpu
                    self._known[row.gpu.index] = Device(row.gpu.index, row.gpu.name, row.gpu.uuid)


def _die_with_parent() -> None:
    """Runs between fork and exec: one system call, nothing that could take a lock."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
