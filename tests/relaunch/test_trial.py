"""A trial with real processes: does the changed launch get ready?"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.processes import Mark, run
from tests.relaunch.rule import BANNER, ENGINE, OTHER, READY, RULES, SAME
from vdoctor.diagnose import Examination
from vdoctor.launch import options as option_tables
from vdoctor.model import Motion
from vdoctor.relaunch.trial import Duty

TRIED = Path(__file__).parent / "tried.py"
LONG = "sleep 600"

Try = Callable[..., dict[str, Any]]


@pytest.fixture
def tried(mark: Mark) -> Try:
    def attempt(*script: str, timeout: float = 60.0) -> dict[str, Any]:
        """Words of vLLM's are printed, others are commands."""
        lines = [f"echo {shlex.quote(word)}" if " " in word and ":" in word else word for word in script]
        done = run([sys.executable, str(TRIED), "\n".join(lines), str(timeout)], env=mark.env)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        found: dict[str, Any] = json.loads(done.stdout)
        assert mark.left() == []
        return found

    return attempt


def trial(found: dict[str, Any]) -> tuple[str, str | None]:
    (only,) = found["report"]["trials"]
    return only["verdict"], only["finding"]


def test_server_that_gets_ready_and_stays_confirms_the_fix(tried: Try) -> None:
    found = tried("sleep 0.3", BANNER, ENGINE, READY, LONG)
    assert trial(found) == ("confirmed", None)
    (only,) = found["report"]["trials"]
    assert only["changes"]["flags"] == {"--max-num-seqs": "8"}
    assert only["command"].startswith("TRIAL=yes sh -c ")
    # The time to ready, not the time that the trial took.
    assert 0.2 < only["seconds"] < found["took"]
    assert found["report"]["findings"][0]["confidence"] == "confirmed"
    # It was stopped by us: no finding, no failure.
    assert found["second"]["exit"]["asked"] == "stop"
    assert found["second"]["verdict"] == "healthy"


def test_server_that_dies_of_the_same_cause_refutes_it(tried: Try) -> None:
    found = tried(BANNER, ENGINE, SAME, "exit 1")
    assert trial(found) == ("same failure", "oom.kv-none")
    assert found["report"]["findings"][0]["confidence"] == "certain"


def test_server_that_dies_of_another_cause_says_which(tried: Try) -> None:
    assert trial(tried(BANNER, ENGINE, OTHER, "exit 1")) == ("other failure", "oom.weights")


def test_server_that_dies_without_a_word_is_another_failure(tried: Try) -> None:
    assert trial(tried("exit 3")) == ("other failure", None)


def test_server_that_dies_right_after_it_was_ready_does_not_count(tried: Try) -> None:
    assert trial(tried(BANNER, ENGINE, READY, "sleep 0.2", OTHER, "exit 1")) == ("other failure", "oom.weights")


def test_server_that_never_gets_ready_times_out(tried: Try) -> None:
    found = tried(BANNER, ENGINE, LONG, timeout=0.6)
    assert trial(found) == ("timed out", None)
    assert found["report"]["findings"][0]["confidence"] == "certain"


@pytest.mark.parametrize(("state", "stops"), [("stalled", True), ("slow", False), ("progressing", False)])
def test_server_that_is_seen_to_hang_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, state: Literal["stalled", "slow", "progressing"], stops: bool
) -> None:
    examination = Examination(RULES, option_tables.load())
    monkeypatch.setattr(Examination, "motion", Motion(9.0, state, "launch.config", 9.0))
    duty = Duty(60.0, None)
    assert duty.done(examination, 9.0) is stops
    assert duty.stalled is stops


def test_processes_of_the_server_are_stopped_with_it(tried: Try) -> None:
    """`tried` asserts that nothing is left."""
    assert trial(tried("(sleep 601; sleep 602) &", BANNER, ENGINE, READY, LONG))[0] == "confirmed"


def test_assignments_of_the_launch_reach_the_server(tried: Try) -> None:
    assert trial(tried('test "$TRIAL" = yes || exit 9', BANNER, ENGINE, READY, LONG))[0] == "confirmed"


def test_stop_of_the_server_may_take_its_time(tried: Try) -> None:
    script = ("trap 'sleep 0.5; exit 0' TERM", BANNER, ENGINE, READY, "while true; do sleep 0.05; done")
    assert trial(tried(*script))[0] == "confirmed"
