"""The process tree and the host around it, as one sample a second."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import psutil

from vdoctor.live import procfs
from vdoctor.live.cgroup import Cgroup, Limits
from vdoctor.live.roles import role
from vdoctor.live.storage import Storage, places
from vdoctor.live.tree import Tree
from vdoctor.model import HostSample, ProcessSample

_STATES = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_SLEEPING: "S",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "t",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_IDLE: "S",
}


class Host:
    """Measures the tree below one process. `close` when done."""

    def __init__(self, pid: int) -> None:
        self._tree: Tree | _PortableTree = Tree(pid) if procfs.exists() else _PortableTree(pid)
        self._cgroup = Cgroup(pid) if procfs.exists() else None
        self._storage = Storage()
        self._server: int | None = None
        self._last: HostSample | None = None
        self.env: dict[str, str] | None = None

    def sample(self) -> HostSample | None:
        """What is there now; None when the tree is gone."""
        rows = self._tree.walk()
        alive = [row for row in rows if row.state not in ("Z", "X")]
        if not alive:
            return None
        self._look_at_launch()
        memory = procfs.meminfo()
        shm_used, shm_total = _shared_memory()
        limits = self._limits()
        self._last = HostSample(
            processes=len(alive),
            rss=sum(row.rss for row in alive),
            cpu_seconds=round(self._tree.cpu_seconds, 2),
            tree=rows,
            net_received=procfs.received(alive[0].pid),
            downloading=self._storage.downloading,
            page_cache=memory.get("Cached"),
            available=memory.get("MemAvailable", _available()),
            shm_used=shm_used,
            shm_total=shm_total,
            cgroup_used=limits.used,
            cgroup_limit=limits.limit,
            oom_kills=limits.oom_kills,
            disk_free=dict(self._storage.disk_free),
        )
        return self._last

    def last(self) -> HostSample | None:
        """After the end: an empty tree, with what the control group counted; None when nothing was ever measured."""
        if self._last is None:
            return None
        limits = self._limits()
        memory = procfs.meminfo()
        return replace(
            self._last,
            processes=0,
            rss=0,
            cpu_seconds=round(self._tree.cpu_seconds, 2),
            tree=(),
            net_received=None,
            downloading=self._storage.downloading,
            page_cache=memory.get("Cached"),
            available=memory.get("MemAvailable", _available()),
            cgroup_used=limits.used,
            cgroup_limit=limits.limit,
            oom_kills=limits.oom_kills,
        )

    def close(self) -> None:
        """End what runs beside."""
        self._storage.stop()

    def _limits(self) -> Limits:
        return self._cgroup.read() if self._cgroup else Limits(None, None, None)

    def _look_at_launch(self) -> None:
        """The server may start late, behind a shell or an `env` that sets its variables."""
        server = self._tree.server()
        if server != self._server or self.env is None:
            self._server = server
            env = _environ(server)
            if env is not None:
                self.env = env
                self._storage.watch(places(env, self._tree.words(server)))


class _PortableTree:
    """The tree where there is no /proc: psutil's view, without wait channels and bytes."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._cpu: dict[int, float] = {}
        self._words: dict[int, list[str]] = {}

    def walk(self) -> tuple[ProcessSample, ...]:
        """One row for each living process, the root first."""
        try:
            root = psutil.Process(self._root)
            tree = [root, *root.children(recursive=True)]
        except psutil.Error:
            return ()
        rows = []
        for process in tree:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    words = self._words.setdefault(process.pid, process.cmdline())
                    name, state = process.name(), _STATES.get(process.status())
                    memory, threads, parent = process.memory_info().rss, process.num_threads(), process.ppid()
            except psutil.Error:
                continue
            # Kept after a process ends: the tree's CPU time never falls.
            self._cpu[process.pid] = cpu = times.user + times.system
            rows.append(
                ProcessSample(process.pid, parent, name, role(name, words), state, round(cpu, 2), memory, threads)
            )
        return tuple(rows)

    @property
    def cpu_seconds(self) -> float:
        """User and system time of the tree so far."""
        return sum(self._cpu.values())

    def server(self) -> int:
        """The process that knows how vLLM was started."""
        return self._root

    def words(self, pid: int) -> list[str]:
        """The command line of a member as it was read."""
        return self._words.get(pid, [])


def _environ(pid: int) -> dict[str, str] | None:
    if procfs.exists():
        return procfs.environ(pid)
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return None


def _available() -> int | None:
    return None if sys.platform == "linux" else psutil.virtual_memory().available


def _shared_memory() -> tuple[int | None, int | None]:
    """Bytes used and in all of /dev/shm."""
    try:
        numbers = os.statvfs("/dev/shm")
    except OSError:
        return None, None
    total = numbers.f_blocks * numbers.f_frsize
    return total - numbers.f_bfree * numbers.f_frsize, total
