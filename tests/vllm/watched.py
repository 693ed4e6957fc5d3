"""Run a real vLLM under ``vdoctor watch``, as a user would, and record what happened.

A ``Watch`` is a running command; ``Watch.finish`` ends it and gives a
``Watched``, which holds everything the tests look at. Whatever happens, leaving
the ``with`` block kills every process that the command started.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.processes import default_signals

# A cold start takes 60-100 s on two idle cores; with six other busy processes each of these runs
# has been seen to take three minutes.
READY_TIMEOUT_S = 600.0
END_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 60.0
ANALYZE_TIMEOUT_S = 60.0
# Workers of a server that was killed see the closed pipe and leave by themselves.
GONE_TIMEOUT_S = 10.0
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Found in the environment of every process of one run, however it was started.
RUN_VARIABLE = "VDOCTOR_TEST_RUN"


class RealVllm(NamedTuple):
    """What tools/real_vllm.py made."""

    vllm: str
    python: str
    model: str
    deep_model: str
    cache: str


class Arrival(NamedTuple):
    """A line of the server as it came out of ``vdoctor watch``."""

    at: float  # seconds since vdoctor was started
    text: str


class Watched(NamedTuple):
    """A run that is over."""

    argv: list[str]  # the server's command, without vdoctor
    status: int  # vdoctor's exit status
    stdout: bytes
    stderr: bytes
    arrivals: list[Arrival]  # lines of both streams
    session: Path
    report: dict[str, Any]
    left: list[str]  # processes that outlived vdoctor

    @property
    def log(self) -> bytes:
        """The server's output as the session holds it."""
        return (self.session / "log.txt").read_bytes()

    @property
    def first(self) -> dict[str, Any]:
        """The leading finding."""
        findings: list[dict[str, Any]] = self.report["findings"]
        assert findings, f"no finding: {self.stdout[-3000:]!r} {self.stderr[-3000:]!r}"
        return findings[0]


def free_port() -> int:
    """A port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_environment(real: RealVllm, run_id: str) -> dict[str, str]:
    """The caller's environment with vLLM's own settings replaced."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VLLM_")}
    return kept | {
        RUN_VARIABLE: run_id,
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
        "VLLM_CACHE_ROOT": real.cache,
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


class Watch:
    """``vdoctor watch`` and the process tree below it."""

    def __init__(
        self,
        real: RealVllm,
        folder: Path,
        argv: Sequence[str],
        on_line: Callable[[str], None] | None = None,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.argv = list(argv)
        self._options = list(options)
        self.session = folder / "session"
        self.report_file = folder / "report.json"
        self.arrivals: list[Arrival] = []
        self._on_line = on_line
        self._run_id = uuid.uuid4().hex
        self._seen: set[psutil.Process] = set()
        self._over = threading.Event()
        self._streams: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=server_environment(real, self._run_id) | dict(env or {}),
            start_new_session=True,
            preexec_fn=_of_the_tests,
        )
        self._threads = [
            threading.Thread(target=self._read, args=("stdout",), daemon=True),
            threading.Thread(target=self._read, args=("stderr",), daemon=True),
        ]
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        for thread in (*self._threads, self._sampler):
            thread.start()

    def _command(self) -> list[str]:
        return [
            sys.executable,
            "-m",
            "vdoctor",
            "watch",
            "-q",
            "--session",
            str(self.session),
            "--format",
            "json",
            "--output",
            str(self.report_file),
            *self._options,
            "--",
            *self.argv,
        ]

    def _read(self, name: str) -> None:
        pipe = getattr(self.process, name)
        for raw in pipe:
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            self._streams[name].append(raw)
            self.arrivals.append(Arrival(time.monotonic() - self._started, text))
            if self._on_line is not None:
                self._on_line(text)

    def _sample(self) -> None:
        """Note every descendant, also those that are orphans later.

        A process that sets its title overwrites its environment block, so
        looking for the variable alone would miss the engine and its workers.
        """
        while not self._over.wait(0.3):
            with contextlib.suppress(psutil.NoSuchProcess):
                self._seen.update(psutil.Process(self.process.pid).children(recursive=True))

    def output(self) -> str:
        """Both streams so far, for messages."""
        return "\n".join(f"{arrival.at:7.2f} {arrival.text}" for arrival in self.arrivals[-60:])

    def wait_until_served(self, port: int) -> None:
        """Wait for ``/health``; AssertionError when the server ends or takes too long."""
        limit = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < limit:
            assert self.process.poll() is None, f"ended before it served:\n{self.output()}"
            if _answers(f"http://127.0.0.1:{port}/health"):
                return
            time.sleep(0.2)
        raise AssertionError(f"not ready after {READY_TIMEOUT_S:.0f} s:\n{self.output()}")

    def finish(self, timeout: float = END_TIMEOUT_S) -> Watched:
        """Wait until vdoctor has ended; AssertionError after ``timeout`` seconds."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {timeout:.0f} s:\n{self.output()}") from None
        self._over.set()
        self._sampler.join()
        left = self._survivors(GONE_TIMEOUT_S)
        for thread in self._threads:
            # A process that is left over holds the pipe open: no wait for ever.
            thread.join(GONE_TIMEOUT_S)
        stdout, stderr = (b"".join(self._streams[name]) for name in ("stdout", "stderr"))
        assert self.report_file.exists(), f"no report; status {status}, stderr:\n{stderr.decode()}"
        return Watched(
            argv=self.argv,
            status=status,
            stdout=stdout,
            stderr=stderr,
            arrivals=sorted(self.arrivals),
            session=self.session,
            report=json.loads(self.report_file.read_bytes()),
            left=left,
        )

    def _mine(self) -> set[psutil.Process]:
        """Every living process of this run other than vdoctor itself."""
        found = {process for process in self._seen if process.is_running()}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(RUN_VARIABLE) == self._run_id:
                    found.add(process)
        return {process for process in found if process.pid != self.process.pid and _alive(process)}

    def _survivors(self, patience: float) -> list[str]:
        """Descriptions of the processes that are still there after ``patience`` seconds."""
        limit = time.monotonic() + patience
        while (living := self._mine()) and time.monotonic() < limit:
            time.sleep(0.2)
        return [str(process) for process in living]

    def close(self) -> None:
        """End what is left of the run. Safe to call twice."""
        self._over.set()
        self._sampler.join()
        # A server that is killed outright leaves hundreds of megabytes in /dev/shm.
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for process in self._mine():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _of_the_tests() -> None:
    """Heed signals, and ask the kernel for a SIGTERM when the thread that called fork ends.

    A suite that runs in the background ignores SIGINT, and what it starts would do the same. A test process that is
    killed outright (a time limit, for one) runs no teardown, and the server would stay for good.
    """
    default_signals()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _answers(url: str) -> bool:
    """Whether a GET gives a 2xx; refused connections are what a start looks like."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:  # URLError is one
        return False


def _alive(process: psutil.Process) -> bool:
    """A zombie has ended; whether somebody reaps it is up to its new parent."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def watching(
    real: RealVllm,
    folder: Path,
    argv: Sequence[str],
    on_line: Callable[[str], None] | None = None,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Watch]:
    """Start ``argv`` under ``vdoctor watch`` with ``options``; files go to ``folder``, ``env`` is added to the server's.

    ``on_line`` gets every line as it comes, in the thread that reads it.
    """
    watch = Watch(real, folder, argv, on_line, options, env)
    try:
        yield watch
    finally:
        watch.close()


class WorkerKiller:
    """Kills the worker with SIGKILL as soon as it says that it loads weights."""

    LOADING = re.compile(r"\((?:Vllm)?Worker\S* pid=(\d+)\) .*Starting to load model")

    def __init__(self) -> None:
        self.killed: int | None = None  # its process id

    def __call__(self, text: str) -> None:
        match = self.LOADING.search(text)
        if match and self.killed is None:
            self.killed = int(match[1])
            os.kill(self.killed, signal.SIGKILL)


def foreseen(real: RealVllm, argv: Sequence[str], env: Mapping[str, str] | None = None) -> list[str]:
    """The ids that ``vdoctor check`` finds before a start in the environment of the server, to which ``env`` is added."""
    done = subprocess.run(
        [sys.executable, "-m", "vdoctor", "check", "--format", "json", "--", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=ANALYZE_TIMEOUT_S,
        env=server_environment(real, "check") | dict(env or {}),
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    ids = [finding["id"] for finding in json.loads(done.stdout)["findings"]]
    assert done.returncode == bool(ids)
    return ids


def analyze(session: Path) -> tuple[int, dict[str, Any]]:
    """Exit status and report of ``vdoctor analyze`` on a session folder.

    The report goes to a file, as that of ``watch`` does: what is redacted in one is in the other.
    """
    output = session.with_name("analyze.json")
    command = [sys.executable, "-m", "vdoctor", "analyze", "--format", "json", "--output", str(output)]
    done = subprocess.run(
        [*command, str(session)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=ANALYZE_TIMEOUT_S,
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    report: dict[str, Any] = json.loads(output.read_bytes())
    return done.returncode, report
