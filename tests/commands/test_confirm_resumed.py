"""A search that is killed again and again: what was finished is not repeated, what was cut off is not trusted."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from tests.commands.test_confirm import FULL, Bench, verdicts
from tests.processes import DEADLINE, Mark, start


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_search_that_is_killed_at_random_repeats_nothing_that_was_finished(
    mark: Mark, tmp_path: Path, seed: int
) -> None:
    bench = Bench(mark, tmp_path)
    session = bench.record(*FULL)
    chance = random.Random(seed)
    book = session / "trials.jsonl"
    whole = b""
    for _ in range(8):
        search = start([*bench.argv(session), "--confirm", "auto"], env=bench.env)
        time.sleep(chance.uniform(0.3, 4.0))
        search.send_signal(signal.SIGKILL)
        search.communicate(timeout=DEADLINE)
        assert mark.left(20.0) == []
        now = book.read_bytes() if book.exists() else b""
        # Lines are only ever added.
        assert now.startswith(whole)
        whole = now
        if now and chance.random() < 0.5:
            # The kill hit a write, as a full disk would.
            book.write_bytes(now + now.splitlines()[0][: chance.randrange(1, 200)])
            whole = book.read_bytes()
    status, report, told = bench.confirm(session, "--confirm", "auto")
    assert status == 0, told
    assert verdicts(report) == ["confirmed", "same failure", "confirmed"]
    keys = []
    for line in book.read_text().splitlines():
        try:
            keys.append(json.loads(line)["key"])
        except ValueError:
            continue
    assert len(keys) == len(set(keys)) == 3
    # Each trial that counts has its whole recording.
    for trial in report["trials"]:
        assert json.loads((session / trial["session"] / "case.json").read_text())["kind"] == "trial"


def test_trial_whose_recording_is_damaged_is_made_again(mark: Mark, tmp_path: Path) -> None:
    bench = Bench(mark, tmp_path)
    session = bench.record(*FULL)
    status, first, _ = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0
    (session / first["trials"][0]["session"] / "case.json").unlink()
    status, second, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0, told
    assert second["trials"][0]["session"] != first["trials"][0]["session"]
