"""The probes together, on a real process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Mark, default_signals, until
from vdoctor.launch.endpoint import Endpoint
from vdoctor.live.probes import Probes
from vdoctor.model import HostSample, Motion, ProcessSample, Sample

STUCK = Path(__file__).parent / "stuck.py"


class Watched:
    """A process that stands still, and the probes around it."""

    def __init__(self, mark: Mark, **options: Any) -> None:
        argv = [sys.executable, "-S", "-E", str(STUCK), "lock"]
        self.process = subprocess.Popen(argv, env=mark.env, stdout=subprocess.PIPE, preexec_fn=default_signals)
        assert self.process.stdout is not None and self.process.stdout.readline() == b"ready\n"
        self.motion: Motion | None = None
        usual: dict[str, Any] = {"endpoint": "not asked in this test", "step": lambda: "weight_load.read"}
        self.probes = Probes(self.process.pid, time.monotonic, motion=lambda: self.motion, **(usual | options))
        self.samples: list[Sample] = []

    def tick(self) -> list[Sample]:
        self.samples += self.probes.tick(1.0)
        return self.samples

    def stalled(self, pid: int | None, process: str) -> None:
        self.motion = Motion(9.0, "stalled", "weight_load.read", 60.0, process=process, pid=pid)

    def dumps(self) -> list[Sample]:
        return [sample for sample in self.tick() if sample.stacks]


@pytest.fixture
def watched(mark: Mark) -> Iterator[Watched]:
    one = Watched(mark)
    yield one
    one.process.kill()
    one.process.communicate()
    one.probes.finish(2.0)


def test_stacks_are_dumped_once_for_each_process_that_stalls(watched: Watched) -> None:
    watched.motion = Motion(8.0, "slow", "weight_load.read", 30.0)
    assert watched.dumps() == []
    assert not watched.probes.stacks.busy
    watched.stalled(watched.process.pid, "Worker_TP0")
    assert until(lambda: len(watched.dumps()) == 1)
    for _ in range(5):
        watched.tick()
    assert not watched.probes.stacks.busy
    watched.stalled(watched.process.pid, "Worker_TP1")
    assert until(lambda: len(watched.dumps()) == 2)
    first, second = watched.dumps()
    assert first.stacks[0].role == "Worker_TP0"
    assert second.stacks[0].role == "Worker_TP1"


def test_helpers_are_not_dumped(watched: Watched) -> None:
    pid = watched.process.pid
    tree = (
        ProcessSample(pid, 1, "vllm", "APIServer"),
        ProcessSample(pid + 1, pid, "cc1plus", "compiler"),
        ProcessSample(pid + 2, pid, "python3", "resource_tracker"),
        ProcessSample(pid + 3, pid, "python3", None),
        ProcessSample(pid + 4, pid, "python3", "Worker_TP0"),
    )
    watched.probes.see(Sample(1.0, host=HostSample(5, 0, 0.0, tree)))
    motion = Motion(9.0, "stalled", None, 60.0, process="Worker_TP0", pid=pid + 4)
    assert watched.probes._of_interest(motion) == [(pid + 4, "Worker_TP0"), (pid, "APIServer")]


def test_the_death_of_a_process_that_was_seen_is_told(watched: Watched) -> None:
    other = subprocess.Popen(["sleep", "600"])
    watched.probes.see(
        Sample(1.0, host=HostSample(2, 0, 0.0, (ProcessSample(other.pid, watched.process.pid, "sleep", "Worker_TP0"),)))
    )
    other.kill()
    other.wait()
    if not until(lambda: any(sample.deaths for sample in watched.tick()), 5.0):
        pytest.skip("needs pidfd")
    (death,) = next(sample.deaths for sample in watched.samples if sample.deaths)
    assert (death.pid, death.name) == (other.pid, "Worker_TP0")


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [("the server runs in a container", "container"), (Endpoint("192.0.2.1", 8000), "no address of this machine")],
)
def test_why_the_server_is_not_asked(mark: Mark, endpoint: Endpoint | str, reason: str) -> None:
    one = Watched(mark, endpoint=endpoint)
    one.tick()
    one.probes.finish(2.0)
    one.process.kill()
    one.process.communicate()
    assert one.probes.not_asked is not None and reason in one.probes.not_asked


@pytest.mark.parametrize(
    ("step", "begins"),
    [
        ("weight_load.read", False),
        ("kv_init.profile", False),
        ("kv_init.allocate", True),
        ("graph_capture.capture", True),
        ("runtime.startup", True),
        (None, False),
    ],
)
def test_the_server_is_asked_from_when_it_is_near_ready(mark: Mark, step: str | None, begins: bool) -> None:
    one = Watched(mark, endpoint=Endpoint("127.0.0.1", 1), step=lambda: step)
    one.tick()
    server = one.probes._server
    assert server is not None and server.begun is begins
    if step is None:
        # A server that logs nothing is looked at after a while.
        one.probes.tick(30.0)
        assert server.begun
    one.probes.finish(40.0)
    one.process.kill()
    one.process.communicate()
