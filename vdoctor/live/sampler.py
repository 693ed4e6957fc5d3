"""Measures GPUs and the process tree in threads: a driver call or a disk that blocks stops nothing else."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from vdoctor.live import procfs
from vdoctor.live.gpus import open_gpus
from vdoctor.live.host import Host
from vdoctor.live.nvml import Nvml
from vdoctor.model import GpuSample, Sample

#: The process tree once a second; where a walk is dear (many processes, a slow /proc) so seldom that it takes
#: at most one 250th of a core, and at least every ten seconds.
_HOST_SECONDS, _HOST_SHARE, _HOST_MOST = 1.0, 250, 10.0
#: Rows that say the same as the last ones are told this often.
_SAME_SECONDS = 1.0
#: After half an hour it serves, or is so slow that a second does not count: a recording of days must stay small.
_LONG_SECONDS, _LONG_INTERVAL = 1800.0, 1.0
#: A driver that takes longer than the interval to answer still leaves the processor a moment.
_LEAST_PAUSE = 0.01
#: How long one wait for an Xid event lasts, which is how late its thread notices the end.
_XID_MILLISECONDS = 500
#: At the end the threads have so long; what hangs is left behind.
_STOP_SECONDS = 0.5


class Sampler:
    """`start`, then `take` what was measured since the last call, then `stop`."""

    def __init__(self, pid: int, interval: float, now: Callable[[], float]) -> None:
        """`pid`: root of the tree; `interval`: seconds between looks at the GPUs; `now`: seconds since the launch."""
        self._pid = pid
        self._interval = interval
        self._now = now
        self._queue: queue.SimpleQueue[Sample] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._host = Host(pid)
        self._sampled = threading.Event()
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
        host, _ = self._threads
        host.join(_STOP_SECONDS)
        # Not the end of the thread: it may still wait for the driver to let go of its events.
        self._sampled.wait(_STOP_SECONDS)

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
        try:
            self._sample_gpus()
        finally:
            self._sampled.set()

    def _sample_gpus(self) -> None:
        # The child's own environment: an `env` or a shell in front of the server may change it later.
        env = procfs.environ(self._pid)
        source = open_gpus(self._interval, env)
        if source is None:
            return
        listener = None
        if isinstance(source, Nvml) and source.register():
            listener = threading.Thread(target=self._listen, args=(source,), name="vdoctor-xid", daemon=True)
            listener.start()
        last: tuple[GpuSample, ...] = ()
        told = 0.0
        while not self._stop.is_set():
            begun = time.monotonic()
            if self._host.env is not None and self._host.env != env:
                env = self._host.env
                source.choose(env)
            gpus = source.samples()
            if gpus and (gpus != last or begun - told >= _SAME_SECONDS):
                self._put(Sample(0.0, gpus))
                last, told = gpus, begun
            interval = self._interval if self._now() < _LONG_SECONDS else max(self._interval, _LONG_INTERVAL)
            self._stop.wait(max(_LEAST_PAUSE, interval - (time.monotonic() - begun)))
        self._sampled.set()
        if listener is not None:
            listener.join(2 * _XID_MILLISECONDS / 1000)
            if listener.is_alive():
                # It waits inside the driver: closing under it could crash.
                return
        source.close()

    def _listen(self, nvml: Nvml) -> None:
        """Xid events come while another call blocks, and just then they tell why."""
        while not self._stop.is_set():
            begun = time.monotonic()
            xid = nvml.xid(_XID_MILLISECONDS)
            if xid is not None:
                self._put(Sample(0.0, xids=(xid,)))
            elif time.monotonic() - begun < _XID_MILLISECONDS / 2000:
                # The driver answers at once with an error: no reason to spin.
                self._stop.wait(1.0)
