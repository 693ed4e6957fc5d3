"""A real HTTP server that plays pages of a real vLLM, and servers that do not answer."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import until
from vdoctor.launch.endpoint import Endpoint
from vdoctor.live.metrics import ServerProbe, is_local, listens, read_page
from vdoctor.model import Sample

PAGE = (Path(__file__).parent / "pages" / "vllm-0.32.0.txt").read_text()
OLD = """\
# HELP vllm:num_requests_running Number of requests currently running on GPU.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="org/m"} 3.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="org/m"} 4.0
# HELP vllm:gpu_cache_usage_perc GPU KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="org/m"} 0.97
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{model_name="org/m"} 12.0
# HELP vllm:time_per_output_token_seconds Histogram of time per output token in seconds.
# TYPE vllm:time_per_output_token_seconds histogram
vllm:time_per_output_token_seconds_bucket{le="0.01",model_name="org/m"} 5.0
vllm:time_per_output_token_seconds_bucket{le="+Inf",model_name="org/m"} 9.0
vllm:time_per_output_token_seconds_count{model_name="org/m"} 9.0
vllm:time_per_output_token_seconds_sum{model_name="org/m"} 0.4
"""


# pages


def test_the_figures_of_a_real_server_under_load() -> None:
    assert read_page(PAGE) == {
        "vllm:num_requests_running": 4.0,
        "vllm:num_requests_waiting": 42.0,
        "vllm:kv_cache_usage_perc": pytest.approx(0.947, abs=0.001),
        "vllm:num_preemptions_total": 217.0,
    }


def test_a_page_with_the_old_names() -> None:
    page = read_page(OLD)
    assert page["vllm:gpu_cache_usage_perc"] == 0.97
    assert page["vllm:num_preemptions_total"] == 12.0
    assert page["vllm:time_per_output_token_seconds_sum"] == 0.4


def test_several_engines_are_summed_and_the_fullest_cache_counts() -> None:
    page = read_page(
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 4.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
    )
    assert page == {"vllm:num_requests_running": 7.0, "vllm:kv_cache_usage_perc": 0.9}


@pytest.mark.parametrize("text", ["", "<html>", "vllm:num_requests_running{ 3", "\x00" * 50, "go_gc 1\n"])
def test_other_pages_give_nothing(text: str) -> None:
    assert read_page(text) == {}


# servers


class Player(http.server.ThreadingHTTPServer):
    """Answers as its `script` says: path -> (status, text), or None to hang until the test ends."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: dict[str, tuple[int, str] | None] = {}
        self.asked: list[str] = []
        self.keys: set[str | None] = set()
        self.over = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        player = self.server
        assert isinstance(player, Player)
        player.asked.append(self.path)
        player.keys.add(self.headers.get("Authorization"))
        answer = player.script.get(self.path, (404, ""))
        if answer is None:
            player.over.wait()
            return
        self.send_response(answer[0])
        self.end_headers()
        self.wfile.write(answer[1].encode())

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def player() -> Iterator[Player]:
    one = Player()
    yield one
    one.over.set()
    one.shutdown()
    one.server_close()


@pytest.fixture
def probes() -> Iterator[list[ServerProbe]]:
    started: list[ServerProbe] = []
    yield started
    for probe in started:
        probe.stop()


def probe(probes: list[ServerProbe], port: int, **options: Any) -> ServerProbe:
    pids = options.pop("pids", [os.getpid()])
    one = ServerProbe(Endpoint("127.0.0.1", port, **options), time.monotonic, lambda: pids, 0.02)
    probes.append(one)
    one.begin()
    return one


def gather(one: ServerProbe, number: int) -> list[Sample]:
    found: list[Sample] = []

    def look() -> bool:
        found.extend(one.take())
        return len(found) >= number

    assert until(look)
    return found


def test_health_first_then_pages(player: Player, probes: list[ServerProbe]) -> None:
    player.script = {"/health": (503, ""), "/metrics": (200, PAGE)}
    one = probe(probes, player.port)
    assert {sample.health for sample in gather(one, 2)} == {503}
    assert not one.ready
    player.script["/health"] = (200, "")
    assert until(lambda: one.ready)
    assert until(lambda: any(sample.metrics for sample in one.take()))
    # Once it is ready a page proves as much, and costs its log one line instead of two.
    asked = len(player.asked)
    assert until(lambda: len(player.asked) > asked + 3)
    assert set(player.asked[asked + 1 :]) == {"/metrics"}


def test_the_key_is_sent_and_no_other_header(player: Player, probes: list[ServerProbe]) -> None:
    player.script = {"/health": (200, "")}
    gather(probe(probes, player.port, key="s3cret"), 1)
    assert player.keys == {"Bearer s3cret"}


def test_a_server_that_accepts_and_never_answers(
    player: Player, probes: list[ServerProbe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vdoctor.live.metrics._LIMIT_S", 0.1)
    player.script = {"/health": None}
    one = probe(probes, player.port)
    assert {sample.health for sample in gather(one, 2)} == {0}
    assert not one.ready


def test_a_ready_server_that_falls_silent_is_asked_for_its_health_again(
    player: Player, probes: list[ServerProbe]
) -> None:
    player.script = {"/health": (200, ""), "/metrics": (200, OLD)}
    one = probe(probes, player.port)
    assert until(lambda: one.ready)
    player.script = {"/health": (503, ""), "/metrics": (500, "")}
    assert until(lambda: any(sample.health == 503 for sample in one.take()))


def test_another_program_on_the_port_is_not_asked(player: Player, probes: list[ServerProbe]) -> None:
    """The child will fail for the port; its neighbour's health is no health of its."""
    player.script = {"/health": (200, "")}
    other = subprocess.Popen(["sleep", "60"])
    try:
        one = probe(probes, player.port, pids=[other.pid])
        assert not until(lambda: player.asked or one.take(), 0.3)
    finally:
        other.kill()
        other.wait()


def test_a_port_counts_when_a_process_listens_on_it() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert not listens(port, [os.getpid()])
        bound.listen()
        assert listens(port, [os.getpid()])
        assert not listens(port, [1 << 22])


def test_only_this_machine_is_ever_asked() -> None:
    assert is_local("127.0.0.1")
    assert not is_local("192.0.2.1")
    assert not is_local("no.such.host.invalid")
