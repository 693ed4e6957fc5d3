"""Measures GPUs and the process tree in threads: a driver call or a disk that blocks stops nothing else."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from vdoctor.live.host import Host
from vdoctor.live.nvml import Nvml
from vdoctor.model import Sample

#: The process tree once a second; where a walk is dear (many processes, a slow /proc) so seldom that it takes
#: at most one 250th of a core, and at least every ten seconds.
_HOST_SECONDS, _HOST_SHARE, _HOST_MOST = 1.0, 250, 10.0
#: At the end the threads have so long; what hangs is left behind.
_STOP_SECONDS = 0.5


class Sampler:
    """`start`, then `take` what was measured since the last call, then `stop`."""

    def __init__(self, pid: int, interval: float, now: Callable[[], float]) -> None:
        """`pid`: root of the tree; `interval`: seconds between looks at the GPUs; `now`: seconds since the launch."""
        self._interval = interval
        self._now = now
        self._queue: queue.SimpleQueue[Sample] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._host = Host(pid)
        self._threads = [
            threading.Thread(target=loop, name=f"vdoctor-{name}", daemon=True)
            for name, loop in (("host", self._watch_host), ("gpu", self._watch_gpus))
        ]

    def start(self) -> None:
        """Begin to measure."""
        for thread in self._threads:
            thread.start()

    def take(self) -> list[Sample]:
        """Samples that are ready, oldest first."""
        ready = []
        while not self._queue.empty():
            ready.append(self._queue.get())
        return ready

    def stop(self) -> None:
        """Stop measuring; the last sample tells what the control group counted. What hangs is left behind."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=_STOP_SECONDS)

    def _put(self, sample: Sample) -> None:
        """The time is taken here: samples of two threads come in order, and one that blocked is as old as its answer."""
        with self._lock:
            self._queue.put(replace(sample, t=self._now()))

    def _watch_host(self) -> None:
        while not self._stop.is_set():
            begun = time.thread_time()
            host = self._host.sample()
            if host is not None:
                self._put(Sample(0.0, host=host))
            cost = time.thread_time() - begun
            self._stop.wait(min(max(_HOST_SECONDS, _HOST_SHARE * cost), _HOST_MOST))
        last = self._host.last()
        if last is not None:
            self._put(Sample(0.0, host=last))
        self._host.close()

    def _watch_gpus(self) -> None:
        nvml = Nvml()
        while not self._stop.is_set():
            begun = time.monotonic()
            gpus = nvml.samples()
            if gpus:
                self._put(Sample(0.0, gpus))
            self._stop.wait(max(0.01, self._interval - (time.monotonic() - begun)))
        nvml.close()
