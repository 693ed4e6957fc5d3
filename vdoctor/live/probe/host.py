"""The host: memory, shared memory, limits, user, container."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from vdoctor.live.probe.finding import Seen

_GIB, _MIB = 1 << 30, 1 << 20
#: Values of memory.limit_in_bytes (cgroup v1) at and above this mean "no limit".
_NO_LIMIT = 1 << 60
_LIMIT = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
_USED = ("sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory/memory.usage_in_bytes")


def host(root: Path = Path("/")) -> Seen:
    """Facts about memory and limits of this machine; `root` is where /proc and /sys hang (for tests)."""
    seen = Seen()
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    limit = cgroup_limit(root)
    total = memory.total if limit is None else min(memory.total, limit)
    seen.add("host.total_gib", round(total / _GIB, 2), "probe:memory")
    seen.add("host.free_gib", round(min(memory.available, total) / _GIB, 2), "probe:memory")
    seen.add("host.swap_gib", round(swap.total / _GIB, 2), "probe:memory")
    if limit is not None and limit < memory.total:
        seen.add("host.limit_gib", round(limit / _GIB, 2), "probe:cgroup")
    _system(seen, root)
    _limits(seen)
    _shm(seen, root)
    return seen


def cgroup_limit(root: Path) -> int | None:
    """The memory limit of our control group in bytes, None where there is none."""
    return _bytes_of(root, _LIMIT)


def cgroup_used(root: Path) -> int | None:
    """What our control group uses, in bytes; None where that is not told."""
    return _bytes_of(root, _USED)


def _bytes_of(root: Path, places: Sequence[str]) -> int | None:
    """The number in the first of these files that holds one: that of version 2, else of version 1."""
    for place in places:
        try:
            text = (root / place).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal() and int(text) < _NO_LIMIT:
            return int(text)
    return None


def _system(seen: Seen, root: Path) -> None:
    release = platform.release()
    seen.add("os.name", f"{platform.system()} {release}", "probe:uname")
    if sys.platform == "linux":
        seen.add("os.wsl", "microsoft" in release.lower(), "probe:uname")
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        seen.add("os.glibc", version if name == "glibc" and version else None, "probe:libc")
        seen.add("host.container", _container(root), "probe:container")


def _container(root: Path) -> str:
    """docker, podman, kubernetes, or none."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    return "podman" if (root / "run/.containerenv").exists() else "none"


def _limits(seen: Seen) -> None:
    if sys.platform == "win32":
        return
    import pwd
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen.add("proc.open_files", None if soft == resource.RLIM_INFINITY else soft, "probe:ulimit")
    for fact, name in (("proc.memlock_kib", "RLIMIT_MEMLOCK"), ("proc.processes", "RLIMIT_NPROC")):
        number = getattr(resource, name, None)
        if number is not None and (value := resource.getrlimit(number)[0]) != resource.RLIM_INFINITY:
            seen.add(fact, value // 1024 if fact.endswith("kib") else value, "probe:ulimit")
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        # torch takes the name from the environment first (getpass.getuser).
        if not any(os.environ.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME")):
            seen.add("proc.uid", os.getuid(), "probe:passwd")


def _shm(seen: Seen, root: Path) -> None:
    place = root / "dev/shm"
    if sys.platform != "linux" or not place.is_dir():
        return
    room = os.statvfs(place)
    seen.add("shm.size_mib", room.f_blocks * room.f_frsize // _MIB, "probe:/dev/shm")
    seen.add("shm.free_mib", room.f_bavail * room.f_frsize // _MIB, "probe:/dev/shm")
