"""vdoctor confirm of a `docker run`: the right container is ended, and nothing is left. docker is a stand-in."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.test_confirm import FULL, Bench, free_port, verdicts
from tests.commands.test_kills import is_free
from tests.processes import DEADLINE, Mark, start, until
from tests.relaunch.dockerd import Daemon


class Dock(Bench):
    """A bench with docker. `daemon` is out of the reach of vdoctor's process tree."""

    def __init__(self, mark: Mark, folder: Path, trouble: str = "") -> None:
        super().__init__(mark, folder)
        self.daemon = Daemon(folder / "bin", self.env | {"VDOCTOR_DEMO_TROUBLE": trouble})

    def command(self, *options: str) -> list[str]:
        server = ["serve", "demo/m", "--port", "8000", *FULL]
        return ["docker", "run", *options, "-p", f"{self.port}:8000", "vllm/vllm-openai:v0.11.2", *server]


@pytest.fixture(params=[""])
def dock(request: pytest.FixtureRequest, mark: Mark, tmp_path: Path) -> Iterator[Dock]:
    found = Dock(mark, tmp_path, request.param)
    yield found
    found.daemon.close()


def test_container_of_a_trial_is_ended_and_only_that(dock: Dock) -> None:
    """A container of the user's runs beside it, the one of the first start still has its name."""
    session = dock.record(command=dock.command("--name", "mine", "--gpus", "all"))
    assert dock.daemon.names == ["mine"]
    stranger = start(
        ["docker", "run", "--name", "other", "img", "serve", "x", "--port", str(free_port())], env=dock.env
    )
    assert until(lambda: "other" in dock.daemon.names)
    kept, dock.mark.left = dock.mark.left, lambda seconds=5.0: []  # type: ignore[method-assign]
    status, report, told = dock.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0, told
    assert verdicts(report) == ["confirmed", "same failure"]
    assert dock.daemon.names == ["mine", "other"]
    assert dock.daemon.containers["other"].running
    assert is_free(dock.port)
    after = report["proof"]["after"]
    assert after[:6] == ["docker", "run", "--name", "mine", "--gpus", "all"]
    assert after[-2:] == ["--max-cudagraph-capture-size", "32"]
    removed = [call for call in dock.daemon.calls if call[0] == "rm"]
    assert len(removed) == 2
    assert all(call[2].startswith("vdoctor-trial-") for call in removed)
    stranger.terminate()
    stranger.communicate(timeout=DEADLINE)
    assert kept() == []


@pytest.mark.parametrize("options", [("-d",), ("-it",), ("-itd", "--name", "mine", "--restart=always"), ("--rm", "-i")])
def test_trials_run_in_the_foreground_and_the_answer_keeps_the_options(dock: Dock, options: tuple[str, ...]) -> None:
    session = dock.record(command=dock.command())
    told_session = session / "session.json"
    text = told_session.read_text().replace('"run",', '"run",' + "".join(f'"{word}",' for word in options), 1)
    told_session.write_text(text)
    status, report, told = dock.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0, told
    assert report["proof"]["after"][2 : 2 + len(options)] == list(options)
    assert [name for name in dock.daemon.names if name.startswith("vdoctor")] == []
    without = " ".join(options).removeprefix("--rm ")
    assert f"in the foreground, as vdoctor-trial-..., without {without};" in told


@pytest.mark.parametrize("dock", ["deaf"], indirect=True)
def test_container_that_survives_sigterm_is_removed(dock: Dock) -> None:
    session = dock.record(command=dock.command("--rm"))
    status, _, told = dock.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0, told
    assert dock.daemon.names == []
    assert is_free(dock.port)


@pytest.mark.parametrize("dock", ["", "deaf"], indirect=True)
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_no_container_is_left_when_vdoctor_is_killed(dock: Dock, signum: signal.Signals) -> None:
    session = dock.record(command=dock.command())
    first = dock.daemon.names
    env = dock.env | {"VDOCTOR_DEMO_SPEED": "5"}
    search = start([*dock.argv(session), "--confirm", "auto"], env=env)
    assert until(lambda: dock.daemon.names != first)
    time.sleep(random.uniform(0.0, 1.0))
    search.send_signal(signum)
    search.communicate(timeout=DEADLINE)
    assert dock.mark.left(20.0) == []
    assert dock.daemon.names == first
    assert is_free(dock.port)
