"""What is looked at besides GPUs and host while a server is watched: deaths, the kernel's log, stacks, /metrics."""

from __future__ import annotations

from collections.abc import Callable

from vdoctor.launch.endpoint import Endpoint
from vdoctor.live.deaths import DeathWatch
from vdoctor.live.kernel import KernelLog
from vdoctor.live.metrics import ServerProbe, is_local
from vdoctor.live.stacks import StackDumper
from vdoctor.model import Motion, ProcessSample, Sample, phase_of

#: Without a known step (a server that logs little) the port is looked at from then on.
_BLIND_S = 20.0
_KERNEL_SECONDS = 1.0
#: Roles whose stacks tell nothing about a start.
_HELPERS = ("compiler", "resource_tracker")


class Probes:
    """`see` each measured sample, `tick` about ten times a second, `finish` at the end; both give samples to record.

    Nothing here waits: what may block runs in threads, and what hangs there is left behind.
    """

    def __init__(
        self,
        pid: int,
        now: Callable[[], float],
        *,
        endpoint: Endpoint | str,
        step: Callable[[], str | None],
        motion: Callable[[], Motion | None],
        after_ready: float | None = None,
        interval: float | None = None,
    ) -> None:
        """`pid`: the child; `now`: seconds since the launch; `endpoint`: where the server answers, or why it is not asked;
        `step`: how far it has come; `after_ready`: seconds for which /metrics is asked, None: until the end;
        `interval`: seconds between two questions, by default what suits the server's own log.
        """
        self._pid = pid
        self._step, self._motion = step, motion
        self._after_ready = after_ready
        self._deaths = DeathWatch(pid, now)
        self._kernel = KernelLog()
        self._kernel_due = 0.0
        self.stacks = StackDumper(now)
        self._dumped: object = None
        self._tree: tuple[ProcessSample, ...] = ()
        self._ready_at: float | None = None
        self._server: ServerProbe | None = None
        #: why the server is not asked
        self.not_asked: str | None = None
        if isinstance(endpoint, str):
            self.not_asked = endpoint
        elif not is_local(endpoint.host):
            self.not_asked = f"{endpoint.host} is no address of this machine"
        else:
            self._server = ServerProbe(endpoint, now, self._pids, interval)

    def see(self, sample: Sample) -> None:
        """Learn the processes of the tree."""
        if sample.host is not None and sample.host.tree:
            self._tree = sample.host.tree
            for process in self._tree:
                if process.pid != self._pid:
                    self._deaths.watch(process.pid, process.role or process.name)

    def tick(self, t: float) -> list[Sample]:
        """What was found since the last call."""
        self._dump_when_stalled()
        found = self._take(t)
        if self._server is not None:
            self._ask(t, self._server)
            found += self._server.take()
        return found

    @property
    def unseen(self) -> dict[str, str]:
        """Facts of what a stall could not be looked at with, once it was tried."""
        if self._dumped is None or self.stacks.busy:
            return {}
        found = {"watch.stacks_refused": self.stacks.refused, "watch.not_asked": self.not_asked}
        return {name: reason for name, reason in found.items() if reason is not None}

    def finish(self, t: float) -> list[Sample]:
        """The last words."""
        self._deaths.stop()
        if self._server is not None:
            self._server.stop()
        found = self._take(t)
        if kernel := self._kernel.last_words():
            found.append(Sample(t, kernel=kernel))
        self._kernel.close()
        return found

    def _take(self, t: float) -> list[Sample]:
        found = self.stacks.take()
        if deaths := self._deaths.take():
            found.append(Sample(deaths[-1].t, deaths=tuple(deaths)))
        if t >= self._kernel_due:
            self._kernel_due = t + _KERNEL_SECONDS
            if kernel := self._kernel.read():
                found.append(Sample(t, kernel=kernel))
        return found

    def _ask(self, t: float, server: ServerProbe) -> None:
        step = self._step()
        near = step is not None and (phase_of(step) in ("graph_capture", "runtime") or step == "kv_init.allocate")
        if near or (step is None and t > _BLIND_S):
            server.begin()
        if server.ready and self._ready_at is None:
            self._ready_at = t
        if self._ready_at is not None and self._after_ready is not None and t > self._ready_at + self._after_ready:
            server.stop()

    def _dump_when_stalled(self) -> None:
        """Once for each process that everything waits for."""
        motion = self._motion()
        if motion is None or motion.state != "stalled":
            return
        stalled = (motion.pid, motion.process)
        if stalled != self._dumped and self.stacks.request(self._of_interest(motion)):
            self._dumped = stalled

    def _of_interest(self, motion: Motion) -> list[tuple[int, str | None]]:
        """The stalled process first, then the others of the server."""
        chosen: dict[int, str | None] = {} if motion.pid is None else {motion.pid: motion.process}
        for process in self._tree:
            if process.role not in _HELPERS and (process.role is not None or process.pid == self._pid):
                chosen.setdefault(process.pid, process.role)
        if not chosen:
            chosen[self._pid] = None
        return list(chosen.items())

    def _pids(self) -> list[int]:
        """Processes that may own the server's port."""
        return [self._pid, *(one.pid for one in self._tree if one.pid != self._pid and one.role not in _HELPERS)]
