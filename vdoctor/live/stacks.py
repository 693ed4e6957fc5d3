"""Dumps the stacks of processes that stand still, in a thread of its own: with py-spy, else from /proc."""

from __future__ import annotations

import contextlib
import platform
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from vdoctor.intake.stacks import MAX_THREADS, from_kernel, from_py_spy
from vdoctor.model import Sample, Stack

#: Reading the symbols of libtorch takes seconds on a slow disk; a dump that takes longer is given up.
_LIMIT_S = 20.0
#: The engine, its workers and the API server of one machine.
_MAX_PROCESSES = 20
_PROC = Path("/proc")


class StackDumper:
    """`request` a dump, `take` it when it is there. One dump at a time; nothing here waits for a dump."""

    def __init__(self, now: Callable[[], float], py_spy: str | None = None) -> None:
        """`now`: seconds since the launch; `py_spy`: its command, found by itself when None, not used when empty."""
        self._now = now
        self._py_spy = (py_spy if py_spy is not None else find_py_spy()) or None
        self._queue: queue.SimpleQueue[Sample] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        #: why py-spy gave nothing: `missing`, `ptrace_scope=N` (Yama's), `no-ptrace`, or what it said itself
        self.refused: str | None = None if self._py_spy else "missing"

    @property
    def busy(self) -> bool:
        """A dump is under way."""
        return self._thread is not None and self._thread.is_alive()

    def request(self, processes: Sequence[tuple[int, str | None]]) -> bool:
        """Dump these (pid, role); False while another dump is under way."""
        if self.busy:
            return False
        chosen = list(processes)[:_MAX_PROCESSES]
        self._thread = threading.Thread(target=self._run, args=(chosen,), name="vdoctor-stacks", daemon=True)
        self._thread.start()
        return True

    def take(self) -> list[Sample]:
        """Dumps that are ready."""
        ready = []
        while not self._queue.empty():
            ready.append(self._queue.get())
        return ready

    def wait(self, seconds: float) -> None:
        """Give a dump that is under way so long to end."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, processes: Sequence[tuple[int, str | None]]) -> None:
        t = self._now()
        stacks: list[Stack] = []
        seen = False
        for pid, role in processes:
            own = self._with_py_spy(pid, role)
            seen = seen or bool(own)
            stacks += own or from_proc(pid, role)
        if seen:
            # One that ended meanwhile is no reason to complain.
            self.refused = None
        if stacks:
            self._queue.put(Sample(t, stacks=tuple(stacks)))

    def _with_py_spy(self, pid: int, role: str | None) -> list[Stack]:
        if self._py_spy is None or not is_python(pid):
            return []
        # A stopped process cannot be suspended, and must stay as it is.
        ways = (["--nonblocking"],) if state_of(pid) in ("T", "t") else (["--native"], ["--nonblocking"])
        for way in ways:
            try:
                done = subprocess.run(
                    [self._py_spy, "dump", "--json", *way, "--pid", str(pid)],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_LIMIT_S,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                self.refused = f"py-spy: {error}"
                continue
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                if done.returncode == 0:
                    return list(from_py_spy(done.stdout, role))
            self.refused = _reason(done.stderr)
        return []


def find_py_spy() -> str | None:
    """The command beside our interpreter, else on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def is_python(pid: int) -> bool:
    """Whether an interpreter is mapped into the process: py-spy takes a second to give up on others."""
    try:
        return "python" in (_PROC / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        # May not be read: let py-spy say why.
        return True


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat, empty when the process is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def from_proc(pid: int, role: str | None) -> list[Stack]:
    """The kernel's view of each thread; empty where it may not be read or the process runs in user code."""
    found: list[Stack] = []
    with contextlib.suppress(OSError):
        for task in sorted((_PROC / str(pid) / "task").iterdir(), key=lambda path: int(path.name))[:MAX_THREADS]:
            files: dict[str, str] = {}
            for name in ("stack", "wchan", "syscall"):
                with contextlib.suppress(OSError):
                    files[name] = (task / name).read_text(errors="replace")
            thread = ""
            with contextlib.suppress(OSError):
                thread = (task / "comm").read_text(errors="replace").strip()
            stack = from_kernel(pid, role, f"{task.name} {thread}", state_of(int(task.name)), platform.machine(), files)
            if stack is not None:
                found.append(stack)
    return found


def _reason(error: str) -> str:
    """Why py-spy may not look, in the words of `StackDumper.refused`."""
    lines = [line for line in error.splitlines() if line.strip()]
    first = lines[0] if lines else "no answer"
    if "ermission" not in error:
        return f"py-spy: {first}"
    scope = ""
    with contextlib.suppress(OSError):
        scope = (_PROC / "sys/kernel/yama/ptrace_scope").read_text().strip()
    if scope in ("1", "2", "3"):
        return f"ptrace_scope={scope}"
    return "no-ptrace"
