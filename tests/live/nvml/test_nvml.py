"""Nvml with the real pynvml on a library that plays a trajectory: there is no GPU where tests run."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.nvml.conftest import Play
from tests.processes import DEADLINE, VDOCTOR, Mark, Terminal, hold, read_until, run, start, until

GIB = 1 << 30
MIB = 1 << 20
LOOK = """
import json, sys
from dataclasses import asdict
from vdoctor.live.nvml import Nvml
from vdoctor.model import GpuSample
import os
usual = asdict(GpuSample(-1))
nvml = Nvml(dict(os.environ))
rounds = [
    [{name: value for name, value in asdict(gpu).items() if value != usual[name]} for gpu in nvml.samples()]
    for _ in range(int(sys.argv[1]))
]
heard = nvml.register()
xids = [asdict(xid) for _ in range(2) if (xid := nvml.xid(50))]
nvml.close()
print(json.dumps({"error": nvml.error, "rounds": rounds, "heard": heard, "xids": xids, "closed": nvml.samples()}))
"""
TWO = f"""
gpu 0 NVIDIA-L4 GPU-aaaa {24 * GIB}
used 0 {GIB} {2 * GIB} {3 * GIB}
util 0 0 50 100
gpu 1 NVIDIA-L40S GPU-bbbb {48 * GIB}
used 1 {5 * GIB}
util 1 7
"""


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
        "memory_free": 43 * GIB,
        "utilization": 7,
    }
    assert found["closed"] == []


def test_every_field_comes_in_its_unit(play: Play) -> None:
    trajectory = f"""
gpu 0 NVIDIA-H100 GPU-cccc {80 * GIB} {GIB}
at 0 used 0 {30 * GIB}
at 0 util 0 99
at 0 power 0 350500
at 0 throttle 0 {0x01 | 0x04 | 0x40}
at 0 ecc 0 2
at 0 rx 0 1000
at 0 tx 0 3
at 0 proc 0 {os.getpid()} {7 * GIB}
at 0 proc 0 4194304 -1
"""
    (row,) = looked(play(trajectory))["rounds"][0]
    holders = row.pop("processes")
    assert [(one["pid"], one["memory"]) for one in holders] == [(os.getpid(), 7 * GIB), (4194304, None)]
    assert row == {
        "index": 0,
        "name": "NVIDIA-H100",
        "uuid": "GPU-cccc",
        "memory_total": 80 * GIB,
        "memory_used": 30 * GIB,
        # What the driver keeps for itself is neither used nor free.
        "memory_free": 49 * GIB,
        "utilization": 99,
        "power": 350.5,
        "throttle": ["SwPowerCap", "HwThermalSlowdown"],
        "ecc_errors": 2,
        "pcie_rx": 1000 * 1024,
        "pcie_tx": 3 * 1024,
    }


def test_dear_questions_are_not_asked_each_time(play: Play) -> None:
    trajectory = (
        f"gpu 0 A GPU-a {GIB}\nused 0 1 2 3\nat 0 power 0 1000\ngpu 1 B GPU-b {GIB}\nused 1 4\nat 0 power 1 2000\n"
    )
    rounds = looked(play(trajectory), 3)["rounds"]
    # One card a round.
    assert [[gpu.get("power") for gpu in gpus] for gpus in rounds] == [[1.0, None], [None, 2.0], [None, None]]


def test_what_is_not_supported_is_none(play: Play) -> None:
    found = looked(play(f"gpu 0 - - {GIB}\nused 0 17\n"))
    assert found["rounds"][0][0] == {
        "index": 0,
        "memory_total": GIB,
        "memory_used": 17,
        "memory_free": GIB - 17,
        "processes": [],
    }


def test_gpu_without_memory_of_its_own_shows_the_systems(play: Play) -> None:
    (row,) = looked(play(f"gpu 0 NVIDIA-GB10 GPU-a {GIB}\nused 0 NS\nutil 0 12\n"))["rounds"][0]
    assert row["unified"] is True
    assert row["utilization"] == 12
    # The memory of this machine, whatever it is.
    assert row["memory_total"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024 * 1024
    assert row["memory_used"] == row["memory_total"] - row["memory_free"]


def test_card_whose_memory_is_not_told_once_is_not_taken_for_a_shared_one(play: Play) -> None:
    first, second = looked(play(f"gpu 0 X Y {GIB}\nused 0 9 NS\nutil 0 9\n"), 2)["rounds"]
    assert first[0]["memory_used"] == 9
    assert "memory_used" not in second[0]
    assert "unified" not in second[0]


def test_gpu_that_is_lost_says_so_once_and_leaves_the_other_alone(play: Play) -> None:
    lost = TWO.replace(f"used 1 {5 * GIB}", f"used 1 {5 * GIB} LOST")
    rounds = looked(play(lost), 3)["rounds"]
    assert [[gpu["index"] for gpu in gpus] for gpus in rounds] == [[0, 1], [0, 1], [0]]
    assert rounds[1][1] == {
        "index": 1,
        "name": "NVIDIA-L40S",
        "uuid": "GPU-bbbb",
        "lost": True,
        "fault": "GPU is lost",
    }


def test_gpu_that_falls_silent_is_lost_after_a_while(play: Play) -> None:
    trajectory = f"gpu 0 A GPU-a {GIB}\nused 0 1\ngpu 1 B GPU-b {GIB}\nat 0 error 1 999\n"
    rounds = looked(play(trajectory), 8)["rounds"]
    # The second card never answered: no row; nobody can say that it is gone.
    assert [[gpu["index"] for gpu in gpus] for gpus in rounds] == [[0]] * 8


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (None, [0, 1]),
        ("1", [1]),
        ("1,0", [0, 1]),
        ("GPU-b", [1]),
        ("GPU-bbbb", [1]),
        ("", []),
        ("-1", []),
        ("0,7,1", [0]),
        ("0,0", []),
    ],
)
def test_only_the_gpus_of_the_launch_are_looked_at(play: Play, wanted: str | None, rows: list[int]) -> None:
    env = play(TWO) | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    env |= {"CUDA_VISIBLE_DEVICES": wanted} if wanted is not None else {}
    assert [gpu["index"] for gpu in looked(env)["rounds"][0]] == rows


MIG = f"""
gpu 0 NVIDIA-A100 GPU-aaaa {40 * GIB}
mig 16 0 NVIDIA-A100-MIG-1g.5gb MIG-1111 {5 * GIB} 7 0
mig 17 0 NVIDIA-A100-MIG-2g.10gb MIG-2222 {10 * GIB} 3 0
used 16 {GIB}
used 17 {2 * GIB}
"""


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [(None, [1, 2]), ("MIG-2222", [2]), ("MIG-2", [2]), ("MIG-GPU-aaaa/7/0", [1]), ("0", [1, 2]), ("MIG-3", [])],
)
def test_slices_are_looked_at_in_place_of_their_card(play: Play, wanted: str | None, rows: list[int]) -> None:
    found = looked(play(MIG) | ({"CUDA_VISIBLE_DEVICES": wanted} if wanted is not None else {}))["rounds"][0]
    assert [gpu["memory_used"] // GIB for gpu in found] == rows
    assert {gpu["index"] for gpu in found} <= {0}


def test_xid_is_heard_with_its_gpu_and_code(play: Play) -> None:
    found = looked(play(TWO + "at 0 xid 1 79\n"))
    assert found["heard"] is True
    assert found["xids"] == [{"gpu": 1, "code": 79}]


def test_xid_of_another_gpu_is_not_ours(play: Play) -> None:
    env = play(TWO + "at 0 xid 1 79\n") | {"CUDA_VISIBLE_DEVICES": "GPU-aaaa"}
    assert looked(env)["xids"] == []


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
        path = session / "samples.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
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


def test_panel_shows_gpu_memory(play: Play, tmp_path: Path) -> None:
    argv = [*VDOCTOR, "watch", "--no-session", "--interval", "0.05", "--", "sh", "-c", hold(tmp_path / "go")]
    terminal = Terminal(argv, env=play(TWO))
    terminal.wait_for(b" 5.0/48.0 GiB")
    (tmp_path / "go").touch()
    assert terminal.finish()[0] == 0


def test_watch_names_the_gpu_that_was_lost(play: Play, tmp_path: Path) -> None:
    trajectory = TWO.replace(f"used 0 {GIB} {2 * GIB} {3 * GIB}", f"used 0 {GIB} LOST")
    report, status = watched(play(trajectory), tmp_path, "sleep 0.8; exit 4")
    assert status == 4
    assert [(finding["id"], finding["rule"]) for finding in report["findings"]] == [
        ("env.gpu-fault", "env.gpu-lost-seen")
    ]
    assert "GPU 0" in report["findings"][0]["title"]
    assert "GPU is lost" in report["findings"][0]["why"]


def test_watch_names_the_xid(play: Play, tmp_path: Path) -> None:
    report, _ = watched(play(TWO + "at 0.2 xid 1 43\nat 0.3 xid 1 79\n"), tmp_path, "sleep 1; exit 1")
    (finding,) = report["findings"]
    assert (finding["id"], finding["rule"]) == ("env.gpu-fault", "env.xid-seen")
    assert "Xid 79" in finding["title"]
    assert (report["facts"]["gpu.xid"]["value"], report["facts"]["gpu.xid_gpu"]["value"]) == (79, 1)


def test_xid_of_a_program_is_no_fault_of_the_gpu(play: Play, tmp_path: Path) -> None:
    report, _ = watched(play(TWO + "at 0.2 xid 1 43\n"), tmp_path, "sleep 1; exit 1")
    assert report["facts"]["gpu.xid"]["value"] == 43
    assert "env.gpu-fault" not in [finding["id"] for finding in report["findings"]]


def test_driver_that_blocks_stops_nothing_else(play: Play, tmp_path: Path) -> None:
    session = tmp_path / "session"
    begun = time.monotonic()
    _, status = watched(play(TWO + "at 0.3 block 0 600\nat 0.5 xid 1 79\n"), tmp_path, "sleep 2.5; echo done; exit 7")
    assert status == 7
    assert time.monotonic() - begun < DEADLINE
    samples = [json.loads(line) for line in (session / "samples.jsonl").read_text().splitlines()]
    stuck = max(sample["t"] for sample in samples if sample.get("gpus"))
    assert [sample for sample in samples if sample.get("host") and sample["t"] > stuck + 1.0]
    assert [sample["xids"] for sample in samples if sample.get("xids")] == [[{"gpu": 1, "code": 79}]]


def watched(env: dict[str, str], folder: Path, script: str) -> tuple[dict[str, Any], int]:
    """The report and the status of a shell script under `watch`."""
    result = folder / "result.json"
    options = [
        "--interval",
        "0.05",
        "--session",
        str(folder / "session"),
        "--no-redact",
        "--format",
        "json",
        "--output",
        str(result),
    ]
    done = run([*VDOCTOR, "watch", "-q", *options, "--", "sh", "-c", script], env=env)
    assert b"Traceback (most" not in done.stderr
    report: dict[str, Any] = json.loads(result.read_text())
    again = run([*VDOCTOR, "analyze", "--format", "json", str(folder / "session")], env=env)
    replayed = json.loads(again.stdout)
    # What a recording replays is what was seen.
    assert {**replayed, "source": None} == {**report, "source": None}
    return report, done.returncode


def test_phase_line_without_a_terminal_names_gpu_memory(play: Play, tmp_path: Path) -> None:
    marker = "INFO 12-01 00:00:01 [gpu_model_runner.py:1] Starting to load model org/model..."
    script = f"sleep 0.7; echo '{marker}'; {hold(tmp_path / 'go')}"
    process = start([*VDOCTOR, "watch", "--no-session", "--interval", "0.05", "--", "sh", "-c", script], env=play(TWO))
    assert process.stderr is not None
    line = read_until(process.stderr.fileno(), b"\n")
    (tmp_path / "go").touch()
    process.communicate(timeout=DEADLINE)
    assert re.fullmatch(rb"vdoctor: \d+\.\d s  weight_load  GPU0 \d\.0/24\.0 GiB  GPU1 5\.0/48\.0 GiB\n", line)
