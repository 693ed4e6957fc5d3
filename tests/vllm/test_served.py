"""A real server that is ready: a load that its KV cache cannot carry, then a worker that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import until
from tests.vllm.replay import motions, stalls
from tests.vllm.watched import RealVllm, Watch, Watched, analyze, free_port, watching

pytestmark = pytest.mark.vllm

#: Twenty blocks hold some 2,500 tokens: three of these answers at once.
OPTIONS = (
    *("--max-model-len", "1024", "--num-gpu-blocks-override", "20"),
    *("--no-enable-prefix-caching", "--disable-uvicorn-access-log"),
)
CLIENTS, LOAD_S, TOKENS = 24, 45.0, 900


def ask(port: int, model: str, end: float) -> None:
    """Long answers, one after the other; what does not come is no matter."""
    while time.monotonic() < end:
        body = {"model": model, "prompt": "The quick brown", "max_tokens": TOKENS, "ignore_eos": True}
        url, header = f"http://127.0.0.1:{port}/v1/completions", {"Content-Type": "application/json"}
        with contextlib.suppress(OSError):
            request = urllib.request.Request(url, json.dumps(body).encode(), header)
            urllib.request.urlopen(request, timeout=max(1.0, end - time.monotonic())).read()


def worker_of(watch: Watch) -> psutil.Process:
    """The process that has the model."""
    tree = psutil.Process(watch.process.pid).children(recursive=True)
    return next(process for process in tree if "VLLM::Worker" in " ".join(process.cmdline()))


@pytest.fixture(scope="module")
def served(real: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_port()
    argv = [real.vllm, "serve", real.model, "--host", "127.0.0.1", "--port", str(port), *OPTIONS]
    with watching(real, tmp_path_factory.mktemp("served"), argv) as watch:
        watch.wait_until_served(port)
        end = time.monotonic() + LOAD_S
        clients = [threading.Thread(target=ask, args=(port, real.model, end), daemon=True) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        assert not until(lambda: watch.process.poll() is not None, LOAD_S), watch.output()
        os.kill(worker_of(watch).pid, signal.SIGKILL)
        yield watch.finish()


def facts(watched: Watched) -> dict[str, Any]:
    return {name: fact["value"] for name, fact in watched.report["facts"].items()}


def test_ready_by_log_and_health(served: Watched) -> None:
    assert facts(served)["server.ready_by"] == "log and health"


def test_a_server_under_load_is_never_stalled(served: Watched) -> None:
    """More requests than fit, and each of them moves on."""
    seen = list(motions(served))
    assert "serving" in {motion.doing for motion in seen}
    assert stalls(served) == []


def test_a_cache_too_small_for_the_load_is_found_in_metrics(served: Watched) -> None:
    found = {finding["id"]: finding for finding in served.report["findings"]}
    assert {"runtime.preemption", "runtime.kv-pressure"} & found.keys(), list(found)
    assert served.report["facts"]["kv.preempted"]["source"] == "metrics"
    assert facts(served)["kv.preempted"] >= 5
    assert facts(served)["kv.full_waiting"] >= 5


def test_who_was_killed_and_that_it_was_no_lack_of_memory(served: Watched) -> None:
    """vLLM itself ends with 0 then."""
    assert served.status == 0
    assert served.report["verdict"] == "failed"
    assert facts(served)["exit.first_dead"].startswith("Worker")
    assert facts(served)["exit.cause_signal"] == "SIGKILL"
    if facts(served).get("exit.oom_kills") == 0:
        assert served.first["id"] == "proc.terminated"
    assert served.first["evidence"]


def test_the_session_says_the_same(served: Watched) -> None:
    _, report = analyze(served.session)
    live = dict(served.report)
    assert report.pop("source")["kind"] == "session" and live.pop("source")["kind"] == "live"
    assert report == live


def test_no_key_and_no_request_is_in_the_session(served: Watched) -> None:
    text = Path(served.session, "samples.jsonl").read_text()
    assert "vllm:num_requests_running" in text and "quick brown" not in text
