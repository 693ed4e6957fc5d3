"""Stand-ins for vLLM's processes: named as vLLM names them, and busy, blocked or stopped as a scenario asks.

Each one is a small Python program that takes the names of behaviours on its standard input. Nothing here needs vLLM.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

#: What a stand-in can do.
BEHAVIOURS = ("idle", "spin", "read", "compile", "blocked", "stopped")

_PROGRAM = r"""
import os, select, signal, subprocess, sys, time
mode = "idle"
path, python, title = sys.argv[1:]
def named(title):
    try:
        open("/proc/self/comm", "w").write(title[:15])
    except OSError:
        pass
named(title)
def told(seconds):
    if not select.select([0], [], [], seconds)[0]:
        return None
    line = os.read(0, 4096)
    if not line:
        os._exit(0)
    return line.decode().split()[-1]
while True:
    mode = told(0.0 if mode in ("spin", "read") else 0.2) or mode
    if mode == "spin":
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
    elif mode == "read":
        # Out of the page cache, so that the storage is asked again; a file system without one counts calls alone.
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        while os.read(fd, 1 << 20):
            pass
        os.close(fd)
        time.sleep(0.02)
    elif mode == "compile":
        compiler = "open('/proc/self/comm', 'w').write('cc1plus'); sum(range(3_000_000))"
        subprocess.run(["cc1plus", "-S", "-E", "-c", compiler], executable=python)
    elif mode == "blocked":
        reader, writer = os.pipe()
        os.read(reader, 1)
    elif mode == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
        mode = "idle"
"""


class Actor:
    """One stand-in; ends with its parent, whose end of the pipe it watches."""

    def __init__(self, title: str, data: Path) -> None:
        """`title` is what `ps` shows (`VLLM::Worker_TP0`); `data` a file to read from."""
        self._process = subprocess.Popen(
            [title, "-S", "-E", "-c", _PROGRAM, str(data), sys.executable, title],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.pid = self._process.pid
        self._now = "idle"

    def do(self, behaviour: str) -> None:
        """Change what it does; a stopped one goes on first. Raises ValueError for an unknown behaviour."""
        if behaviour not in BEHAVIOURS:
            raise ValueError(f"{behaviour!r} is none of {', '.join(BEHAVIOURS)}")
        if behaviour == self._now or self._process.stdin is None:
            return
        self._now = behaviour
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)
            self._process.stdin.write(f"{behaviour}\n".encode())
            self._process.stdin.flush()

    def die(self, signum: int = signal.SIGKILL) -> None:
        """End it by a signal."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signum)
            self._process.send_signal(signal.SIGCONT)
        self._process.wait()
