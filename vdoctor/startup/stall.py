"""What a stall is made of: kind and culprit, read from the state of the processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vdoctor.model import HostSample, StallKind, phase_of
from vdoctor.startup import patience as limits
from vdoctor.startup.pulse import BUSY, Pulse
from vdoctor.startup.tree import Tree

#: Kernel functions in which a process sleeps while storage answers (block devices, NFS, CIFS, FUSE, Ceph, Lustre, 9P).
_STORAGE = re.compile(
    r"folio|filemap|wait_on_page|lock_page|io_schedule|submit_bio|blk_|\b(?:nfs|rpc|cifs|smb|fuse|p9|cl|ll|xfs|ext4|btrfs)"
    r"\d?_|request_wait_answer|ceph"
)
#: ... and while another process holds a lock or owes a message.
_FILE_LOCK = re.compile(r"flock|posix_lock|locks_lock|fcntl_setlk|hrtimer_nanosleep|do_nanosleep")
_LOCK = re.compile(r"futex|" + _FILE_LOCK.pattern)
#: Steps in which files come from the hub: configuration first, weights later.
HUB_STEPS = (None, "launch.config", "launch.engine_start", "weight_load.download", "weight_load.init")
#: Little memory left: of the host in bytes, of a limit as a share (what the kernel can drop is not counted).
_AVAILABLE, _LIMIT = 256 << 20, 0.97

#: Bytes a second that are more than the pages of a program.
_READS = 1e6
#: One compiler follows the other with the work of their parent in between.
_BETWEEN_COMPILERS = 5.0


class Cause(NamedTuple):
    """Who everything waits for; None where nobody stands out."""

    kind: StallKind
    pulse: Pulse | None
    name: str | None = None


def is_short_of_memory(host: HostSample | None) -> bool:
    """The limit of the control group or the memory of the host is used up."""
    if host is None:
        return False
    if host.available is not None and host.available < _AVAILABLE:
        return True
    return bool(host.cgroup_limit) and (host.cgroup_used or 0) >= _LIMIT * (host.cgroup_limit or 0)


def idle_cause(tree: Tree, step: str | None, host: HostSample | None, hub: bool, broadcast: bool) -> Cause:
    """Nothing moves anywhere."""
    ends = tree.deepest()
    pulse = ends[0] if len(ends) == 1 else None
    # A driver makes processes wait in the same state: the GPU's, above all.
    blocked = next((p for p in tree.working() if p.state == "D" and _may_read(p, step)), None)
    if is_short_of_memory(host):
        return Cause("memory", blocked or pulse)
    if blocked is not None:
        return Cause("storage", blocked)
    compiler = next((p for p in tree.pulses.values() if p.is_compiler), None)
    if compiler is not None:
        return Cause("compile", compiler)
    if tree.dead:
        return dead_cause(tree)
    waits = [p.sample.wchan or "" for p in ends]
    if any(_STORAGE.search(wait) for wait in waits):
        return Cause("storage", next(p for p in ends if _STORAGE.search(p.sample.wchan or "")))
    if hub and step in HUB_STEPS:
        # The hub's client waits in futex for its threads, and polls in short sleeps for its file lock.
        held = not (host and host.downloading) and bool(waits) and all(_FILE_LOCK.search(wait) for wait in waits)
        return Cause("lock" if held else "download", pulse)
    if step == "launch.distributed_init":
        # Who is there waits for who is not: another node, or a rank that never came.
        return Cause("rank-behind", None)
    if broadcast or (waits and all(_LOCK.search(wait) for wait in waits)):
        return Cause("lock", pulse)
    return Cause("unknown", pulse)


def dead_cause(tree: Tree) -> Cause:
    """The rank or engine that died first."""
    return Cause("rank-dead", None, next(iter(tree.dead.values())))


def stopped_cause(tree: Tree, now: float, stall_after: float | None) -> tuple[Cause, float, tuple[str, ...]] | None:
    """The process in state T that stops the rest, for how many seconds, and who waits for it; None without one."""
    held = [
        pulse
        for pulse in tree.pulses.values()
        if pulse.state in ("T", "t")
        and not pulse.is_helper
        and now - pulse.state_since >= limits.confirmation(pulse.state, stall_after)
    ]
    if not held:
        return None
    chief = max(held, key=lambda p: (p.is_worker, p.is_engine, -p.pid))
    still = {p.pid for p in held}
    waiting = tuple(name for pid, name in tree.named(chief) if pid not in still)
    return Cause("stopped", chief), now - chief.state_since, waiting


def _may_read(pulse: Pulse, step: str | None) -> bool:
    """Where the kernel does not say what it waits for, the step does."""
    wait = pulse.sample.wchan
    if wait in (None, "", "0"):
        return step in (None, "launch.config", "launch.engine_start") or phase_of(step) == "weight_load"
    return _STORAGE.search(wait or "") is not None


class Standing(NamedTuple):
    """A group of ranks in which nothing but processor use is seen."""

    cause: Cause
    waiting: tuple[Pulse, ...]


def group_cause(
    ranks: Sequence[Pulse], now: float, quiet: float, behind: float, spin: float, step: str | None, gpus_full: bool
) -> Standing | None:
    """Ranks that spin because another one does not come; None when that is not proven.

    `quiet`: seconds in which none of them read, grew or printed; `behind`: seconds without any use of its processor
    that prove one rank absent while others spin; `spin`: seconds after which ranks that all spin wait for each other;
    `gpus_full`: all GPUs were at 100 % all that time.
    """
    busy = tuple(p for p in ranks if p.spins)
    if quiet < min(behind, spin) or not busy:
        return None
    idle = [p for p in ranks if now - p.busy_at >= behind]
    if idle and quiet >= behind:
        blocked = idle[0].state == "D" and _may_read(idle[0], step)
        kind: StallKind = "storage" if blocked else "rank-behind"
        return Standing(Cause(kind, idle[0]), tuple(p for p in ranks if p not in idle))
    if quiet >= spin and len(busy) == len(ranks) and (gpus_full or step == "launch.distributed_init"):
        return Standing(Cause("collective", None), tuple(ranks))
    return None


def doing(tree: Tree, now: float, step: str | None, downloads: bool) -> str:
    """What is seen to move, in one word."""
    if tree.compiled_at is not None and now - tree.compiled_at <= _BETWEEN_COMPILERS:
        return "compiling"
    if downloads:
        return "downloading"
    shares = [p.share for p in tree.working()]
    busy = any((share or 0.0) >= BUSY for share in shares)
    reads = max((p.read_rate for p in tree.pulses.values()), default=0.0)
    grows = step == "weight_load.read" and any(p.growth_rate for p in tree.deepest())
    if step is not None and phase_of(step) == "weight_load" and (reads >= _READS or grows):
        return "reading"
    if step == "graph_capture.capture":
        return "capturing"
    if any(share is None for share in shares):
        return "starting"
    return "computing" if busy else "reading" if step == "weight_load.read" and reads else "waiting"
