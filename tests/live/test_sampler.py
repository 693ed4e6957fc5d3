"""Sampler on a real tree of processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.processes import Mark, default_signals, until
from vdoctor.live.sampler import Sampler
from vdoctor.model import HostSample, Sample

MIB = 1 << 20
#: A root with two children; one of them ends when told, after some work, the other stays. Each holds 40 MiB.
TREE = """
import os, sys, time
def child(work):
    hold = bytearray(40 << 20)
    for at in range(0, len(hold), 4096):
        hold[at] = 1
    end = time.process_time() + work
    while time.process_time() < end:
        pass
    os.write(1, b"ready\\n")
    os.read(0, 1) if work else time.sleep(600)
    os._exit(0)
for work in (0.3, 0.0):
    if os.fork() == 0:
        child(work)
os.wait()
os.write(1, b"one ended\\n")
time.sleep(600)
"""


@pytest.fixture
def tree(mark: Mark) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-S", "-E", "-c", TREE]
    process = subprocess.Popen(
        argv, env=mark.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=default_signals
    )
    assert process.stdout is not None
    assert process.stdout.readline() + process.stdout.readline() == b"ready\nready\n"
    yield process
    mark.kill()
    process.communicate()


def sampling(sampler: Sampler, enough: Callable[[list[HostSample]], bool]) -> list[Sample]:
    """All samples until the host samples are enough."""
    found: list[Sample] = []

    def look() -> bool:
        found.extend(sampler.take())
        return enough([sample.host for sample in found if sample.host is not None])

    assert until(look), found
    return found


def test_tree_is_counted_with_its_memory_and_time(tree: subprocess.Popen[bytes]) -> None:
    started = time.monotonic()
    sampler = Sampler(tree.pid, 0.05, lambda: time.monotonic() - started)
    sampler.start()
    first = sampling(sampler, bool)[0].host
    assert first is not None
    assert first.processes == 3
    assert 80 * MIB <= first.rss <= 400 * MIB
    assert first.cpu_seconds >= 0.3
    assert tree.stdin is not None
    assert tree.stdout is not None
    tree.stdin.write(b".")
    tree.stdin.flush()
    assert tree.stdout.readline() == b"one ended\n"
    later = sampling(sampler, lambda hosts: any(host.processes == 2 for host in hosts))
    sampler.stop()
    last = later[-1].host
    assert last is not None
    assert last.rss < first.rss - 30 * MIB
    # The time of a process that ended stays in the sum.
    assert last.cpu_seconds >= first.cpu_seconds
    times = [sample.t for sample in later]
    assert times == sorted(times)


def test_tree_that_is_gone_gives_no_host_sample(mark: Mark) -> None:
    process = subprocess.Popen(["true"], env=mark.env)
    process.wait()
    sampler = Sampler(process.pid, 0.01, time.monotonic)
    sampler.start()
    time.sleep(0.1)
    sampler.stop()
    assert [sample.host for sample in sampler.take() if sample.host is not None] == []


def test_stop_ends_the_measuring(tree: subprocess.Popen[bytes]) -> None:
    sampler = Sampler(tree.pid, 0.01, time.monotonic)
    sampler.start()
    sampling(sampler, bool)
    sampler.stop()
    sampler.take()
    time.sleep(0.05)
    assert sampler.take() == []


def test_slow_interval_does_not_delay_the_end(tree: subprocess.Popen[bytes]) -> None:
    sampler = Sampler(tree.pid, 60.0, time.monotonic)
    sampler.start()
    sampling(sampler, bool)
    begun = time.monotonic()
    sampler.stop()
    assert time.monotonic() - begun < 30.0
