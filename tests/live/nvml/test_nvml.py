"""Nvml with the real pynvml on a library that plays a trajectory: there is no GPU where tests run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import DEADLINE, VDOCTOR, Mark, Terminal, hold, read_until, run, start, until

GIB = 1 << 30
HERE = Path(__file__).parent
LOOK = """
import json, sys
from dataclasses import asdict
from vdoctor.live.nvml import Nvml
nvml = Nvml()
rounds = [[asdict(gpu) for gpu in nvml.samples()] for _ in range(int(sys.argv[1]))]
nvml.close()
print(json.dumps({"error": nvml.error, "rounds": rounds, "closed": nvml.samples()}))
"""
TWO = f"""
gpu 0 NVIDIA-L4 GPU-aaaa {24 * GIB}
used 0 {GIB} {2 * GIB} {3 * GIB}
util 0 0 50 100
gpu 1 NVIDIA-L40S GPU-bbbb {48 * GIB}
used 1 {5 * GIB}
util 1 7
"""

Play = Callable[[str], dict[str, str]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stand-in, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.fail(
            "these tests need a C compiler (cc, gcc or clang) for the stand-in of NVIDIA's library", pytrace=False
        )
    folder = tmp_path_factory.mktemp("nvml")
    argv = [compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / "libnvidia-ml.so.1"), str(HERE / "fake_nvml.c")]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def play(library: Path, tmp_path: Path, mark: Mark) -> Play:
    """The environment in which pynvml finds the stand-in playing a trajectory."""

    def environment(trajectory: str) -> dict[str, str]:
        (tmp_path / "trajectory").write_text(trajectory)
        return mark.env | {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(tmp_path / "trajectory")}

    return environment


def looked(env: dict[str, str], rounds: int = 1) -> dict[str, Any]:
    done = run([sys.executable, "-c", LOOK, str(rounds)], env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_numbers_of_two_gpus_come_in_bytes_and_percent(play: Play) -> None:
    found = looked(play(TWO), 4)
    assert found["error"] is None
    assert [[gpu["memory_used"] for gpu in gpus] for gpus in found["rounds"]] == [
        [used * GIB, 5 * GIB] for used in (1, 2, 3, 3)
    ]
    assert [gpus[0]["utilization"] for gpus in found["rounds"]] == [0, 50, 100, 100]
    assert found["rounds"][0][1] == {
        "index": 1,
        "name": "NVIDIA-L40S",
        "uuid": "GPU-bbbb",
        "memory_total": 48 * GIB,
        "memory_used": 5 * GIB,
        "utilization": 7,
    }
    assert found["closed"] == []


def test_what_is_not_supported_is_none(play: Play) -> None:
    found = looked(play(f"gpu 0 - - {GIB}\nused 0 17\ngpu 1 X Y {GIB}\nused 1 NS 5\nutil 1 9\n"), 2)
    first, second = found["rounds"]
    assert first[0] == {
        "index": 0,
        "name": None,
        "uuid": None,
        "memory_total": GIB,
        "memory_used": 17,
        "utilization": None,
    }
    assert (first[1]["memory_total"], first[1]["memory_used"], first[1]["utilization"]) == (None, None, 9)
    assert second[1]["memory_used"] == 5


def test_gpu_that_is_lost_gives_no_row_and_leaves_the_other_alone(play: Play) -> None:
    lost = TWO.replace(f"used 1 {5 * GIB}", f"used 1 {5 * GIB} LOST")
    assert [[gpu["index"] for gpu in gpus] for gpus in looked(play(lost), 3)["rounds"]] == [[0, 1], [0], [0]]


def test_driver_that_is_not_loaded_gives_an_error_and_no_rows(play: Play) -> None:
    found = looked(play("init 9\n" + TWO), 2)
    assert "Driver Not Loaded" in found["error"]
    assert found["rounds"] == [[], []]


def test_machine_without_the_library_gives_an_error_and_no_rows(tmp_path: Path, mark: Mark) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")
    found = looked(mark.env | {"LD_LIBRARY_PATH": str(tmp_path)})
    assert found["error"]
    assert found["rounds"] == [[]]


def test_driver_without_gpus_gives_no_rows(play: Play) -> None:
    found = looked(play("# nothing\n"))
    assert (found["error"], found["rounds"]) == (None, [[]])


def test_watch_records_gpu_memory_and_reports_its_peak(play: Play, tmp_path: Path) -> None:
    session, result = tmp_path / "session", tmp_path / "result.json"
    options = ["--interval", "0.05", "--session", str(session), "--format", "json", "--output", str(result)]
    falling = TWO.replace(f"used 0 {GIB} {2 * GIB} {3 * GIB}", f"used 0 {GIB} {20 * GIB} {2 * GIB}")
    process = start([*VDOCTOR, "watch", "-q", *options, "--", "sh", "-c", hold(tmp_path / "go")], env=play(falling))

    def used() -> list[int]:
        lines = (session / "samples.jsonl").read_text().split("\n")[:-1] if session.exists() else []
        return [sample["gpus"][0]["memory_used"] for sample in map(json.loads, lines) if sample.get("gpus")]

    assert until(lambda: len(used()) >= 3)
    (tmp_path / "go").touch()
    _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, b"")
    assert used()[:3] == [GIB, 20 * GIB, 2 * GIB]
    gpus = json.loads(result.read_text())["memory"]["gpus"]
    assert [(gpu["index"], gpu["name"], gpu["total"]) for gpu in gpus] == [
        (0, "NVIDIA-L4", 24.0),
        (1, "NVIDIA-L40S", 48.0),
    ]
    assert (gpus[0]["used_at_start"], gpus[0]["used_peak"], gpus[0]["used"]) == (1.0, 20.0, 2.0)


def test_status_line_shows_gpu_memory(play: Play, tmp_path: Path) -> None:
    argv = [*VDOCTOR, "watch", "--no-session", "--interval", "0.05", "--", "sh", "-c", hold(tmp_path / "go")]
    terminal = Terminal(argv, env=play(TWO))
    terminal.wait_for(b"GPU0 3.0/24.0 GiB  GPU1 5.0/48.0 GiB")
    (tmp_path / "go").touch()
    assert terminal.finish()[0] == 0


def test_watch_goes_on_when_a_gpu_is_lost(play: Play, tmp_path: Path) -> None:
    lost = TWO.replace(f"used 0 {GIB} {2 * GIB} {3 * GIB}", f"used 0 {GIB} LOST")
    argv = [
        *VDOCTOR,
        "watch",
        "--interval",
        "0.05",
        "--session",
        str(tmp_path / "s"),
        "--",
        "sh",
        "-c",
        "sleep 0.6; exit 4",
    ]
    done = run(argv, env=play(lost))
    assert done.returncode == 4
    assert b"Traceback (most" not in done.stderr
    assert b"fault in vdoctor" not in done.stderr


def test_phase_line_without_a_terminal_names_gpu_memory(play: Play, tmp_path: Path) -> None:
    marker = "INFO 12-01 00:00:01 [gpu_model_runner.py:1] Starting to load model org/model..."
    script = f"sleep 0.7; echo '{marker}'; {hold(tmp_path / 'go')}"
    process = start([*VDOCTOR, "watch", "--no-session", "--interval", "0.05", "--", "sh", "-c", script], env=play(TWO))
    assert process.stderr is not None
    line = read_until(process.stderr.fileno(), b"\n")
    (tmp_path / "go").touch()
    process.communicate(timeout=DEADLINE)
    assert re.fullmatch(rb"vdoctor: \d+\.\d s  weight_load  GPU0 \d\.0/24\.0 GiB  GPU1 5\.0/48\.0 GiB\n", line)
