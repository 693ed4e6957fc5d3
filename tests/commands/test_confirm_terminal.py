"""Ctrl-C in a real terminal at many moments of a search: nothing goes on, and the status says what happened."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from tests.commands.test_confirm import FULL, Bench
from tests.commands.test_kills import is_free
from tests.processes import ROOT, VDOCTOR, Mark, until
from tests.tmux import Tmux, needs_tmux

#: 1: it came too late or too early for the search; 130: interrupted; 0: proven before.
STATUS = {"confirm": {0, 130}, "watch": {1, 130}}


@needs_tmux
@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["", "deaf"])
@pytest.mark.parametrize("command", ["confirm", "watch"])
@pytest.mark.parametrize("keys", [1, 3])
def test_ctrl_c_at_any_moment_ends_everything(
    mark: Mark, tmp_path: Path, command: str, trouble: str, keys: int
) -> None:
    bench = Bench(mark, tmp_path)
    recorded = bench.record(*FULL)
    mark_env = bench.env | {"VDOCTOR_DEMO_TROUBLE": trouble, "VDOCTOR_DEMO_SPEED": "20"}
    for number in range(3):
        folder = tmp_path / f"t{number}"
        folder.mkdir()
        tmux = Tmux(folder, mark)
        tmux._env = mark_env
        serve = ["vllm", "serve", "demo/m", "--port", str(bench.port), *FULL]
        argv = (
            [*VDOCTOR, "confirm", str(recorded), "--lang", "en", "--confirm", "auto"]
            if command == "confirm"
            else [*VDOCTOR, "watch", "--lang", "en", "--session", str(folder / "s"), "--confirm", "auto", "--", *serve]
        )
        (recorded / "trials.jsonl").unlink(missing_ok=True)
        tmux.start("sh", "-c", 'trap : INT; "$@"; echo "status $?."', "sh", *argv)
        try:
            time.sleep(random.uniform(0.8, 6.0))
            for _ in range(keys):
                tmux._run("send-keys", "C-c")
                time.sleep(0.15)
            assert until(lambda tmux=tmux: re.search(r"status \d+\.", tmux.screen())), tmux.screen()
            found = re.search(r"status (\d+)\.", tmux.screen())
            assert found is not None
            assert int(found[1]) in STATUS[command], tmux.screen()
            told = tmux.screen().replace("\n", "")
            # The simulated server may be met while it imports, and says so as any Python program does.
            assert str(ROOT / "vdoctor") not in told or "demo/server.py" in told, told
        finally:
            tmux.stop()
        assert mark.left(20.0) == []
        assert is_free(bench.port)
