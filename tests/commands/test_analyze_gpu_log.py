"""`analyze --gpu-log`: the whole way from two files to the table, and what it says about files that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import VDOCTOR, Mark, run

LOG = """\
(EngineCore_DP0 pid=7) INFO 03-01 12:00:00 [api_server.py:1] vLLM API server version 0.11.0
(EngineCore_DP0 pid=7) INFO 03-01 12:00:10 [gpu_model_runner.py:2602] Starting to load model org/model...
(EngineCore_DP0 pid=7) INFO 03-01 12:00:20 [gpu_model_runner.py:2653] Model loading took 10.0000 GiB and 9.000000 seconds
(EngineCore_DP0 pid=7) INFO 03-01 12:00:30 [gpu_worker.py:298] Available KV cache memory: 8.00 GiB
(EngineCore_DP0 pid=7) INFO 03-01 12:00:40 [core.py:210] init engine (profile, create kv cache, warmup model) took 20.00 seconds
(APIServer pid=1) INFO:     Application startup complete.
"""


def gpu_log(*, day: str = "03/01") -> str:
    """Two seconds before the first line to five behind the last one."""
    lines = ["timestamp, index, memory.used [MiB], memory.total [MiB]"]
    for second in range(-2, 46):
        used = 1024 if second < 12 else 11_264 if second < 35 else 19_456
        clock = f"12:00:{second:02d}" if second >= 0 else f"11:59:{60 + second}"
        lines.append(f"2025/{day} {clock}.000, 0, {used} MiB, 24576 MiB")
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "vllm.log").write_text(LOG)
    (tmp_path / "gpu.csv").write_text(gpu_log())
    return tmp_path / "vllm.log", tmp_path / "gpu.csv"


def test_parts_are_told_from_the_two_files(files: tuple[Path, Path], mark: Mark) -> None:
    log, gpus = files
    done = run([*VDOCTOR, "analyze", "--format", "json", "--gpu-log", str(gpus), str(log)], env=mark.env)
    assert (done.returncode, done.stderr) == (0, b"")
    parts = json.loads(done.stdout)["memory"]["gpus"][0]["parts"]
    assert (parts["before_start"]["measured"], parts["weights"], parts["kv_cache"]) == (
        1.0,
        {"log": 10.0, "measured": 10.0},
        {"log": 8.0, "measured": 8.0},
    )
    text = run([*VDOCTOR, "analyze", "--gpu-log", str(gpus), str(log)], env=mark.env).stdout.decode()
    assert [line.split() for line in text.splitlines() if line.lstrip().startswith("weights")] == [
        ["weights", "10.00", "10.00"]
    ]


def test_recording_of_another_day_gives_totals_and_says_so(files: tuple[Path, Path], mark: Mark) -> None:
    log, gpus = files
    gpus.write_text(gpu_log(day="03/05"))
    done = run([*VDOCTOR, "analyze", "--format", "json", "--gpu-log", str(gpus), str(log)], env=mark.env)
    assert b"the times of --gpu-log do not meet those of the log" in done.stderr
    assert json.loads(done.stdout)["memory"]["gpus"][0]["used_peak"] == 19.0


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, b"cannot be read"),
        ("hello\n", b"line 1: is no recording of nvidia-smi"),
        ("index, memory.used\n", b"no row of 2"),
    ],
)
def test_file_that_is_no_recording_ends_with_status_2(
    files: tuple[Path, Path], mark: Mark, content: str | None, told: bytes
) -> None:
    log, gpus = files
    gpus.unlink() if content is None else gpus.write_text(content)
    done = run([*VDOCTOR, "analyze", "--gpu-log", str(gpus), str(log)], env=mark.env)
    assert done.returncode == 2
    assert b"gpu.csv" in done.stderr
    assert told in done.stderr
    assert b"Traceback" not in done.stderr


def test_it_goes_with_one_log(files: tuple[Path, Path], mark: Mark) -> None:
    log, gpus = files
    done = run([*VDOCTOR, "analyze", "--gpu-log", str(gpus), str(log), str(log)], env=mark.env)
    assert (done.returncode, b"goes with one log" in done.stderr) == (2, True)
