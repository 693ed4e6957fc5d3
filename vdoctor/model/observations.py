"""What was seen: lines and the events read from them, samples, the end of the child."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vdoctor.model.words import EventKind


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output, terminator removed.

    `no` counts newline characters from 1, as an editor does; the parts of a line that carriage
    returns rewrite (progress bars) share one number. `arrived` is in seconds since the launch.
    """

    no: int
    text: str
    arrived: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A tqdm progress bar at one moment. `rate` is in items per second, `elapsed` in seconds."""

    desc: str
    done: int
    total: int
    elapsed: float | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class Event:
    """One line, understood: who wrote it, when, what it says.

    `text` is the message without prefixes, control sequences and log header; `shown` is the whole
    line as a person may see it (control sequences removed). `time` is in seconds on the log's own
    clock, of which only differences mean anything.
    """

    line: int
    kind: EventKind
    text: str
    shown: str
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    level: str | None = None
    source: str | None = None
    time: float | None = None
    bar: Bar | None = None
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Traceback:
    """A Python traceback as a block. `frames` are function names, outermost first; `line` is the exception's."""

    number: int
    process: str | None
    first_line: int
    last_line: int
    line: int
    frames: tuple[str, ...]
    exception: str
    message: str


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory on a GPU; bytes, None where the driver does not say (MIG, WSL). `name` as the system has it."""

    pid: int
    memory: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment; memory in bytes, utilisation in percent; None = not supported or not asked now.

    `power` in watts, PCIe rates in bytes per second, `throttle` holds NVML's names of the clock reasons that slow the
    GPU down, `ecc_errors` counts uncorrected ones, `lost`: it answered before and no longer does, and
    `fault` is the driver's word for that. `unified`: the GPU
    has no memory of its own (GB10, Jetson), and the figures are those of the system's. What used, free and total leave
    over is reserved by the driver.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: int | None = None
    memory_free: int | None = None
    power: float | None = None
    pcie_rx: int | None = None
    pcie_tx: int | None = None
    throttle: tuple[str, ...] = ()
    ecc_errors: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    lost: bool = False
    fault: str | None = None
    unified: bool = False


@dataclass(frozen=True, slots=True)
class Xid:
    """An Xid error that the driver reported for a GPU."""

    gpu: int
    code: int


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process of the tree. Times in seconds, sizes in bytes, all counted since it started.

    `role` is vLLM's name of it (`APIServer`, `EngineCore_DP0`, `Worker_TP1`), `compiler` or `resource_tracker`, None
    when unknown; `name` what the system calls it; `state` the letter of /proc/PID/stat (R S D T t Z ...), D also when
    only one of its threads is in D (then `wchan` is that thread's); `cpu_seconds` its own, children not included;
    `read_chars` counts read() calls, `read_bytes` what came from the storage (a memory-mapped file shows only there).
    """

    pid: int
    ppid: int
    name: str
    role: str | None = None
    state: str | None = None
    cpu_seconds: float = 0.0
    rss: int = 0
    threads: int | None = None
    read_bytes: int | None = None
    read_chars: int | None = None
    write_bytes: int | None = None
    wchan: str | None = None


@dataclass(frozen=True, slots=True)
class HostSample:
    """The process tree under watch and the host around it; sizes in bytes, None = cannot be read here.

    `processes` alive, `rss` their sum, `cpu_seconds` user + system of the tree, those that ended included; `net_received`
    counts since boot in the tree's network namespace, loopback left out, `tcp_received` what came to the tree's own
    connections (measured every few seconds); `downloading` is the size of the unfinished files
    (`*.incomplete`) of the Hugging Face cache that were written to since the launch; `cgroup_used` leaves out the file
    cache, which the kernel can drop; `oom_kills` counts in the tree's cgroup since that was made; `disk_free` by path.
    The last sample of a watch has no processes: it holds what was counted at the end.
    """

    processes: int
    rss: int
    cpu_seconds: float
    tree: tuple[ProcessSample, ...] = ()
    net_received: int | None = None
    downloading: int | None = None
    page_cache: int | None = None
    available: int | None = None
    shm_used: int | None = None
    shm_total: int | None = None
    cgroup_used: int | None = None
    cgroup_limit: int | None = None
    oom_kills: int | None = None
    disk_free: Mapping[str, int] = field(default_factory=dict)
    tcp_received: int | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack of one thread at a stall: frames `function (file:line)`, outermost first."""

    pid: int
    role: str | None
    thread: str
    frames: tuple[str, ...]
    source: Literal["py-spy", "proc", "log"]


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a process below the child, `t` seconds after the launch.

    `name` as the system called it; `status` as a shell shows it and `signal` where the kernel tells, else None.
    """

    t: float
    pid: int
    name: str
    status: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured `t` seconds after the launch; only what was measured now is there.

    `metrics` are values of the server's /metrics by name (labels summed, of shares the highest), `health` the status of
    GET /health: 0 = no answer; `deaths` are processes of the tree that ended, `kernel` new lines of the kernel's log that
    may concern them. `asked`: the user has asked for the end.
    """

    t: float
    gpus: tuple[GpuSample, ...] = ()
    host: HostSample | None = None
    xids: tuple[Xid, ...] = ()
    stacks: tuple[Stack, ...] = ()
    metrics: Mapping[str, float] | None = None
    health: int | None = None
    deaths: tuple[Death, ...] = ()
    kernel: tuple[str, ...] = ()
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """How the child ended: `status` as a shell shows it (128 + N after signal N).

    `asked` names the signal that the user sent through vdoctor, when there was one.
    """

    t: float
    status: int
    signal: str | None = None
    asked: str | None = None


Observation = Line | Sample | Exit
