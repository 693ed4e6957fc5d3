"""A server of made-up processes whose counters are moved second by second."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vdoctor.model import Event, GpuSample, HostSample, Motion, ProcessSample, Sample
from vdoctor.startup.progress import Progress

GIB = 1 << 30


class Bench:
    """Processes by name; `run` lets time pass while each does what `does` says of it, a second at a time."""

    def __init__(self, *names: str, stall_after: float | None = None, hub: bool = False) -> None:
        """Names from the root inwards: APIServer, EngineCore, Worker...; others are named `python3`."""
        self.progress = Progress(stall_after)
        self.progress.hub = hub
        self.t = 0.0
        self.step: str | None = None
        self.processes: dict[str, ProcessSample] = {}
        self.host: dict[str, Any] = {}
        self.gpus: tuple[GpuSample, ...] = ()
        self.metrics: dict[str, float] | None = None
        self.asked = False
        for name in names:
            self.add(name)

    def add(self, name: str, **fields: Any) -> int:
        """A new process below the one that starts such a process; returns its pid."""
        pid = 100 + len(self.processes) + sum(1 for p in self.processes.values() if p.pid < 100)
        above = "EngineCore" if name.startswith("Worker") else "APIServer"
        if fields.get("role") == "compiler":
            above = next((n for n in reversed(self.processes) if n.startswith(("Worker", "EngineCore"))), "APIServer")
        parent = self.processes.get(above)
        role = None if name.startswith("python") else name
        given = {"role": role, "state": "S", "rss": GIB, "read_bytes": 0, "read_chars": 0, "write_bytes": 0} | fields
        self.processes[name] = ProcessSample(pid, parent.pid if parent else 1, name, **given)
        return pid

    def line(self, text: str, process: str = "Worker", step: str | None = None) -> None:
        """A line of a process; `step`: the server enters it."""
        self.step = step or self.step
        pid = self.processes[process].pid if process in self.processes else None
        self.progress.line(Event(1, "record", text, text, process, pid), self.t, self.step)

    def enter(self, step: str) -> None:
        """The server enters a step; said by its innermost process."""
        self.line(f"enters {step}", list(self.processes)[-1], step)

    def set(self, name: str, **fields: Any) -> None:
        """Change a process at once."""
        self.processes[name] = replace(self.processes[name], **fields)

    def run(self, seconds: float, **does: dict[str, float]) -> None:
        """Each second, `cpu` seconds, `read`, `write` and `grow` bytes are added to the process of that name."""
        end = self.t + seconds
        while self.t < end - 1e-6:
            self.t = round(self.t + 1.0, 3)
            for name, moves in does.items():
                old = self.processes[name]
                self.processes[name] = replace(
                    old,
                    cpu_seconds=round(old.cpu_seconds + moves.get("cpu", 0.0), 3),
                    read_bytes=(old.read_bytes or 0) + int(moves.get("read", 0)),
                    write_bytes=(old.write_bytes or 0) + int(moves.get("write", 0)),
                    rss=old.rss + int(moves.get("grow", 0)),
                )
            self.sample()

    def sample(self) -> None:
        """Measure now."""
        tree = tuple(self.processes.values())
        host = HostSample(len(tree), sum(p.rss for p in tree), sum(p.cpu_seconds for p in tree), tree, **self.host)
        self.progress.sample(Sample(self.t, self.gpus, host, metrics=self.metrics, asked=self.asked))

    @property
    def motion(self) -> Motion:
        found = self.progress.verdict()
        assert found is not None
        return found


SPIN = {"cpu": 0.95}
