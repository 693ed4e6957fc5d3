"""What the system says: `df` of /dev/shm, `free`, /proc/meminfo, the kernel log."""

from __future__ import annotations

import functools
import re

from vdoctor.facts.sizes import mib
from vdoctor.facts.spots import Spot, SpotSet, state
from vdoctor.model import Event, Fact

_DF_SIZE = r"\d{1,12}(?:\.\d{1,3})?[KMGT]?"
_DF = re.compile(
    rf"\S{{1,200}}\s{{1,80}}(?P<size>{_DF_SIZE})\s{{1,40}}{_DF_SIZE}\s{{1,40}}(?P<free>{_DF_SIZE})\s{{1,40}}\d{{1,3}}%\s{{1,40}}/dev/shm\s{{0,40}}$"
)
# `free -h`: total, used, free, shared, buff/cache, available. Without -h the unit is anyone's guess.
_FREE = re.compile(r"Mem:(?P<cells>(?:\s{1,40}\d{1,9}(?:\.\d{1,3})?[KMGT]i?){6})\s{0,40}$")
_XID = re.compile(r"NVRM: (?:GPU\d{0,3} ?)?Xid \((?P<pci>[^)]{1,40})\): (?P<xid>\d{1,4})\b")


def _kib_to_gib(text: str) -> float:
    return round(int(text) / 2**20, 2)


SPOTS: tuple[Spot, ...] = (
    Spot(r"^\s{0,8}MemTotal:\s{1,40}(?P<a>\d{1,15}) kB", {"a": ("host.total_gib", _kib_to_gib)}),
    Spot(r"^\s{0,8}MemAvailable:\s{1,40}(?P<a>\d{1,15}) kB", {"a": ("host.free_gib", _kib_to_gib)}),
    Spot(
        r"(?:Out of memory|out of memory): Kill(?:ed)? process \d{1,9} \((?P<a>[^)]{1,60})\)",
        {"a": ("host.killed", str)},
    ),
    Spot(r"oom-kill:.{1,1500},task=(?P<a>[^,]{1,60}),pid=", {"a": ("host.killed", str)}),
    Spot(r"oom_reaper: reaped process \d{1,9} \((?P<a>[^)]{1,60})\)", {"a": ("host.killed", str)}),
    # When the module is loaded, and in /proc/driver/nvidia/version.
    Spot(
        r"NVRM.{1,20}: .{0,20}NVIDIA UNIX \S{1,40} Kernel Module .{0,20}?(?P<a>\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)",
        {"a": ("driver.version", str)},
    ),
)


@functools.cache
def _spots() -> SpotSet:
    return SpotSet(SPOTS)


class SystemFacts:
    """Fed with the lines of a ticket."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self._address: str | None = None

    def feed(self, event: Event) -> None:
        """Take the next line."""
        text = event.text
        for name, value in _spots().read(text):
            state(self.facts, name, value, event.line)
        if "/dev/shm" in text and (shm := _DF.match(text)):
            self._shared_memory(shm, event.line)
        elif "Mem:" in text and (memory := _FREE.match(text.lstrip())):
            self._memory(memory["cells"].split(), event.line)
        elif "Xid (" in text and (xid := _XID.search(text)):
            self._fault(xid, event.line)

    def _shared_memory(self, found: re.Match[str], line: int) -> None:
        # Without -h, df counts in KiB.
        for name, group in (("shm.size_mib", "size"), ("shm.free_mib", "free")):
            size = mib(found[group], bare="k")
            if size is not None:
                state(self.facts, name, round(size), line)

    def _memory(self, cells: list[str], line: int) -> None:
        for name, cell in (("host.total_gib", cells[0]), ("host.free_gib", cells[-1])):
            size = mib(cell)
            if size is not None:
                state(self.facts, name, round(size / 1024, 2), line)

    def _fault(self, found: re.Match[str], line: int) -> None:
        """With faults of several GPUs no single one is to blame."""
        state(self.facts, "gpu.xid", int(found["xid"]), line)
        if self._address is None:
            self._address = found["pci"]
            state(self.facts, "gpu.pci", found["pci"], line)
        elif self._address != found["pci"]:
            self.facts.pop("gpu.pci", None)
