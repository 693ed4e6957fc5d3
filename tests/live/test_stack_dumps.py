"""Stacks of real processes that stand still, by py-spy and from /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import DEADLINE, Mark, default_signals, until
from vdoctor.live.stacks import StackDumper, find_py_spy, from_proc, state_of
from vdoctor.model import Stack

STUCK = Path(__file__).parent / "stuck.py"
Stuck = Callable[..., int]

needs_py_spy = pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")


@pytest.fixture
def stuck(mark: Mark) -> Iterator[Stuck]:
    """Starts a process that stands still; its process id."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*way: str) -> int:
        argv = [sys.executable, "-S", "-E", str(STUCK), *way]
        process = subprocess.Popen(argv, env=mark.env, stdout=subprocess.PIPE, preexec_fn=default_signals)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


def dump(dumper: StackDumper, pid: int, wanted: str) -> tuple[Stack, ...]:
    """A dump in which a frame begins so; right after "ready" a process may not stand where it will."""
    found: tuple[Stack, ...] = ()

    def look() -> bool:
        nonlocal found
        assert dumper.request([(pid, "Worker_TP0")])
        dumper.wait(DEADLINE)
        assert not dumper.busy
        found = tuple(stack for sample in dumper.take() for stack in sample.stacks)
        return any(frame.startswith(wanted) for stack in found for frame in stack.frames)

    assert until(look), (found, dumper.refused)
    return found


@needs_py_spy
@pytest.mark.parametrize(
    ("way", "python", "native"),
    [
        ("lock", "waits_for_lock (stuck.py:", "PyThread_acquire_lock"),
        ("fifo", "reads_fifo (stuck.py:", "open"),
        ("native", "computes_natively (stuck.py:", "pbkdf2_hmac"),
    ],
)
def test_py_spy_sees_python_and_what_it_calls(stuck: Stuck, tmp_path: Path, way: str, python: str, native: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    pid = stuck(way, *([str(tmp_path / "fifo")] if way == "fifo" else []))
    (stack,) = dump(StackDumper(lambda: 1.5), pid, python)
    assert (stack.pid, stack.role, stack.source) == (pid, "Worker_TP0", "py-spy")
    at = next(number for number, frame in enumerate(stack.frames) if frame.startswith(python))
    assert stack.frames[at - 1].startswith("<module> (stuck.py:")
    assert any(native in frame for frame in stack.frames[at + 1 :])


@needs_py_spy
def test_a_stopped_process_is_seen_and_stays_stopped(stuck: Stuck) -> None:
    pid = stuck("lock")
    os.kill(pid, signal.SIGSTOP)
    assert until(lambda: state_of(pid) == "T")
    (stack,) = dump(StackDumper(lambda: 0.0), pid, "waits_for_lock (stuck.py:")
    assert stack.source == "py-spy"
    assert state_of(pid) == "T"


def test_without_py_spy_the_kernel_is_asked_and_the_reason_is_kept(stuck: Stuck, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    pid = stuck("fifo", str(tmp_path / "fifo"))
    dumper = StackDumper(lambda: 0.0, py_spy="")
    (stack,) = dump(dumper, pid, "state S")
    assert (stack.source, stack.frames[0]) == ("proc", "state S (kernel:0)")
    assert dumper.refused == "missing"


def script(folder: Path, text: str) -> str:
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("echo 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1", "ptrace"),
        ("echo 'Error: Failed to find python version' >&2; exit 1", "Failed to find python version"),
        ("echo '{}'", "no answer"),
    ],
)
def test_when_py_spy_is_refused_it_is_said_why(stuck: Stuck, tmp_path: Path, answer: str, reason: str) -> None:
    pid = stuck("lock")
    dumper = StackDumper(lambda: 0.0, py_spy=script(tmp_path, answer))
    assert dumper.request([(pid, None)])
    dumper.wait(DEADLINE)
    assert dumper.refused is not None and reason in dumper.refused


def test_one_dump_at_a_time_and_nobody_waits_for_it(stuck: Stuck, tmp_path: Path) -> None:
    pid = stuck("lock")
    wait = f"while [ ! -e '{tmp_path}/go' ]; do sleep 0.05; done; exit 1"
    dumper = StackDumper(lambda: 0.0, py_spy=script(tmp_path, wait))
    assert dumper.request([(pid, None)])
    assert dumper.busy
    assert not dumper.request([(pid, None)])
    assert dumper.take() == []
    # Both ways of asking it end.
    (tmp_path / "go").touch()
    dumper.wait(DEADLINE)
    assert not dumper.busy


def test_a_process_that_is_gone_gives_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert from_proc(process.pid, None) == []
    assert state_of(process.pid) == ""
