"""Files of /proc as values. Every reader gives None where the file is gone, hidden or not there (other systems)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")


class Stat(NamedTuple):
    """What /proc/PID/stat says. Times in seconds, `rss` in bytes; `reaped` is the time of children that were waited for."""

    pid: int
    name: str
    state: str
    ppid: int
    session: int
    cpu: float
    reaped: float
    threads: int
    started: int
    rss: int


class Io(NamedTuple):
    """What /proc/PID/io says, in bytes since the process started."""

    read_chars: int
    read_bytes: int
    write_bytes: int


def read(path: str, size: int = 1 << 16) -> bytes | None:
    """The first bytes of a file; one open, one read: /proc answers in one piece."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, size)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat(pid: int) -> Stat | None:
    """The state of a process; None when it is gone."""
    return parse_stat(read(f"/proc/{pid}/stat"))


def parse_stat(data: bytes | None) -> Stat | None:
    """`17 (name (odd)) S 1 ...`: the name may hold spaces and brackets, so the fields start behind the last one."""
    if not data:
        return None
    head, _, rest = data.rpartition(b")")
    pid, _, name = head.partition(b" (")
    words = rest.split()
    try:
        return Stat(
            pid=int(pid),
            name=name.decode("utf-8", "replace"),
            state=words[0].decode("ascii", "replace"),
            ppid=int(words[1]),
            session=int(words[3]),
            cpu=(int(words[11]) + int(words[12])) / _TICKS,
            reaped=(int(words[13]) + int(words[14])) / _TICKS,
            threads=int(words[17]),
            started=int(words[19]),
            rss=int(words[21]) * _PAGE,
        )
    except (ValueError, IndexError):
        return None


def io(pid: int) -> Io | None:
    """Bytes read and written; None for processes of other users."""
    data = read(f"/proc/{pid}/io")
    if not data:
        return None
    values = dict(line.split(b": ", 1) for line in data.splitlines() if b": " in line)
    try:
        return Io(int(values[b"rchar"]), int(values[b"read_bytes"]), int(values[b"write_bytes"]))
    except (KeyError, ValueError):
        return None


def wchan(pid: int, thread: int | None = None) -> str | None:
    """Kernel function in which a process (or one thread) sleeps; None when it runs or the kernel does not say."""
    data = read(f"/proc/{pid}/wchan" if thread is None else f"/proc/{pid}/task/{thread}/wchan")
    text = (data or b"").decode("ascii", "replace").strip("\0\n ")
    return None if text in ("", "0") else text


def blocked_thread(pid: int, most: int) -> str | None:
    """The wait channel of a thread in uninterruptible sleep (D), `?` when it is not told; None when no thread is.

    A process whose main thread waits for its loader threads looks asleep: the storage shows in these.
    """
    for thread in _numbers(f"/proc/{pid}/task")[:most]:
        # Hundreds of threads: only the letter behind the name is looked at.
        data = read(f"/proc/{pid}/task/{thread}/stat", 256) or b""
        if data[data.rfind(b")") + 2 :][:1] == b"D":
            return wchan(pid, thread) or "?"
    return None


def words(pid: int) -> list[str]:
    """The command line of a process, or its title where it gave itself one; empty when it cannot be read."""
    data = read(f"/proc/{pid}/cmdline") or b""
    return [word.decode("utf-8", "replace") for word in data.rstrip(b"\0 ").split(b"\0")] if data else []


def environ(pid: int) -> dict[str, str] | None:
    """The environment that a process was started with."""
    data = read(f"/proc/{pid}/environ", 1 << 20)
    if data is None:
        return None
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in data.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs}


def pids() -> list[int]:
    """All processes that this namespace shows."""
    return _numbers("/proc")


def _numbers(folder: str) -> list[int]:
    try:
        with os.scandir(folder) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError:
        return []


def meminfo() -> dict[str, int]:
    """/proc/meminfo in bytes; empty where it cannot be read."""
    values = {}
    for line in (read("/proc/meminfo") or b"").splitlines():
        name, _, rest = line.partition(b":")
        number = rest.split()[:1]
        if number and number[0].isdigit():
            values[name.decode("ascii", "replace")] = int(number[0]) * 1024
    return values


def received(pid: int) -> int | None:
    """Bytes that came in over the network interfaces of a process's namespace since boot; the loopback is left out."""
    data = read(f"/proc/{pid}/net/dev")
    if data is None:
        return None
    total = 0
    for line in data.decode("ascii", "replace").splitlines()[2:]:
        name, _, rest = line.partition(":")
        numbers = rest.split()[:1]
        if name.strip() != "lo" and numbers and numbers[0].isdecimal():
            total += int(numbers[0])
    return total


def sees_all() -> bool:
    """Whether this is the first PID namespace (PROC_PID_INIT_INO of the kernel): numbers mean the same for the driver."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"
    except OSError:
        return False


def exists() -> bool:
    """Whether this system has the /proc of Linux."""
    return Path("/proc/self/stat").exists()
