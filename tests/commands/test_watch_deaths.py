"""vdoctor watch on processes that really die: who was first, by what, and the recording says the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Vdoctor
from tests.processes import VDOCTOR, Mark, read_until, run, start, until
from vdoctor.live.stacks import find_py_spy

#: `dies.py SIGNAL WHO`: says that it loads, then itself or a child that took vLLM's title dies by the signal.
DIES = """
import ctypes, os, signal, sys, time
number, who = int(sys.argv[1]), sys.argv[2]
pid = os.fork() if who != "self" else 0
if not pid:
    ctypes.CDLL(None).prctl(15, b"VLLM::Worker_TP1" if who != "self" else b"vllm", 0, 0, 0)
    print(f"(Worker_TP1 pid={os.getpid()}) INFO 01-01 01:01:01 [gpu_model_runner.py:1] Starting to load model org/m...", flush=True)
    # So long that a look at the tree falls into its life.
    time.sleep(1.4)
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)
os.waitpid(pid, 0)
time.sleep(0.2)
sys.exit(int(who))
"""


def watch(vdoctor: Vdoctor, folder: Path, *command: object) -> tuple[int, dict[str, Any]]:
    """Exit status and report; the same report comes out of the recording."""
    report = folder / "report.json"
    done = vdoctor(
        *("watch", "-q", "--session", folder / "session", "--format", "json", "--output", report), "--", *command
    )
    live = json.loads(report.read_bytes())
    again = json.loads(vdoctor("analyze", "--format", "json", folder / "session").stdout)
    assert again.pop("source")["kind"] == "session" and again["findings"] == live["findings"]
    assert {name: value for name, value in again.items() if name != "source"} == {
        name: value for name, value in live.items() if name != "source"
    }
    return done.returncode, live


def dies(signum: int, who: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", DIES, str(int(signum)), who]


def values(report: dict[str, Any]) -> dict[str, Any]:
    return {name: fact["value"] for name, fact in report["facts"].items()}


@pytest.mark.parametrize(
    ("signum", "ids"),
    [
        (signal.SIGKILL, {"proc.terminated", "oom.host-ram"}),
        (signal.SIGSEGV, {"proc.crashed"}),
        (signal.SIGILL, {"proc.crashed"}),
        (signal.SIGABRT, {"proc.crashed"}),
        (signal.SIGBUS, {"proc.crashed", "dist.shm-too-small"}),
        (signal.SIGTERM, {"proc.terminated"}),
    ],
)
def test_a_server_that_dies_by_a_signal(
    vdoctor: Vdoctor, tmp_path: Path, signum: signal.Signals, ids: set[str]
) -> None:
    status, report = watch(vdoctor, tmp_path, *dies(signum, "self"))
    assert (status, report["verdict"], report["phase"]) == (128 + signum, "failed", "weight_load")
    assert report["findings"][0]["id"] in ids
    assert values(report)["exit.cause_signal"] == signum.name


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd")
@pytest.mark.parametrize("status", [1, 0])
def test_a_worker_that_dies_first(vdoctor: Vdoctor, tmp_path: Path, status: int) -> None:
    """vLLM ends with 0 when its engine died while it served: a failure all the same."""
    code, report = watch(vdoctor, tmp_path, *dies(signal.SIGSEGV, str(status)))
    assert (code, report["verdict"]) == (status, "failed")
    first = report["findings"][0]
    if "exit.cause_signal" in values(report):
        assert (first["id"], values(report)["exit.cause_signal"]) == ("proc.crashed", "SIGSEGV")
        assert "Worker_TP1" in first["title"]
    else:
        # A kernel that tells no status of a process that was collected, and a parent that was faster.
        assert not status or first["id"] == "unknown.error"


def test_a_command_that_fails_without_a_word(vdoctor: Vdoctor, tmp_path: Path) -> None:
    status, report = watch(vdoctor, tmp_path, "sh", "-c", "exit 3")
    assert status == 3
    assert (report["findings"][0]["id"], report["findings"][0]["confidence"]) == ("unknown.error", "possible")
    assert "status 3" in report["findings"][0]["title"]


def test_an_error_line_that_no_rule_knows_is_shown_and_not_denied(vdoctor: Vdoctor, tmp_path: Path) -> None:
    line = "(EngineCore_DP0 pid=12) ERROR 12-01 00:00:05 [core.py:2] the frobnicator is bent"
    status, report = watch(vdoctor, tmp_path, "sh", "-c", f"echo '{line}'; echo bye; exit 3")
    assert status == 3
    first = report["findings"][0]
    assert (first["id"], first["rule"], first["confidence"]) == ("unknown.error", "unknown.last-error", "possible")
    assert "the frobnicator is bent" in first["why"]


#: Says that it loads, then waits for a lock that nobody gives back, a few seconds at most.
LOCKED = """
import os, threading
print(f"(Worker_TP1 pid={os.getpid()}) INFO 01-01 01:01:01 [gpu_model_runner.py:1] Starting to load model /m/x...", flush=True)
def waits_for_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=8)
waits_for_lock()
"""


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
def test_a_stall_is_recorded_with_its_stacks(vdoctor: Vdoctor, tmp_path: Path) -> None:
    command = ["watch", "-q", "--stall-after", "2", "--session", tmp_path / "s", "--"]
    vdoctor(*command, sys.executable, "-S", "-E", "-c", LOCKED)
    entries = [json.loads(line) for line in (tmp_path / "s" / "samples.jsonl").read_text().splitlines()]
    (stacks,) = [entry["stacks"] for entry in entries if "stacks" in entry]
    frames = [frame for stack in stacks for frame in stack["frames"]]
    assert any(frame.startswith("waits_for_lock (") for frame in frames)


@pytest.mark.parametrize(("signum", "remark"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_stop_that_came_through_vdoctor(mark: Mark, tmp_path: Path, signum: signal.Signals, remark: bool) -> None:
    """Ctrl-C is a person; a SIGTERM before it was ready may be a probe that gave up."""
    report = tmp_path / "report.json"
    options = ["-q", "--no-session", "--format", "json", "--output", str(report)]
    process = start([*VDOCTOR, "watch", *options, "--", "sh", "-c", "echo up; exec sleep 600"], env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"up\n")
    process.send_signal(signum)
    assert until(lambda: process.poll() is not None)
    process.communicate()
    found = [finding["id"] for finding in json.loads(report.read_bytes())["findings"]]
    assert found == (["proc.terminated"] if remark else [])


#: A hierarchy of version 2 as a container sees its own group, in the kernel's words; then a kill for memory.
LIMITED = """
mount -t tmpfs -o size=1m tmpfs /sys/fs/cgroup && cd /sys/fs/cgroup || exit 99
echo 2147483648 > memory.max
echo 2100000000 > memory.current
printf 'anon 2090000000\\nfile 10000000\\nactive_file 4096\\ninactive_file 4096\\n' > memory.stat
printf 'low 0\\nhigh 0\\nmax 7\\noom 0\\noom_kill 0\\noom_group_kill 0\\n' > memory.events
cd "$1"; shift
exec "$@"
"""
KILLED = """
echo "(EngineCore_DP0 pid=$$) INFO 01-01 01:01:01 [gpu_model_runner.py:1] Starting to load model /m/x..."
sleep 1.4
printf 'low 0\\nhigh 0\\nmax 9\\noom 1\\noom_kill 1\\noom_group_kill 0\\n' > /sys/fs/cgroup/memory.events
kill -9 $$
"""
NAMESPACE = ["unshare", "--mount", "--user", "--map-root-user"]


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode != 0,
    reason="nothing can be mounted here",
)
def test_a_kill_for_memory_in_a_group_of_version_2(mark: Mark, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["-q", "--session", str(tmp_path / "s"), "--format", "json", "--output", str(report), "--no-redact"]
    watched = [*VDOCTOR, "watch", *options, "--", "sh", "-c", KILLED]
    done = run([*NAMESPACE, "sh", "-c", LIMITED, "sh", str(Path.cwd()), *watched], env=mark.env)
    assert done.returncode == 137, done.stderr
    found = json.loads(report.read_text())
    assert found["findings"][0]["id"] == "oom.host-ram"
    facts = {name: fact["value"] for name, fact in found["facts"].items()}
    assert (facts["exit.oom_kills"], facts["host.limit_gib"]) == (1, 2.0)
