"""vdoctor confirm of a start that served, though badly: serving alone proves nothing, and speed has a before."""

from __future__ import annotations

import re
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.commands.test_confirm import FULL, Bench, verdicts
from tests.processes import DEADLINE, VDOCTOR, Mark, start, until

#: The simulated server, and a line of statistics with preemptions when more than 14 requests may run at once.
SERVER = """#!{python}
import sys
from vdoctor.demo import server, troubles
def answered(self):
    at = sys.argv.index("--max-num-seqs") + 1 if "--max-num-seqs" in sys.argv else 0
    if not at or int(sys.argv[at]) > 14:
        print("(APIServer pid=7) INFO 04-04 14:00:10 [loggers.py:240] Engine 000: Avg prompt throughput: 40.0 tokens/s, Avg "
              "generation throughput: 310.2 tokens/s, Running: 14 reqs, Waiting: 22 reqs, Preemptions: 9, GPU KV cache "
              "usage: 99.8%, Prefix cache hit rate: 3.0%", flush=True)
troubles.Troubles.answered = answered
sys.exit(server.main(sys.argv[1:]))
"""


@pytest.fixture
def bench(mark: Mark, tmp_path: Path) -> Bench:
    found = Bench(mark, tmp_path)
    (tmp_path / "bin" / "vllm").write_text(SERVER.format(python=sys.executable))
    return found


def degraded(bench: Bench) -> Path:
    """The session of a start that served and was ended by its user."""
    session = bench.folder / "session"
    words = ["vllm", "serve", "demo/m", "--port", str(bench.port)]
    process = start([*VDOCTOR, "watch", "-q", "--session", str(session), "--", *words], env=bench.env)
    log = session / "log.txt"
    assert until(lambda: log.exists() and b"startup complete" in log.read_bytes())
    url = f"http://127.0.0.1:{bench.port}/v1/completions"
    body = urllib.request.Request(url, b'{"prompt": "x", "max_tokens": 1}', {"Content-Type": "application/json"})
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(body, timeout=DEADLINE).close()
    assert until(lambda: b"Preemptions: 9" in log.read_bytes())
    process.terminate()
    process.communicate(timeout=DEADLINE)
    return session


def test_what_it_suffered_from_must_be_gone(bench: Bench) -> None:
    status, report, told = bench.confirm(degraded(bench), "--confirm", "auto", "--measure", "--max-trials", "1")
    assert status == 0, told
    assert report["verdict"] == "degraded"
    assert verdicts(report) == ["confirmed", "same failure"]
    assert report["proof"]["after"][-2:] == ["--max-num-seqs", "14"]
    (speed,) = [text for text in report["proof"]["price"] if text.startswith("speed")]
    found = re.fullmatch(
        r"speed: ([\d.]+) -> ([\d.]+) tokens/s; median time of a request: ([\d.]+) -> ([\d.]+) s \(.+\)", speed
    )
    assert found is not None, speed
    new, old = report["trials"]
    assert [float(one) for one in found.groups()] == [
        old["tokens_per_second"],
        new["tokens_per_second"],
        old["latency"],
        new["latency"],
    ]


def test_serving_with_the_same_trouble_is_no_proof(bench: Bench) -> None:
    session = degraded(bench)
    server = bench.folder / "bin" / "vllm"
    server.write_text(server.read_text().replace("> 14", "> 1"))
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert (status, report["proof"]) == (1, None), told
    assert verdicts(report) == ["same failure"]


def test_start_that_never_served_has_no_speed_before(mark: Mark, tmp_path: Path) -> None:
    bench = Bench(mark, tmp_path)
    status, report, _ = bench.confirm(
        bench.record(*FULL), "--confirm", "auto", "--max-trials", "1", "--measure", "--lang", "en"
    )
    assert status == 0
    assert any(
        text.startswith("speed") and text.endswith("before: none, it did not serve")
        for text in report["proof"]["price"]
    )
