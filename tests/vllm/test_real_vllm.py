"""What vdoctor says about a real vLLM on the CPU: one start that works, seven that do not."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.vllm.replay import STALL_AFTER_S, motions
from tests.vllm.watched import STOP_TIMEOUT_S, RealVllm, Watched, WorkerKiller, analyze, foreseen, free_port, watching

pytestmark = pytest.mark.vllm

PHASES = ["launch", "weight_load", "kv_init", "graph_capture", "runtime"]
# A worker that was killed left no word: these are all true of it.
KILLED_IDS = {"runtime.engine-dead", "dist.engine-core-failed", "oom.host-ram", "proc.terminated"}
SHORT = ("--max-model-len", "512")


class Scenario(NamedTuple):
    """A launch that fails, and what there is to say about it."""

    ids: set[str]  # any of them is right as the first finding
    phase: str
    status: int  # of vLLM itself, as measured without vdoctor
    options: Sequence[str] = SHORT
    model: str = "tiny"  # tiny, deep, absent, truncated
    port_taken: bool = False
    kill_worker: bool = False
    # Says whether a fix is one that works; None when there is none to be expected.
    fixed_by: Callable[[dict[str, Any]], bool] | None = None


def lowers_parallelism(fix: dict[str, Any]) -> bool:
    """Whether a fix sets a tensor parallel size that divides four heads, in the command too."""
    size = str(fix["changes"]["flags"].get("--tensor-parallel-size"))
    words = shlex.split(fix["command"] or "")
    return size in {"1", "2", "4"} and contains(words, ["--tensor-parallel-size", size])


def drops_flag(fix: dict[str, Any]) -> bool:
    """Whether a fix takes the unknown flag out and leaves the rest of the command as it was."""
    flags = fix["changes"]["flags"]
    words = shlex.split(fix["command"] or "")
    gone = "--enable-metrics" in flags and flags["--enable-metrics"] is None
    return gone and "--enable-metrics" not in words and contains(words, SHORT)


def contains(words: Sequence[str], part: Sequence[str]) -> bool:
    """Whether ``part`` stands in ``words`` in one piece."""
    size = len(part)
    return any(list(words[at : at + size]) == list(part) for at in range(len(words)))


FAILING = {
    "heads": Scenario(
        {"tp.heads-not-divisible"},
        "launch",
        1,
        (*SHORT, "--tensor-parallel-size", "3"),
        fixed_by=lowers_parallelism,
    ),
    "port": Scenario({"api.port-in-use"}, "launch", 1, port_taken=True),
    "absent": Scenario({"model.not-found"}, "launch", 1, model="absent"),
    "truncated": Scenario({"model.corrupt-weights"}, "weight_load", 1, model="truncated"),
    "too-long": Scenario(
        {"model.max-len-exceeds-config"},
        "launch",
        1,
        ("--max-model-len", "4096"),
    ),
    "unknown-flag": Scenario({"args.unknown-flag"}, "launch", 2, (*SHORT, "--enable-metrics"), fixed_by=drops_flag),
    "killed": Scenario(KILLED_IDS, "weight_load", 1, model="deep", kill_worker=True),
}


def serve(real: RealVllm, model: str, port: int, options: Sequence[str]) -> list[str]:
    """The command line of a server."""
    return [real.vllm, "serve", model, "--host", "127.0.0.1", "--port", str(port), *options]


def truncated_copy(model: str, folder: Path) -> str:
    """A copy of a model whose weight file ends in the middle, as after a broken download."""
    copy = shutil.copytree(model, folder / "truncated")
    weights = copy / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    return str(copy)


def model_of(scenario: Scenario, real: RealVllm, folder: Path) -> str:
    """The model path of a scenario, made if need be."""
    if scenario.model == "truncated":
        return truncated_copy(real.model, folder)
    paths = {"tiny": real.model, "deep": real.deep_model, "absent": str(folder / "no" / "model")}
    return paths[scenario.model]


def complete(port: int, model: str) -> int:
    """Ask the server for eight tokens; returns how many came. urllib's errors when it does not answer.

    Not their text: random weights may well choose tokens that the tokenizer has no text for.
    """
    body = {"model": model, "prompt": "The quick brown", "max_tokens": 8, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return int(json.load(response)["usage"]["completion_tokens"])


def run_failing(scenario: Scenario, real: RealVllm, folder: Path) -> Watched:
    """Run a scenario to its end."""
    model = model_of(scenario, real, folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1] if scenario.port_taken else free_port()
        argv = serve(real, model, port, scenario.options)
        # Before the start `check` says what the start will say; of a worker that somebody kills it cannot know.
        assert foreseen(real, argv) == ([] if scenario.kill_worker else sorted(scenario.ids))
        killer = WorkerKiller() if scenario.kill_worker else None
        with watching(real, folder, argv, killer) as watch:
            watched = watch.finish()
            assert killer is None or killer.killed, watch.output()
            return watched


@pytest.fixture(scope="module")
def healthy(real: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A server that starts, answers once and is then interrupted."""
    port = free_port()
    argv = serve(real, real.model, port, SHORT)
    assert foreseen(real, argv) == []
    with watching(real, tmp_path_factory.mktemp("healthy"), argv) as watch:
        watch.wait_until_served(port)
        assert complete(port, real.model) == 8
        watch.process.send_signal(signal.SIGINT)
        yield watch.finish(STOP_TIMEOUT_S)


@pytest.fixture(scope="module", params=FAILING)
def failing(
    request: pytest.FixtureRequest,
    real: RealVllm,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Scenario, Watched]:
    """Each failing scenario; runs once for all tests that look at it."""
    scenario = FAILING[request.param]
    return scenario, run_failing(scenario, real, tmp_path_factory.mktemp(request.param))


def span(report: dict[str, Any], *phases: str, but: str | None = None) -> tuple[float, float]:
    """Start and end of some phases together, over all processes; seconds from the first line.

    ``but`` is a step to leave out.
    """
    rows = [row for row in report["timeline"] if row["phase"] in phases and row["step"] != but]
    ends = [row["end"] for row in rows if row["end"] is not None]
    return min(row["start"] for row in rows), max(ends)


def took(log: str, what: str) -> float:
    """Seconds that vLLM itself says something took; the longest over its processes."""
    found = re.findall(re.escape(what) + r"[^\n]*? took (\d+\.\d+) s", log)
    assert found, f"{what!r} is not in the log"
    return max(float(seconds) for seconds in found)


def since_first_line(watched: Watched, text: str) -> float:
    """When a line with ``text`` came out of vdoctor; seconds from the first line."""
    at = next(arrival.at for arrival in watched.arrivals if text in arrival.text)
    return at - watched.arrivals[0].at


def near(measured: float, told: float) -> bool:
    """Equal within a second, or a tenth of what vLLM tells."""
    return abs(measured - told) <= max(1.0, told / 10)


def assert_session_whole(session: Path) -> None:
    """A session is a case folder with the recording beside it."""
    case = json.loads((session / "case.json").read_bytes())
    assert {"id", "also", "phase", "kind", "vllm_version", "gpu", "note"} <= case.keys()
    assert isinstance(json.loads((session / "session.json").read_bytes()), dict)
    samples = (session / "samples.jsonl").read_text().splitlines()
    assert samples and all(isinstance(json.loads(line), dict) for line in samples)


def whole_lines(data: bytes) -> list[bytes]:
    """Lines with their ends; only a line feed ends one."""
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def assert_passed_on(watched: Watched) -> None:
    """The session holds both streams byte for byte, and neither got into the other."""
    log = whole_lines(watched.log)
    streams = [whole_lines(watched.stdout), whole_lines(watched.stderr)]
    assert Counter(streams[0]) + Counter(streams[1]) == Counter(log)
    for lines in streams:
        rest = iter(log)
        assert all(line in rest for line in lines), "the session has lines in another order"
    # vLLM's own log goes to standard output; bars and tracebacks go to standard error.
    record = re.compile(rb"\(\w+ pid=\d+\) (?:INFO|WARNING|ERROR) ")
    assert not record.search(watched.stderr)


def assert_same_afterwards(watched: Watched, status: int) -> None:
    """``analyze`` of the session says what ``watch`` said."""
    code, report = analyze(watched.session)
    assert report.pop("source")["kind"] == "session"
    live = dict(watched.report)
    assert live.pop("source")["kind"] == "live"
    assert report == live
    assert code == status


def test_healthy_verdict(healthy: Watched) -> None:
    assert healthy.report["schema"] == "vdoctor.report/1"
    assert healthy.report["verdict"] == "healthy"
    assert healthy.report["phase"] is None
    assert {finding["severity"] for finding in healthy.report["findings"]} <= {"info"}


def test_healthy_is_never_stalled(healthy: Watched) -> None:
    """With a patience that is far below the one built in."""
    seen = list(motions(healthy))
    assert {motion.state for motion in seen} <= {"progressing", "slow"}
    assert {"starting", "computing"} & {motion.doing for motion in seen}
    assert max(motion.since for motion in seen) < STALL_AFTER_S


def test_healthy_engine(healthy: Watched) -> None:
    engine = healthy.report["engine"]
    assert engine["name"] == "vllm"
    assert engine["version"] == "0.32.0"
    assert engine["command"][1] == "serve"
    assert contains(engine["command"], SHORT)


def test_healthy_phases_in_order(healthy: Watched) -> None:
    starts: dict[str, float] = {}
    for row in healthy.report["timeline"]:
        starts[row["phase"]] = min(row["start"], starts.get(row["phase"], row["start"]))
    expected = [phase for phase in PHASES if phase != "graph_capture" or phase in starts]
    assert sorted(starts, key=lambda phase: (starts[phase], PHASES.index(phase))) == expected


def test_healthy_durations(healthy: Watched) -> None:
    log = healthy.log.decode("utf-8", "replace")
    # vLLM does not tell how long it works on the weights after it has read them.
    start, end = span(healthy.report, "weight_load", but="weight_load.process")
    assert near(end - start, took(log, "Initializing model") + took(log, "Loading weights"))
    start, end = span(healthy.report, "kv_init", "graph_capture")
    assert near(end - start, took(log, "init engine"))


def test_healthy_weight_load_is_where_vllm_says_so(healthy: Watched) -> None:
    start, end = span(healthy.report, "weight_load")
    assert near(start, since_first_line(healthy, "Starting to load model"))
    assert near(end, since_first_line(healthy, "Warming up model for the compilation"))


def test_healthy_exit_status(healthy: Watched) -> None:
    # vLLM itself ends with 0 on SIGINT, so vdoctor has to.
    assert healthy.status == 0


def test_healthy_leaves_nothing(healthy: Watched) -> None:
    assert healthy.left == []


def test_healthy_output_unchanged(healthy: Watched) -> None:
    assert b"Application startup complete" in healthy.stderr + healthy.stdout
    assert_passed_on(healthy)


def test_healthy_session(healthy: Watched) -> None:
    assert_session_whole(healthy.session)


def test_healthy_analyze_agrees(healthy: Watched) -> None:
    assert_same_afterwards(healthy, 0)


def test_failing_finding(failing: tuple[Scenario, Watched]) -> None:
    scenario, watched = failing
    assert watched.first["id"] in scenario.ids
    assert watched.first["evidence"]
    assert watched.report["verdict"] == "failed"
    assert watched.report["phase"] == scenario.phase


def test_failing_fix(failing: tuple[Scenario, Watched]) -> None:
    scenario, watched = failing
    fixes = watched.first["fixes"]
    assert {fix["safety"] for fix in fixes} <= {"safe", "lossy", "manual"}
    assert scenario.fixed_by is None or any(map(scenario.fixed_by, fixes)), fixes


def test_failing_exit_status(failing: tuple[Scenario, Watched]) -> None:
    scenario, watched = failing
    assert watched.status == scenario.status


def test_failing_leaves_nothing(failing: tuple[Scenario, Watched]) -> None:
    assert failing[1].left == []


def test_failing_output_unchanged(failing: tuple[Scenario, Watched]) -> None:
    assert_passed_on(failing[1])


def test_failing_session(failing: tuple[Scenario, Watched]) -> None:
    assert_session_whole(failing[1].session)


def test_failing_analyze_agrees(failing: tuple[Scenario, Watched]) -> None:
    assert_same_afterwards(failing[1], 1)
