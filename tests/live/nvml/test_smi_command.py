"""The nvidia-smi command in place of its library: a stand-in that prints what the real one prints."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.processes import DEADLINE, VDOCTOR, Mark, hold, start, until

MIB = 1 << 20
#: Answers the query with its columns' names and a growing use of memory, as often as it is told.
COMMAND = r"""#!/bin/sh
for word in "$@"; do
    case $word in
    --query-gpu=*) columns=${word#--query-gpu=} ;;
    --loop-ms=*) echo "$word" > "$0.loop" ;;
    esac
done
case $columns in index,uuid,name,memory.total,memory.used,memory.free,utilization.gpu,power.draw,*) ;; *) exit 2 ;; esac
echo "index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], power.draw [W], ecc.errors.uncorrected.volatile.total"
used=1000
while :; do
    echo "0, GPU-aaaa, NVIDIA L4, 23034, $used, 21500, 7, 71.50, [N/A]"
    echo "1, GPU-bbbb, NVIDIA L4, 23034, 5, 22500, [N/A], [Unknown Error], 0"
    used=$((used + 1))
    sleep 0.1
done
"""


@pytest.fixture
def env(tmp_path: Path, mark: Mark) -> dict[str, str]:
    """Without the library, with the command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").write_bytes(b"not a library")
    (folder / "nvidia-smi").write_text(COMMAND)
    (folder / "nvidia-smi").chmod(stat.S_IRWXU)
    return mark.env | {"LD_LIBRARY_PATH": str(folder), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def samples(session: Path) -> list[dict[str, Any]]:
    path = session / "samples.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [sample for sample in map(json.loads, lines) if sample.get("gpus")]


@pytest.mark.parametrize(("visible", "indexes"), [(None, [0, 1]), ("1", [1]), ("GPU-aaaa", [0])])
def test_its_rows_are_samples(
    env: dict[str, str], tmp_path: Path, mark: Mark, visible: str | None, indexes: list[int]
) -> None:
    session = tmp_path / "s"
    more = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
    argv = [*VDOCTOR, "watch", "-q", "--interval", "0.05", "--session", str(session), "--", "sh", "-c"]
    process = start([*argv, hold(tmp_path / "go")], env=env | more)
    assert until(lambda: len(samples(session)) >= 4)
    (tmp_path / "go").touch()
    assert process.wait(DEADLINE) == 0
    rows = {gpu["index"]: gpu for sample in samples(session)[:1] for gpu in sample["gpus"]}
    assert sorted({gpu["index"] for sample in samples(session) for gpu in sample["gpus"]}) == indexes
    if 0 in indexes:
        assert rows[0]["name"] == "NVIDIA L4"
        assert (rows[0]["memory_total"], rows[0]["memory_free"]) == (23034 * MIB, 21500 * MIB)
        assert rows[0]["memory_used"] >= 1000 * MIB
        assert (rows[0]["utilization"], rows[0]["power"]) == (7, 71.5)
    # However short the interval: the command is dear.
    assert (tmp_path / "bin" / "nvidia-smi.loop").read_text().strip() == "--loop-ms=1000"
    assert mark.left() == []


def test_it_dies_with_us(env: dict[str, str], tmp_path: Path, mark: Mark) -> None:
    session = tmp_path / "s"
    process = start([*VDOCTOR, "watch", "-q", "--session", str(session), "--", "sleep", "600"], env=env)
    assert until(lambda: samples(session))
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE)
    assert until(lambda: not [left for left in mark.left(0.1) if "nvidia-smi" in left])
