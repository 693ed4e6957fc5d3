"""Measures GPUs and the process tree in a thread, so that a driver call that blocks stops nothing else."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import psutil

from vdoctor.live.nvml import Nvml
from vdoctor.model import HostSample, Sample

#: Walking the process table costs milliseconds on a busy host: not more often than this.
_HOST_SECONDS = 1.0


class Sampler:
    """`start`, then `take` what was measured since the last call, then `stop`."""

    def __init__(self, pid: int, interval: float, now: Callable[[], float]) -> None:
        """`pid`: root of the tree; `interval` in seconds; `now`: seconds since the launch."""
        self._pid = pid
        self._interval = interval
        self._now = now
        self._queue: queue.SimpleQueue[Sample] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="vdoctor-sampler", daemon=True)
        self._cpu: dict[int, float] = {}

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    def take(self) -> list[Sample]:
        """Samples that are ready, oldest first."""
        ready = []
        while not self._queue.empty():
            ready.append(self._queue.get())
        return ready

    def stop(self) -> None:
        """Stop measuring; a driver call that hangs is left behind (daemon thread)."""
        self._stop.set()
        self._thread.join(timeout=0.5)

    def _loop(self) -> None:
        nvml = Nvml()
        host: HostSample | None = None
        next_host = 0.0
        while not self._stop.is_set():
            begun = time.monotonic()
            if begun >= next_host:
                host = self._host()
                next_host = begun + _HOST_SECONDS
            gpus = nvml.samples()
            if gpus or host:
                self._queue.put(Sample(self._now(), gpus, host))
            host = None
            self._stop.wait(max(0.01, self._interval - (time.monotonic() - begun)))
        nvml.close()

    def _host(self) -> HostSample | None:
        try:
            root = psutil.Process(self._pid)
            tree = [root, *root.children(recursive=True)]
        except psutil.Error:
            return None
        rss, alive = 0, 0
        for process in tree:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    rss += process.memory_info().rss
            except psutil.Error:
                continue
            alive += 1
            # Kept after a process ends: the tree's CPU time never falls.
            self._cpu[process.pid] = times.user + times.system
        return HostSample(alive, rss, round(sum(self._cpu.values()), 2))
