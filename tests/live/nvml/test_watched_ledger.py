"""A whole start under `watch`: what the ledger says against what the stand-in played."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.live.nvml.conftest import Play
from tests.processes import VDOCTOR, run
from vdoctor.live import procfs

GIB = 1 << 30
MIB = 1 << 20
#: A start as V1 prints it, the memory moves in the middle of each phase.
STEPS = (
    "[api_server.py:1] vLLM API server version 0.11.0",
    "[gpu_model_runner.py:2602] Starting to load model org/model...",
    "[gpu_model_runner.py:2653] Model loading took 10.0000 GiB and 1.000000 seconds",
    "[backends.py:548] Using cache directory: /c for vLLM's torch.compile",
    "[gpu_worker.py:298] Available KV cache memory: 8.00 GiB",
    "[kv_cache_utils.py:1087] GPU KV cache size: 65,536 tokens",
)
SCRIPT = r"""
import os, sys, time
def say(text):
    print("(EngineCore_DP0 pid=77) INFO 12-01 00:00:00 " + text, flush=True)
def uses(gib, mib=0):
    with open(MEMORY + ".new", "w") as file:
        file.write(str((gib << 30) + (mib << 20)))
    os.replace(MEMORY + ".new", MEMORY)
    seen((gib << 30) + (mib << 20))
def seen(size):
    end = time.monotonic() + 20
    while MEASURED and time.monotonic() < end:
        with open(SAMPLES) as file:
            if f'"memory_used":{size}' in file.read():
                break
        time.sleep(0.05)
    time.sleep(0.2)
if MEASURED:
    seen(1 << 30)
say(STEPS[0]); time.sleep(0.4); uses(1, 600)
say(STEPS[1]); time.sleep(0.4); uses(11, 700)
say(STEPS[2]); say(STEPS[3]); time.sleep(0.4); uses(13, 700); uses(11, 800)
say(STEPS[4]); say(STEPS[5]); time.sleep(0.4); uses(19, 800)
if GRAPHS is not None:
    print("Capturing CUDA graphs (decode, FULL):   0%|          | 0/2 [00:00<?, ?it/s]", end="\r", file=sys.stderr, flush=True)
    time.sleep(0.4); uses(*GRAPHS)
    say("[gpu_model_runner.py:3480] Graph capturing finished in 1 secs, took 0.50 GiB")
say("[core.py:210] init engine (profile, create kv cache, warmup model) took 3.00 seconds")
print("(APIServer pid=1) INFO:     Application startup complete.", flush=True)
time.sleep(0.6)
"""
#: The memory is what the script writes into a file, and it waits until that was measured: a slow machine shifts nothing.
NORMAL = f"gpu 0 NVIDIA-L4 GPU-aaaa {24 * GIB} {512 * MIB}\nat 0 util 0 0\nfile 0 MEMORY\n"
GRAPHS = (20, 700)


def watched(
    play: Play, trajectory: str, folder: Path, *, graphs: tuple[int, int] | None = GRAPHS, lang: str = "en"
) -> tuple[dict[str, Any], str]:
    """The report and the text of a start under `watch`."""
    result = folder / "result.json"
    memory = folder / "memory"
    memory.write_text(str(GIB))
    env = play(trajectory.replace("MEMORY", str(memory)))
    given = (STEPS, graphs, str(memory), str(folder / "session" / "samples.jsonl"), "file 0" in trajectory)
    program = f"STEPS, GRAPHS, MEMORY, SAMPLES, MEASURED = {given!r}\n{SCRIPT}"
    options = ["--interval", "0.05", "--session", str(folder / "session"), "--lang", lang]
    argv = [*VDOCTOR, "watch", *options, "--format", "json", "--output", str(result), "--", "python3", "-c", program]
    done = run(argv, env=env)
    assert done.returncode == 0, done.stderr
    text = run([*VDOCTOR, "analyze", "--lang", lang, str(folder / "session")], env=env).stdout.decode()
    report: dict[str, Any] = json.loads(result.read_text())
    return report, text


def measured(report: dict[str, Any], gpu: int = 0) -> dict[str, float | None]:
    return {name: part["measured"] for name, part in report["memory"]["gpus"][gpu]["parts"].items()}


def test_ledger_of_a_normal_start_is_what_was_played(play: Play, tmp_path: Path) -> None:
    report, text = watched(play, NORMAL, tmp_path)
    assert report["verdict"] == "healthy"
    found = {name: round(value or 0, 2) for name, value in measured(report).items()}
    assert found == {
        "before_start": 1.0,
        "context_other": 0.59,
        "weights": 10.1,
        "activation_peak": 2.0,
        "kv_cache": 8.0,
        "cuda_graphs": 0.9,
    }
    row = report["memory"]["gpus"][0]
    assert [row["parts"][name]["log"] for name in ("weights", "kv_cache", "cuda_graphs")] == [10.0, 8.0, 0.5]
    assert (row["total"], row["reserved"], row["as_of"]) == (24.0, 0.5, "ready")
    # 100 MiB more than the weights while they were loaded, 100 MiB left behind by the profile run.
    assert row["unexplained"] == pytest.approx(0.2, abs=0.01)
    assert row["in_use"] == pytest.approx(20 + 700 / 1024, abs=0.01)
    assert row["free"] == pytest.approx(24 - 0.5 - 20 - 700 / 1024, abs=0.01)
    assert report["facts"]["mem.graph_measured_gib"] == {"value": 0.9, "source": "nvml"}
    table = text[text.index("memory, GiB") :].splitlines()
    assert table[1].split() == ["log", "GPU", "0"]
    assert [line.split()[-2:] for line in table if "weights" in line or "CUDA graphs" in line] == [
        ["10.00", "10.10"],
        ["0.50", "0.90"],
    ]


def test_graph_memory_that_the_log_does_not_count_is_measured(play: Play, tmp_path: Path) -> None:
    report, _ = watched(play, NORMAL, tmp_path, graphs=(23, 0))
    part = report["memory"]["gpus"][0]["parts"]["cuda_graphs"]
    assert part["log"] == 0.5
    assert part["measured"] == pytest.approx(3 + 224 / 1024, abs=0.01)


def test_without_a_capture_there_is_no_part_for_it(play: Play, tmp_path: Path) -> None:
    report, text = watched(play, NORMAL, tmp_path, graphs=None)
    assert report["memory"]["gpus"][0]["parts"]["cuda_graphs"] == {"log": None, "measured": None}
    assert report["memory"]["gpus"][0]["unexplained"] == pytest.approx(0.2, abs=0.01)
    assert "CUDA graphs" not in text


def test_who_held_memory_before_the_start_is_named(play: Play, tmp_path: Path) -> None:
    me = os.getpid()
    held = f"{NORMAL}at 0 proc 0 {me} {900 * MIB}\n"
    report, text = watched(play, held, tmp_path, lang="zh")
    name = procfs.stat(me)
    known = name.name if name is not None and procfs.sees_all() else None
    assert report["memory"]["gpus"][0]["holders_at_start"] == [{"pid": me, "name": known, "gib": 0.879}]
    assert report["facts"]["gpu.holders"]["value"] == [f"{known or 'process'} (pid {me}) 900 MiB"]
    assert f"{known or '?'} (pid {me}) 占用 0.9 GiB" in text


def test_driver_that_does_not_tell_memory_leaves_the_parts_open(play: Play, tmp_path: Path) -> None:
    trajectory = f"gpu 0 NVIDIA-L4 GPU-aaaa {24 * GIB}\nused 0 5 NS\nutil 0 3\n"
    report, _ = watched(play, trajectory, tmp_path)
    row = report["memory"]["gpus"][0]
    assert {part["measured"] for part in row["parts"].values()} <= {None, 0.0}
    assert (row["unexplained"], row["free"]) == (None, None)


def test_finding_names_who_holds_the_memory(play: Play, tmp_path: Path) -> None:
    me, result = os.getpid(), tmp_path / "result.json"
    trajectory = f"gpu 0 NVIDIA-L4 GPU-aaaa {24 * GIB}\nat 0 used 0 {9 * GIB}\nat 0 proc 0 {me} {9 * GIB}\n"
    line = (
        "ValueError: Free memory on device cuda:0 (14.27/23.64 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 21.28 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    argv = [*VDOCTOR, "watch", "-q", "--no-session", "--format", "json", "--output", str(result)]
    run([*argv, "--", "sh", "-c", f"sleep 1; echo '{line}' >&2; exit 1"], env=play(trajectory))
    finding = json.loads(result.read_text())["findings"][0]
    assert finding["id"] == "oom.gpu-busy"
    assert f"(pid {me}) 9216 MiB" in finding["why"]
