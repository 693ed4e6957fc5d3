"""Dumps of stacks as text to `Stack`s: py-spy's JSON, the kernel's files in /proc, faulthandler's dump in a log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from vdoctor.model import Event, Stack

#: A vLLM process has hundreds of threads that wait in a pool and say nothing; a runaway recursion has endless frames.
MAX_THREADS, MAX_FRAMES = 64, 80
_KERNEL_FRAME = re.compile(r"\[<[^<>]{0,40}>\] ([\w.]{1,200})\+")
#: The system calls in which a start-up waits, by machine (arch/x86/entry/syscalls/syscall_64.tbl, asm-generic/unistd.h).
_CALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {
        0: "read",
        1: "write",
        7: "poll",
        9: "mmap",
        17: "pread64",
        23: "select",
        35: "nanosleep",
        42: "connect",
        43: "accept",
        45: "recvfrom",
        47: "recvmsg",
        61: "wait4",
        72: "fcntl",
        73: "flock",
        202: "futex",
        230: "clock_nanosleep",
        232: "epoll_wait",
        247: "waitid",
        257: "openat",
        271: "ppoll",
        281: "epoll_pwait",
    },
    "aarch64": {
        22: "epoll_pwait",
        25: "fcntl",
        32: "flock",
        56: "openat",
        63: "read",
        64: "write",
        67: "pread64",
        72: "pselect6",
        73: "ppoll",
        95: "waitid",
        98: "futex",
        101: "nanosleep",
        115: "clock_nanosleep",
        202: "accept",
        203: "connect",
        207: "recvfrom",
        212: "recvmsg",
        222: "mmap",
        260: "wait4",
    },
}


def from_py_spy(text: str, role: str | None) -> tuple[Stack, ...]:
    """`py-spy dump --json`: one Stack a thread that has a frame with a name. Raises ValueError when it is none."""
    data = json.loads(text)
    if not isinstance(data, list):
        raise ValueError("py-spy's dump is a list of threads")
    found = [_thread(entry, role) for entry in data if isinstance(entry, dict)]
    return tuple(stack for stack in found if stack.frames)[:MAX_THREADS]


def _thread(entry: Mapping[str, Any], role: str | None) -> Stack:
    frames = []
    for frame in entry.get("frames") or ():
        name = str(frame.get("name"))
        # Native code without symbols: an address tells nothing and differs in each run.
        if not name.startswith("0x"):
            place = str(frame.get("short_filename") or frame.get("filename"))
            frames.append(f"{name} ({place}:{int(frame.get('line') or 0)})")
    name = str(entry.get("thread_name") or entry.get("os_thread_id") or entry.get("thread_id"))
    return Stack(int(entry.get("pid") or 0), role, name, outermost_first(frames), "py-spy")


def outermost_first(frames: list[str]) -> tuple[str, ...]:
    """Frames as every dumper prints them (innermost first), turned round; of too many the innermost stay."""
    return tuple(reversed(frames[:MAX_FRAMES]))


def from_kernel(
    pid: int, role: str | None, thread: str, state: str, machine: str, files: Mapping[str, str]
) -> Stack | None:
    """What /proc tells without a debugger: `files` holds the texts of `stack`, `wchan` and `syscall` that could be read.

    Frames are the kernel's functions with the place `kernel:0`, below them the system call as `read (syscall:0)`,
    and `state D (kernel:0)` outermost. None where nothing but the state is known.
    """
    inner = [f"{name} (kernel:0)" for name in _KERNEL_FRAME.findall(files.get("stack", ""))]
    wchan = files.get("wchan", "").strip()
    if not inner and wchan not in ("", "0"):
        inner = [f"{wchan} (kernel:0)"]
    number = files.get("syscall", "").split(" ")[0]
    if number.isdigit():
        call = _CALLS.get(machine, {}).get(int(number), f"syscall-{number}")
        inner.append(f"{call} (syscall:{number})")
    if not inner:
        return None
    return Stack(pid, role, thread, outermost_first([*inner, f"state {state} (kernel:0)"]), "proc")


_FATAL = re.compile(r"^Fatal Python error: (.{1,120})")
_THREAD = re.compile(r"^(Current t|T)hread (0x[0-9a-f]+)(?: \[[^\]]{0,40}\])? \(most recent call first\):")
_FRAME = re.compile(r'^\s*File "(.{1,400}?)", line (\d{1,8}) in (.{1,200})$')
#: What begins a dump; no other line matters before.
PATTERNS = (_FATAL.pattern, _THREAD.pattern)


#: process id, process, thread, frames as printed
_Thread = tuple[int, "str | None", str, list[str]]


class FaultReader:
    """Finds faulthandler's dumps (PYTHONFAULTHANDLER=1, a crash, a watchdog) in the events of a log.

    `error` is what Python said ended it ("Segmentation fault"), `line` where; `stacks` are those of the last dump, the
    thread that failed first.
    """

    def __init__(self) -> None:
        self.error: str | None = None
        self.line: int | None = None
        self._threads: list[_Thread] = []
        self._frames: list[str] = []
        self._open = False

    def feed(self, event: Event) -> None:
        """Take the next event."""
        text = event.text
        if "Fatal Python error" in text and (found := _FATAL.match(text)):
            self.error, self.line = found[1].strip(), event.line
            self._threads.clear()
            self._open = False
        elif "most recent call first" in text and (found := _THREAD.match(text)):
            if not self._open and not self.error:
                self._threads.clear()
            self._threads = self._threads[:MAX_THREADS]
            thread: _Thread = (event.pid or 0, event.process, found[2], [])
            # The thread that failed is not always printed first.
            self._threads.insert(0 if found[1] == "Current t" else len(self._threads), thread)
            self._frames = thread[3]
            self._open = True
        elif self._open:
            frame = _FRAME.match(text)
            if frame is not None:
                self._frames.append(f"{frame[3]} ({_short(frame[1])}:{frame[2]})")
            elif text.strip():
                self._open = False

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The threads of the last dump."""
        return tuple(
            Stack(pid, role, thread, outermost_first(frames), "log") for pid, role, thread, frames in self._threads
        )


def _short(path: str) -> str:
    """From the package on, as py-spy shortens it: `vllm/v1/worker/gpu_worker.py`."""
    for folder in ("site-packages/", "dist-packages/"):
        if folder in path:
            return path.rpartition(folder)[2]
    return path.rpartition("/")[2]
