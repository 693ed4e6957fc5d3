"""vdoctor is killed while its keeper runs one certain line: the server is ended all the same, deaf to SIGTERM or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.processes import DEADLINE, marked, start

SCRIPT = Path(__file__).parent / "orphaned.py"
#: The start of a child takes about 130 lines, a life without much output some 600.
LINES = [*range(1, 160, 6), *range(160, 700, 45)]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell nobody that a parent ended")
@pytest.mark.parametrize("lines", [LINES[at::4] for at in range(4)], ids=lambda lines: str(lines[0]))
def test_server_ends_at_whichever_line_of_the_keeper_vdoctor_dies(lines: list[int]) -> None:
    left: dict[int, list[str]] = {}
    for line in lines:
        with marked() as mark:
            process = start([sys.executable, str(SCRIPT), str(line), str(line + 1)], env=mark.env)
            _, told = process.communicate(timeout=DEADLINE)
            assert (process.returncode, told) == (0, b"")
            if found := mark.left(20.0):
                left[line] = found
    assert left == {}
