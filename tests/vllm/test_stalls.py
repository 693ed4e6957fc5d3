"""Hung or just slow: what vdoctor says about a real vLLM that is stopped, starved, or only takes its time."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import until
from tests.slowfs import may_mount, slow_folder
from tests.vllm.hub import REPOSITORY, dripping_hub, mute_hub
from tests.vllm.replay import STALL_AFTER_S, motions, stalls
from tests.vllm.watched import READY_TIMEOUT_S, STOP_TIMEOUT_S, RealVllm, Watch, Watched, free_port, watching

pytestmark = pytest.mark.vllm

OPTIONS = ("--stall-after", str(STALL_AFTER_S))
#: A stall is there after the patience, the mean of five seconds, and the time between two samples.
STALL_SEEN_S = STALL_AFTER_S + 10.0
#: A stopped process is confirmed after three seconds.
STOP_SEEN_S = 8.0
DRIP_S = 25.0
#: Whoever asks a server that hangs gives up: after Ctrl-C the server waits for that, longer than a stall takes.
PATIENT_S = STOP_SEEN_S + STALL_AFTER_S + 15.0


def serve(real: RealVllm, model: str, *options: str) -> list[str]:
    """The command line of a server on a free port."""
    return [real.vllm, "serve", model, "--host", "127.0.0.1", "--max-model-len", "512", *options]


def said(watch: Watch, pattern: str) -> re.Match[str]:
    """Wait for a line; AssertionError when the server ends or takes too long."""
    limit = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < limit:
        for arrival in list(watch.arrivals):
            if found := re.search(pattern, arrival.text):
                return found
        assert watch.process.poll() is None, f"ended before it said {pattern!r}:\n{watch.output()}"
        time.sleep(0.1)
    raise AssertionError(f"never said {pattern!r}:\n{watch.output()}")


def interrupted(watch: Watch, stopped: int | None = None) -> Watched:
    """The run, ended as with Ctrl-C. During a start a server waits for a ``stopped`` process for ever: it is killed."""
    watch.process.send_signal(signal.SIGINT)
    if stopped is not None:
        time.sleep(2)
        with contextlib.suppress(ProcessLookupError):  # a server that is ready kills it itself
            os.kill(stopped, signal.SIGKILL)
    return watch.finish(STOP_TIMEOUT_S)


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount a file system")
def test_slow_and_silent_storage_and_a_stopped_worker(real: RealVllm, tmp_path: Path) -> None:
    """One start: storage of 300 kB/s, silent for a while; the worker stopped while it loads, and while it warms up."""
    hold = tmp_path / "hold"
    with slow_folder(Path(real.model), tmp_path / "nfs", 300e3, hold) as model:
        argv = serve(real, str(model), "--port", str(free_port()))
        with watching(real, tmp_path, argv, options=OPTIONS) as watch:
            worker = int(said(watch, r"\(Worker\S* pid=(\d+)\).* Starting to load model")[1])
            time.sleep(4)
            hold.touch()
            time.sleep(STALL_SEEN_S)
            hold.unlink()
            time.sleep(3)
            os.kill(worker, signal.SIGSTOP)
            time.sleep(STOP_SEEN_S)
            os.kill(worker, signal.SIGCONT)
            said(watch, r"Warming up model for the compilation")
            os.kill(worker, signal.SIGSTOP)
            time.sleep(STOP_SEEN_S)
            watched = interrupted(watch, worker)
    seen = stalls(watched)
    assert [(stall.kind, stall.process) for stall in seen] == [
        ("storage", "Worker"),
        ("stopped", "Worker"),
        ("stopped", "Worker"),
    ]
    assert [(stall.step or "").partition(".")[0] for stall in seen] == ["weight_load", "weight_load", "kv_init"]
    assert {stall.pid for stall in seen} == {worker}
    assert {stall.waiting for stall in seen} == {("APIServer", "EngineCore")}
    loading = [m for m in motions(watched) if m.step == "weight_load.read" and m.state != "stalled"]
    assert "reading" in {motion.doing for motion in loading}
    assert watched.report["verdict"] == "stalled"
    assert watched.report["motion"]["kind"] == "stopped"
    assert (watched.first["id"], watched.first["confidence"]) == ("dist.straggler", "certain")
    assert f"kill -CONT {worker}" in watched.first["fixes"][0]["title"]
    assert watched.left == []


def test_one_of_two_ranks_stopped_while_a_request_runs(real: RealVllm, tmp_path: Path) -> None:
    port = free_port()
    argv = serve(real, real.model, "--port", str(port), "--tensor-parallel-size", "2", "--enforce-eager")
    with watching(real, tmp_path, argv, options=OPTIONS, env={"VLLM_CPU_OMP_THREADS_BIND": "0|1"}) as watch:
        worker = int(said(watch, r"\(Worker_TP1\S* pid=(\d+)\)")[1])
        watch.wait_until_served(port)
        time.sleep(STALL_SEEN_S)  # an idle server
        body = {"model": real.model, "prompt": "The quick brown", "max_tokens": 480, "ignore_eos": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        asked = threading.Thread(target=_forget, args=(request,), daemon=True)
        asked.start()
        time.sleep(0.5)
        os.kill(worker, signal.SIGSTOP)
        time.sleep(STOP_SEEN_S)
        watched = interrupted(watch, worker)
    (stall,) = stalls(watched)
    assert (stall.kind, stall.pid) == ("stopped", worker)
    assert (stall.process or "").startswith("Worker_TP1")
    assert any(name.startswith("Worker_TP0") for name in stall.waiting)
    assert (stall.step or "").startswith("runtime.")
    assert watched.report["verdict"] == "stalled"
    assert watched.report["phase"] == "runtime"
    # An open request keeps the front end for a while after Ctrl-C: that is not what the user ended.
    assert (watched.report["motion"]["kind"], watched.report["motion"]["pid"]) == ("stopped", worker)
    assert watched.first["id"] == "dist.straggler"


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group of this size, version 1 or 2; skips where none may be made."""
    root = Path("/sys/fs/cgroup")
    old = (root / "memory" / "memory.limit_in_bytes").exists()
    group = (root / "memory" if old else root) / f"vdoctor-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs the right to make a control group")
    try:
        wanted = {"memory.limit_in_bytes": limit} if old else {"memory.max": limit, "memory.swap.max": 0}
        for name, value in wanted.items():
            if not (group / name).exists():
                pytest.skip(f"no {name} in {group}")
            (group / name).write_text(str(value))
        yield group
    finally:
        limit_s = time.monotonic() + STOP_TIMEOUT_S
        while (group / "cgroup.procs").read_text().strip() and time.monotonic() < limit_s:
            time.sleep(0.2)
        group.rmdir()


def test_server_killed_by_the_memory_limit(real: RealVllm, tmp_path: Path) -> None:
    """Its imports alone take 600 MB."""
    with memory_group(300 << 20) as group:
        inside = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        argv = ["sh", "-c", inside, "sh", *serve(real, real.model, "--port", str(free_port()))]
        with watching(real, tmp_path, argv, options=OPTIONS) as watch:
            watched = watch.finish()
    assert watched.status == 128 + signal.SIGKILL
    assert watched.report["verdict"] == "failed"
    assert watched.first["id"] == "oom.host-ram"
    assert watched.report["motion"] is None
    assert stalls(watched) == []


def _forget(request: urllib.request.Request) -> None:
    try:
        with urllib.request.urlopen(request, timeout=PATIENT_S) as answer:
            answer.read()
    except OSError:
        pass


def hub_environment(url: str, folder: Path) -> dict[str, str]:
    """What makes huggingface_hub ask the hub at `url`, with an empty cache."""
    home = {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "HF_HOME": str(folder / "hf")}
    return home | {"HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}


def test_hub_that_accepts_and_never_answers_hangs(real: RealVllm, tmp_path: Path) -> None:
    """Its client gives up on each try after ten seconds, and tries again."""
    with mute_hub() as hub:
        argv = serve(real, REPOSITORY, "--port", str(free_port()))
        env = hub_environment(hub.url, tmp_path)
        with watching(real, tmp_path, argv, options=OPTIONS, env=env) as watch:
            assert until(lambda: hub.asked or watch.process.poll() is not None, READY_TIMEOUT_S), watch.output()
            assert not until(lambda: watch.process.poll() is not None, STALL_SEEN_S), watch.output()
            watch.process.terminate()
            watched = watch.finish(STOP_TIMEOUT_S)
    (stall,) = stalls(watched)
    assert (stall.kind, stall.step, stall.pid is not None) == ("download", "launch.config", True)
    assert watched.report["verdict"] == "stalled"
    assert watched.first["id"] == "model.download-stalled"
    assert watched.left == []


def test_hub_that_drips_is_slow_and_one_that_falls_silent_hangs(real: RealVllm, tmp_path: Path) -> None:
    with dripping_hub(Path(real.model), DRIP_S) as hub:
        env = hub_environment(hub.url, tmp_path) | {"HF_HUB_DOWNLOAD_TIMEOUT": "600"}
        argv = serve(real, REPOSITORY, "--port", str(free_port()))
        with watching(real, tmp_path, argv, options=OPTIONS, env=env) as watch:
            assert until(lambda: hub.began or watch.process.poll() is not None, READY_TIMEOUT_S), watch.output()
            assert not until(lambda: watch.process.poll() is not None, DRIP_S + STALL_SEEN_S), watch.output()
            # It does not heed SIGINT in the middle of a request.
            watch.process.terminate()
            watched = watch.finish(STOP_TIMEOUT_S)
    (stall,) = stalls(watched)
    assert stall.kind == "download"
    assert (stall.process, stall.pid is not None) == ("APIServer", True)
    # Not one moment of the dripping is in the stall.
    dripped = [motion for motion in motions(watched) if motion.doing == "downloading"]
    assert dripped[-1].t - dripped[0].t > DRIP_S / 2
    assert watched.report["verdict"] == "stalled"
    assert watched.first["id"] == "model.download-stalled"


def test_cold_compilation_is_never_stalled(real: RealVllm, tmp_path: Path) -> None:
    port = free_port()
    env = {"VLLM_CACHE_ROOT": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    with watching(real, tmp_path, serve(real, real.model, "--port", str(port)), options=OPTIONS, env=env) as watch:
        watch.wait_until_served(port)
        watched = interrupted(watch)
    seen = list(motions(watched))
    assert {motion.state for motion in seen} <= {"progressing", "slow"}
    assert "compiling" in {motion.doing for motion in seen}
    assert max(motion.since for motion in seen) < STALL_AFTER_S * 2 / 3
    assert watched.report["verdict"] == "healthy"
