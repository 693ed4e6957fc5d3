"""Facts from lines of the kernel's log: whom it killed for memory, what a GPU reported, where a process crashed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from vdoctor.model import Fact

_SOURCE = "dmesg"
_KILLED = re.compile(r"[Oo]ut of memory: Killed process (?P<pid>\d{1,9}) \((?P<name>[^)]{1,40})\)")
_RSS = re.compile(r"\banon-rss:(?P<kib>\d{1,15})kB")
_XID = re.compile(r"NVRM: (?:GPU\d* ?)?Xid \((?P<pci>[^)]{1,40})\): (?P<xid>\d{1,4})\b")
_CRASH = re.compile(
    r"^(?P<name>.{1,40})\[(?P<pid>\d{1,9})\](?:: | )(?:segfault at|traps: |trap |general protection|bus error)"
)
_LIBRARY = re.compile(r" in (?P<library>[\w.+\-]{1,80})\[[0-9a-f]")
_INTEREST = re.compile(
    r"[Oo]ut of memory|oom-kill|invoked oom-killer|NVRM:|segfault at|traps: | trap |general protection"
    r"|I/O error|nfs: server|hung_task|blocked for more than"
)


def of_interest(line: str) -> bool:
    """Whether a line of the kernel's log may explain a death or a stall."""
    return _INTEREST.search(line) is not None


def kernel_facts(lines: Iterable[str], pids: Collection[int]) -> dict[str, Fact]:
    """`pids` are the processes of the tree, dead ones included: what happened to others is no fact of ours.

    Xid lines count for any process: a GPU that failed fails for all.
    """
    facts: dict[str, Fact] = {}
    kills = 0
    for line in lines:
        if (found := _KILLED.search(line)) and int(found["pid"]) in pids:
            kills += 1
            facts["host.killed"] = Fact(found["name"], _SOURCE)
            if rss := _RSS.search(line):
                facts["host.killed_gib"] = Fact(round(int(rss["kib"]) / (1 << 20), 2), _SOURCE)
        elif found := _XID.search(line):
            facts.setdefault("gpu.xid", Fact(int(found["xid"]), _SOURCE))
            facts.setdefault("gpu.pci", Fact(found["pci"], _SOURCE))
        elif (found := _CRASH.search(line)) and int(found["pid"]) in pids:
            if library := _LIBRARY.search(line):
                facts.setdefault("fault.library", Fact(library["library"], _SOURCE))
    if kills:
        facts["exit.oom_kills"] = Fact(kills, _SOURCE)
    return facts
