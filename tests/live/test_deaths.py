"""Deaths of real processes, children of somebody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.processes import Mark, default_signals, until
from vdoctor.live.deaths import DeathWatch
from vdoctor.model import Death

#: A root that has children: one for each word, a signal by which it dies or a status, one after the other as told on
#: standard input. It collects them at once.
FAMILY = """
import os, signal, sys, time
pids = []
for word in sys.argv[1:]:
    pid = os.fork()
    if not pid:
        time.sleep(600)
    pids.append(pid)
print(*pids, flush=True)
for number, line in enumerate(sys.stdin):
    os.kill(pids[number], int(sys.argv[1:][number]))
    os.waitpid(pids[number], 0)
    print("collected", flush=True)
"""


class Family:
    """The root, and what is seen of its children."""

    def __init__(self, mark: Mark, *signals: int) -> None:
        argv = [sys.executable, "-S", "-E", "-c", FAMILY, *map(str, signals)]
        self.root = subprocess.Popen(
            argv, env=mark.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=default_signals
        )
        assert self.root.stdout is not None
        self.pids = [int(word) for word in self.root.stdout.readline().split()]
        self._clock = 0.0
        self.watch = DeathWatch(self.root.pid, self._now)
        self.deaths: list[Death] = []

    def _now(self) -> float:
        self._clock += 1.0
        return self._clock

    def next_dies(self) -> None:
        """Its parent has collected it when this returns."""
        assert self.root.stdin is not None and self.root.stdout is not None
        self.root.stdin.write(b"\n")
        self.root.stdin.flush()
        assert self.root.stdout.readline() == b"collected\n"

    def seen(self, number: int) -> bool:
        self.deaths += self.watch.take()
        return len(self.deaths) >= number

    def close(self) -> None:
        self.watch.stop()
        self.root.kill()
        self.root.communicate()


@pytest.fixture
def mark_family(mark: Mark) -> Iterator[list[Family]]:
    families: list[Family] = []
    yield families
    for family in families:
        family.close()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd")
def test_deaths_come_in_order_with_their_names(mark: Mark, mark_family: list[Family]) -> None:
    family = Family(mark, signal.SIGSEGV, signal.SIGKILL)
    mark_family.append(family)
    for number, pid in enumerate(family.pids):
        family.watch.watch(pid, f"Worker_TP{number}")
    # vLLM's processes get their title late.
    family.watch.watch(family.pids[1], "EngineCore")
    family.next_dies()
    assert until(lambda: family.seen(1))
    family.next_dies()
    assert until(lambda: family.seen(2))
    assert [(death.pid, death.name, death.t) for death in family.deaths] == [
        (family.pids[0], "Worker_TP0", 1.0),
        (family.pids[1], "EngineCore", 2.0),
    ]


def _tells_status_of_the_reaped() -> bool:
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return sys.platform == "linux" and release >= (6, 15)


@pytest.mark.skipif(not _tells_status_of_the_reaped(), reason="needs Linux 6.15")
def test_the_signal_is_known_though_the_parent_collected_it_first(mark: Mark, mark_family: list[Family]) -> None:
    family = Family(mark, signal.SIGBUS)
    mark_family.append(family)
    family.watch.watch(family.pids[0], "w")
    family.next_dies()
    assert until(lambda: family.seen(1))
    assert (family.deaths[0].status, family.deaths[0].signal) == (135, "SIGBUS")


def test_what_ends_after_the_root_is_no_news(mark: Mark, mark_family: list[Family]) -> None:
    family = Family(mark, signal.SIGKILL)
    mark_family.append(family)
    family.watch.watch(family.pids[0], "w")
    family.root.kill()
    family.root.wait()
    assert until(lambda: family.watch.over)
    os.kill(family.pids[0], signal.SIGKILL)
    family.watch.stop()
    assert family.watch.take() == []


def test_a_process_that_is_gone_already_is_not_watched(mark: Mark, mark_family: list[Family]) -> None:
    family = Family(mark)
    mark_family.append(family)
    gone = subprocess.Popen(["true"])
    gone.wait()
    family.watch.watch(gone.pid, "gone")
    family.watch.stop()
    assert family.watch.take() == []
