"""Memory of the control group that a process runs in, version 2 and 1, in and out of containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vdoctor.live import procfs

#: Version 1 writes "no limit" as the largest page-aligned number; whatever is above this is none (1 PiB).
_NO_LIMIT = 1 << 50


class Limits(NamedTuple):
    """Bytes in use that cannot be dropped, the smallest limit that holds for it, kills by the OOM killer so far."""

    used: int | None
    limit: int | None
    oom_kills: int | None


class Cgroup:
    """The memory controller of one process; found once, since the files outlive the process."""

    def __init__(self, pid: int, root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> None:
        self._levels: list[Path] = []
        self._v2 = False
        listing = (procfs.read(str(proc / str(pid) / "cgroup")) or b"").decode("utf-8", "replace")
        for line in listing.splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if "memory" in controllers.split(",") and (
                levels := list(_levels(root / "memory", path, "memory.limit_in_bytes"))
            ):
                self._levels, self._v2 = levels, False
                break
            if not controllers and not self._levels:
                for base in (root, root / "unified"):
                    levels = list(_levels(base, path, "memory.current"))
                    if levels:
                        self._levels, self._v2 = levels, True
                        break

    def read(self) -> Limits:
        """What holds now; each part None where there is no controller or no limit."""
        if not self._levels:
            return Limits(None, None, None)
        limits = [(limit, level) for level in self._levels if (limit := self._limit(level)) is not None]
        limit, level = min(limits, default=(None, self._levels[0]), key=lambda one: one[0] or 0)
        return Limits(self._used(level), limit, self._kills(self._levels[0]))

    def _limit(self, level: Path) -> int | None:
        value = _number(level / ("memory.max" if self._v2 else "memory.limit_in_bytes"))
        return value if value is not None and value < _NO_LIMIT else None

    def _used(self, level: Path) -> int | None:
        """Without the file cache, which the kernel drops before it kills: a checkpoint that was read stays in it."""
        used = _number(level / ("memory.current" if self._v2 else "memory.usage_in_bytes"))
        if used is None:
            return None
        prefix = "" if self._v2 else "total_"
        stat = _table(level / "memory.stat")
        return max(0, used - stat.get(f"{prefix}active_file", 0) - stat.get(f"{prefix}inactive_file", 0))

    def _kills(self, level: Path) -> int | None:
        return _table(level / ("memory.events" if self._v2 else "memory.oom_control")).get("oom_kill")


def _levels(base: Path, path: str, needed: str) -> Iterator[Path]:
    """The group and those above it. In a container the path is the host's: what is mounted there is the group."""
    parts = [part for part in path.split("/") if part and part != ".."]
    for length in range(len(parts), -1, -1):
        level = base.joinpath(*parts[:length])
        if (level / needed).is_file():
            yield level


def _number(path: Path) -> int | None:
    data = procfs.read(str(path))
    text = (data or b"").strip()
    return int(text) if text.isdigit() else None


def _table(path: Path) -> dict[str, int]:
    """`name number` lines."""
    values = {}
    for line in (procfs.read(str(path)) or b"").decode("ascii", "replace").splitlines():
        name, _, number = line.partition(" ")
        if number.strip().isdecimal():
            values[name] = int(number)
    return values
