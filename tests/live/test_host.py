"""The host sampler on real processes: who they are, what they do, what they leave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import Mark, default_signals, until
from vdoctor.live import procfs
from vdoctor.live.host import Host
from vdoctor.live.roles import role
from vdoctor.model import HostSample, ProcessSample

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def begin(mark: Mark) -> Iterator[Start]:
    """Start a Python program in a session of its own; it says when it is there."""
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", program],
            env=mark.env | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=default_signals,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    mark.kill()
    for process in started:
        process.communicate()


def named(host: HostSample | None, name: str) -> ProcessSample:
    assert host is not None
    (found,) = [one for one in host.tree if name in (one.name, one.role)]
    return found


def test_vllms_titles_are_roles(begin: Start, tmp_path: Path) -> None:
    # The command line of a process is its title after setproctitle: a program whose path is the title looks the same.
    link = tmp_path / "VLLM::Worker_TP0"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", link)
    process = begin(
        f"import os, subprocess, sys; p = subprocess.Popen(['VLLM::Worker_TP0', '600'], executable={str(link)!r}); "
        "os.write(1, b'ready\\n'); sys.stdin.read()"
    )
    host = Host(process.pid)
    # It may still be on its way to its sleep.
    assert until(lambda: named(host.sample(), "Worker_TP0").state == "S")
    worker = named(host.sample(), "Worker_TP0")
    assert worker.ppid == process.pid
    # The system's name is cut to 15 letters, the role is whole.
    assert worker.name == "VLLM::Worker_TP"
    assert worker.state == "S"
    host.close()


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("VLLM::EngineCor", ["VLLM::EngineCore_DP0"], "EngineCore_DP0"),
        ("VLLM::EngineCor", ["VLLM::EngineCore"], "EngineCore"),
        ("VLLM::Worker_TP", ["VLLM::Worker_TP1_EP1"], "Worker_TP1_EP1"),
        ("VLLM::DPCoordin", ["VLLM::DPCoordinator"], "DPCoordinator"),
        ("ray::RayWorkerW", ["ray::RayWorkerWrapper.execute_method"], "RayWorkerWrapper"),
        ("nvcc", ["nvcc", "-c", "a.cu"], "compiler"),
        ("cicc", [], "compiler"),
        ("ptxas", [], "compiler"),
        ("ptxas-blackwell", [], "compiler"),
        ("cc1plus", [], "compiler"),
        ("ninja", [], "compiler"),
        ("ld", [], "compiler"),
        ("ld.gold", [], "compiler"),
        ("x86_64-linux-gn", ["/usr/bin/x86_64-linux-gnu-g++", "a.cpp"], "compiler"),
        ("g++-13", [], "compiler"),
        ("clang++", [], "compiler"),
        ("python3", ["python3", "/usr/bin/vllm", "serve", "m"], "APIServer"),
        ("vllm", ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "m"], "APIServer"),
        ("python3", ["python3", "-m", "vllm.entrypoints.openai.api_server"], "APIServer"),
        ("python3", ["python3", "-c", "from multiprocessing.resource_tracker import main;main(5)"], "resource_tracker"),
        ("python3", ["python3", "bench.py", "vllm"], None),
        ("uv", ["uv", "run", "vllm", "serve", "m"], None),
        ("timeout", ["timeout", "60", "vllm", "serve", "m"], None),
        ("sh", ["sh", "-c", "vllm serve m"], None),
        ("lda", [], None),
        ("accd", [], None),
        ("", [], None),
    ],
)
def test_role(name: str, words: list[str], expected: str | None) -> None:
    assert role(name, words) == expected


def test_bytes_threads_and_state_of_a_process(begin: Start, tmp_path: Path) -> None:
    big = tmp_path / "weights"
    big.write_bytes(b"x" * (3 << 20))
    process = begin(
        f"import os, sys, threading; data = open({str(big)!r}, 'rb').read(); "
        "[threading.Thread(target=threading.Event().wait, daemon=True).start() for _ in range(4)]; "
        "os.write(1, b'ready\\n'); sys.stdin.read()"
    )
    host = Host(process.pid)
    sample = host.sample()
    assert sample is not None
    row = sample.tree[0]
    assert (row.pid, row.threads) == (process.pid, 5)
    assert row.read_chars is not None
    assert row.read_chars >= 3 << 20
    assert row.wchan is None or row.wchan.replace("_", "").isalnum()
    os.kill(process.pid, signal.SIGSTOP)
    assert until(lambda: (sample := host.sample()) is not None and sample.tree[0].state == "T")
    os.kill(process.pid, signal.SIGCONT)
    host.close()


def test_time_of_children_that_lived_between_two_looks_is_not_lost(begin: Start) -> None:
    process = begin(
        "import os, sys, time\nos.write(1, b'ready\\n'); sys.stdin.readline()\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        while time.process_time() < 0.2: pass\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "os.write(1, b'ready\\n'); sys.stdin.read()"
    )
    host = Host(process.pid)
    first = host.sample()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.stdout.readline()
    second = host.sample()
    assert first is not None
    assert second is not None
    assert second.cpu_seconds - first.cpu_seconds >= 0.5
    host.close()


def test_forked_child_is_not_the_server_again(begin: Start, tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text(
        "import os, sys, time\nif os.fork() == 0: time.sleep(600)\nos.write(1, b'ready\\n'); sys.stdin.read()"
    )
    process = begin(f"import os, sys; os.execv(sys.executable, ['python3', '-S', '-E', {str(script)!r}, 'serve', 'm'])")
    host = Host(process.pid)
    assert until(lambda: (sample := host.sample()) is not None and sample.processes == 2)
    sample = host.sample()
    assert sample is not None
    # -S -E push the script's name behind the interpreter's options.
    assert [row.role for row in sample.tree] == ["APIServer", None]
    host.close()


def test_orphan_that_left_the_tree_is_still_of_it(begin: Start) -> None:
    process = begin(
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "    time.sleep(0.5); os._exit(0)\n"
        "os.write(1, b'ready\\n'); os.wait(); os.write(1, b'ready\\n'); sys.stdin.read()"
    )
    host = Host(process.pid)

    def processes() -> int:
        sample = host.sample()
        return sample.processes if sample is not None else 0

    assert until(lambda: processes() == 3)
    assert process.stdout is not None
    process.stdout.readline()
    # The middle one ended: its child has another parent now.
    assert until(lambda: processes() == 2)
    host.close()


def test_growth_of_a_download_is_seen(begin: Start, tmp_path: Path) -> None:
    blobs = tmp_path / "hub" / "models--org--name" / "blobs"
    blobs.mkdir(parents=True)
    old = blobs / "aaaa.incomplete"
    old.write_bytes(b"x" * 70_000)
    os.utime(old, (1.0, 1.0))
    process = begin("import os, sys; os.write(1, b'ready\\n'); sys.stdin.read()", HF_HOME=str(tmp_path))
    host = Host(process.pid)

    def downloading() -> int | None:
        sample = host.sample()
        return sample.downloading if sample is not None else None

    # What an earlier launch left behind does not count.
    assert until(lambda: downloading() == 0)
    (blobs / "bbbb.incomplete").write_bytes(b"x" * 5_000)
    assert until(lambda: downloading() == 5_000)
    with (blobs / "bbbb.incomplete").open("ab") as file:
        file.write(b"x" * 2_000)
    assert until(lambda: downloading() == 7_000)
    (blobs / "bbbb.incomplete").rename(blobs / "bbbb")
    assert until(lambda: downloading() == 0)
    host.close()


def test_host_is_measured_and_the_end_is_told(begin: Start) -> None:
    process = begin("import os, sys; os.write(1, b'ready\\n'); sys.stdin.read()")
    host = Host(process.pid)
    assert host.last() is None
    sample = host.sample()
    assert sample is not None
    assert sample.available is not None
    assert sample.page_cache is not None
    assert 0 < sample.available <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert sample.shm_total == os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize
    assert sample.net_received is None or sample.net_received >= 0
    assert until(lambda: bool((found := host.sample()) and found.disk_free))
    process.kill()
    assert until(lambda: host.sample() is None)
    last = host.last()
    assert last is not None
    assert (last.processes, last.tree, last.oom_kills) == (0, (), sample.oom_kills)
    assert last.cpu_seconds >= sample.cpu_seconds
    host.close()


def test_thread_that_waits_for_the_disk_shows_through_a_sleeping_process() -> None:
    # No test can make a disk hang: what is read is proven on the files, the scan on a process whose threads sleep.
    assert procfs.blocked_thread(os.getpid(), 256) is None
    line = b"77 (a (b) c) D 1 77 77 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 9 0 4711 1000 25 18446744073709551615"
    found = procfs.parse_stat(line)
    assert found is not None
    assert (found.name, found.state, found.ppid, found.threads, found.started) == ("a (b) c", "D", 1, 9, 4711)
    ticks = os.sysconf("SC_CLK_TCK")
    assert (found.cpu, found.reaped, found.rss) == (200 / ticks, 50 / ticks, 25 * os.sysconf("SC_PAGESIZE"))


@pytest.mark.parametrize("line", [b"", b"77", b"77 (a", b"77 (a) S", b"x (a) S 1", b"77 (a) S 1 2 x 4", None])
def test_stat_that_is_cut_off_is_none(line: bytes | None) -> None:
    assert procfs.parse_stat(line) is None


def test_walk_is_cheap(begin: Start) -> None:
    process = begin(
        "import os, sys, time\n"
        "for _ in range(9):\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "os.write(1, b'ready\\n'); sys.stdin.read()"
    )
    host = Host(process.pid)
    assert until(lambda: (sample := host.sample()) is not None and sample.processes == 10)
    begun = time.thread_time()
    for _ in range(20):
        host.sample()
    # Ten times what it takes here: a second of watching must cost far less than a hundredth of one.
    assert (time.thread_time() - begun) / 20 < 0.02
    host.close()
