"""vdoctor killed at random moments of a search: no process, port or temporary file is left, and the search goes on."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.commands.test_confirm import FULL, Bench, free_port
from tests.processes import DEADLINE, Mark, start

KILLS, AT_ONCE, LONGEST_S = 50, 5, 4.0


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["", "deaf"])
def test_nothing_is_left_by_a_search_that_is_killed(mark: Mark, tmp_path: Path, trouble: str) -> None:
    """Two thirds of them with SIGKILL, which vdoctor cannot answer: its children notice by themselves."""
    bench = Bench(mark, tmp_path)
    recorded = bench.record(*FULL)
    chance = random.Random(7)
    env = bench.env | {"VDOCTOR_DEMO_TROUBLE": trouble, "VDOCTOR_DEMO_SPEED": "20"}
    for _ in range(KILLS // AT_ONCE // 2):
        ports, searches = [], []
        for number in range(AT_ONCE):
            port = free_port()
            session = tmp_path / f"s{number}"
            shutil.rmtree(session, ignore_errors=True)
            shutil.copytree(recorded, session)
            told = (session / "session.json").read_text().replace(f'"{bench.port}"', f'"{port}"')
            (session / "session.json").write_text(told)
            argv = [*bench.argv(session), "--confirm", "auto", "--max-trials", "4"]
            searches.append(start(argv, env=env))
            ports.append(port)
        for search in searches:
            time.sleep(chance.uniform(0, LONGEST_S / AT_ONCE))
            search.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
        for search in searches:
            search.communicate(timeout=DEADLINE)
        assert mark.left(15.0) == []
        assert [port for port in ports if not is_free(port)] == []
        assert list((tmp_path / "tmp").iterdir()) == []
    status, report, told = bench.confirm(tmp_path / "s0", "--confirm", "auto", "--max-trials", "1")
    assert status == 0, told
    assert report["proof"] is not None
