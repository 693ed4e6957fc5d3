"""The script that proves the sampler on a GPU, against the stand-in of NVIDIA's library."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cases import ROOT

SCRIPT = ROOT / "tools" / "prove_gpu.py"
#: What the script asks of torch, on memory that only the stand-in's trajectory has.
TORCH = """
GIB = 1 << 30
uint8 = "uint8"
used = [GIB]
def moved():
    import os, time
    path = os.environ["FAKE_MEMORY"]
    with open(path + ".new", "w") as file:
        file.write(str(used[0]))
    os.replace(path + ".new", path)
class Held:
    def __init__(self, size):
        self.size = size
        used[0] += size
        moved()
    def __del__(self):
        used[0] -= self.size
        try:
            moved()
        except Exception:
            # At the end of the interpreter, when nothing is measured any more.
            pass
def zeros(size, device):
    used[0] += GIB // 2
    moved()
def ones(size, dtype, device):
    return Held(size)
class cuda:
    is_available = staticmethod(lambda: True)
    synchronize = staticmethod(lambda: None)
    empty_cache = staticmethod(lambda: None)
    mem_get_info = staticmethod(lambda: (24 * GIB - used[0], 24 * GIB))
"""


@pytest.fixture(scope="module")
def prove() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prove_gpu", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, env={**os.environ, **env}, timeout=100
    )


def test_the_stand_in_is_measured_as_it_was_played_and_the_session_is_kept(tmp_path: Path) -> None:
    done = run("--stand-in", "--keep", str(tmp_path / "s"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "weights                 2.00      2.00" in done.stdout
    assert "WRONG" not in done.stdout and " NO" not in done.stdout
    assert json.loads((tmp_path / "s" / "session.json").read_text())["exit"]["status"] == 0
    assert '"gpus"' in (tmp_path / "s" / "samples.jsonl").read_text()


def test_a_torch_process_is_compared_with_what_its_driver_says(prove: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    played = prove._stand_in(tmp_path)
    kept = {name: played[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML")}
    done = run("--python", sys.executable, **kept, PYTHONPATH=str(tmp_path), FAKE_MEMORY=str(tmp_path / "memory"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cuda_graphs             0.75      0.75" in done.stdout
    # Nobody but the sampler knows what was in use before.
    assert "context_other              ?      0.50" in done.stdout


def test_without_torch_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    done = run("--python", sys.executable, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no torch here" in done.stderr and "--stand-in" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "status"), [({}, 0), ({"weights": 2.2}, 1), ({"kv_cache": None}, 1), ({"cuda_graphs": 0.8}, 0)]
)
def test_what_differs_fails(prove: ModuleType, wrong: dict[str, float | None], status: int) -> None:
    measured: dict[str, Any] = {name: {"measured": wrong.get(name, size)} for name, size in prove.PLAN.items()}
    report = {
        "verdict": "healthy",
        "phases": [{"phase": phase, "start": 0.0} for phase in prove.PHASES],
        "memory": {"gpus": [{"name": "x", "total": 24.0, "parts": measured}]},
    }
    events = [{"event": "phase", "phase": phase} for phase in prove.PHASES] + [{"event": "ready"}]
    assert prove.compare(report, events, dict(prove.PLAN)) == status
    assert prove.compare(report, events[:-1], dict(prove.PLAN)) == 1
    assert prove.compare({**report, "memory": {}}, events, dict(prove.PLAN)) == 1
