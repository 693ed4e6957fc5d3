"""The process tree under watch: who works, who waits for whom, which ranks belong together."""

from __future__ import annotations

import re

from vdoctor.model import HostSample
from vdoctor.startup.pulse import Pulse
from vdoctor.startup.timeline import depth

#: What vLLM's processes are called before and after they name themselves.
_VLLM_LIKE = re.compile(r"python|vllm|VLLM::|pt_main_thread|ray::")
#: Pids remembered to tell whether a process of the log was ever in the tree.
_KEPT = 4096


class Tree:
    """The living processes by pid, and the ranks that died."""

    def __init__(self) -> None:
        self.pulses: dict[int, Pulse] = {}
        self.ever: set[int] = set()
        #: names of ranks and engines that died or vanished while others live
        self.dead: dict[int, str] = {}
        #: when the last of them was seen to be gone
        self.died_at = 0.0
        self.changed_at = 0.0
        #: it held processes of a server at some time
        self.was_server = False
        #: last time that a compiler was there
        self.compiled_at: float | None = None
        #: what the processes call themselves in the log
        self.titles: dict[int, str] = {}
        self._parents: dict[int, int] = {}
        self._inner: set[int] = set()
        self._is_ray = False

    def feed(self, t: float, host: HostSample) -> None:
        """Take the processes of a sample."""
        living = [one for one in host.tree if one.state not in ("Z", "X")]
        for one in living:
            pulse = self.pulses.get(one.pid)
            if pulse is None or one.cpu_seconds < pulse.sample.cpu_seconds - 1:
                # New, or another one under a number that was used before.
                self.pulses[one.pid] = Pulse(t, one)
                self._note_change(t, one.pid)
            else:
                pulse.feed(t, one)
        here = {one.pid for one in living}
        for pid in [pid for pid in self.pulses if pid not in here]:
            gone = self.pulses.pop(pid)
            self.changed_at = t
            if gone.is_worker or gone.is_engine:
                self.dead[pid] = gone.role or gone.sample.name
                self.died_at = t
        if any(pulse.is_compiler for pulse in self.pulses.values()):
            self.compiled_at = t
        self.was_server = self.was_server or self.is_server
        self._parents = {one.pid: one.ppid for one in living}
        if self.dead:
            again = {pulse.role for pulse in self.pulses.values()}
            self.dead = {pid: name for pid, name in self.dead.items() if name not in again}

    def _note_change(self, t: float, pid: int) -> None:
        self.changed_at = t
        if len(self.ever) < _KEPT and not self.pulses[pid].is_compiler:
            self.ever.add(pid)

    def call(self, pid: int, process: str) -> None:
        """What a process calls itself in the log."""
        if len(self.titles) < _KEPT and len(process) >= len(self.titles.get(pid, "")):
            self.titles[pid] = process
            self._is_ray = self._is_ray or process.startswith("Ray")
            if depth(process):
                self._inner.add(pid)

    # ------------------------------------------------------------------ who

    @property
    def is_whole(self) -> bool:
        """The engines and workers that speak in the log are here, not on another host, in a container or under Ray."""
        return not self._is_ray and self._inner <= self.ever

    @property
    def is_server(self) -> bool:
        """The tree holds Python processes: not only the client of a container, a cluster or another machine."""
        return any(p.role or _VLLM_LIKE.search(p.sample.name) for p in self.pulses.values())

    @property
    def is_vllm(self) -> bool:
        """One of the processes carries vLLM's name, before any line was printed."""
        return any(
            p.is_worker or p.is_engine or p.sample.name.startswith(("vllm", "VLLM")) for p in self.pulses.values()
        )

    @property
    def has_engine(self) -> bool:
        """An engine or a worker has named itself."""
        return any(p.is_engine or p.is_worker for p in self.pulses.values())

    @property
    def front(self) -> Pulse | None:
        """The API server."""
        for pulse in self.pulses.values():
            if self.name(pulse).startswith(("APIServer", "ApiServer", "vllm")):
                return pulse
        return None

    @property
    def left_at(self) -> float:
        """Since when the front end goes on without one that died; while it is busy it may be on its own way out."""
        return max(self.died_at, self.front.busy_at if self.front else 0.0)

    def name(self, pulse: Pulse) -> str:
        """Its role, else its name in the log, else what the system calls it."""
        own = None if self._is_aside(pulse.pid) else pulse.role
        return own or self.titles.get(pulse.pid) or pulse.sample.name

    def ancestors(self, pid: int) -> list[int]:
        """From its parent upwards, inside the tree."""
        found: list[int] = []
        while (pid := self._parents.get(pid, 0)) in self.pulses and pid not in found:
            found.append(pid)
        return found

    def working(self, everybody: bool = False) -> list[Pulse]:
        """Those whose use of the processor counts: a process waits for the ranks and engines below it.

        An engine that waits for its workers may spin for it; inductor's pool of idle children takes no work away.
        `everybody`: parents count, too (once the engine is up the front end works by itself).
        """
        waiting: set[int] = set()
        for pulse in self.pulses.values():
            if pulse.is_engine or (pulse.is_worker and not (pulse.role or "").startswith("VllmWorkerProcess")):
                waiting.update(self.ancestors(pulse.pid))
        return [p for p in self.pulses.values() if not p.is_helper and (everybody or p.pid not in waiting)]

    def deepest(self) -> list[Pulse]:
        """The processes at the end of each line: the ranks, else the engines, else whoever has no child of its own."""
        working = self.working()
        if ends := [p for p in working if p.is_worker] or [p for p in working if p.is_engine]:
            return ends
        parents = {parent for pid, parent in self._parents.items() if not self._is_aside(pid)}
        return [p for p in working if p.pid not in parents and not p.is_compiler]

    def _is_aside(self, pid: int) -> bool:
        pulse = self.pulses.get(pid)
        return pulse is None or pulse.is_helper or pulse.is_compiler

    def groups(self) -> list[list[Pulse]]:
        """The ranks of each engine, where it has several."""
        by_parent: dict[int, list[Pulse]] = {}
        for pulse in self.pulses.values():
            if pulse.is_worker:
                by_parent.setdefault(self._parents.get(pulse.pid, 0), []).append(pulse)
        return [sorted(ranks, key=_rank) for ranks in by_parent.values() if len(ranks) > 1]

    def named(self, chief: Pulse | None) -> list[tuple[int, str]]:
        """Pid and name of the processes of the server other than `chief`, outermost first, helpers left out.

        Those that vLLM named; before it named any, those above `chief`.
        """
        own = chief.pid if chief else None
        rest = [p for p in self.pulses.values() if p.pid != own and not self._is_aside(p.pid)]
        above = self.ancestors(own) if own is not None else []
        known = [p for p in self.pulses.values() if not self._is_aside(p.pid) and (p.role or p.pid in self.titles)]
        kept = [p for p in rest if p in known] if known else [p for p in rest if p.pid in above]
        return [(p.pid, self.name(p)) for p in sorted(kept, key=lambda p: (len(self.ancestors(p.pid)), _rank(p)))]


def _rank(pulse: Pulse) -> tuple[int, ...]:
    """`Worker_TP10` comes after `Worker_TP9`."""
    return (*(int(number) for number in re.findall(r"\d+", pulse.role or "")), pulse.pid)
