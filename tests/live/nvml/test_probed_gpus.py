"""GPUs as `check` sees them: the real pynvml on the stand-in of NVIDIA's library."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.budget.checkpoints import LARGE, write_model
from tests.live.nvml.conftest import Play
from tests.processes import VDOCTOR, run

GIB = 1 << 30
MIB = 1 << 20
LOOK = """
import json, os
from vdoctor.live.probe.gpus import gpus
seen = gpus(dict(os.environ))
print(json.dumps([{name: fact.value for name, fact in seen.facts.items()}, seen.unknown]))
"""
TWO = f"gpu 0 NVIDIA-H100 GPU-aaaa {80 * GIB}\nused 0 {GIB}\ngpu 1 NVIDIA-H100 GPU-bbbb {80 * GIB}\nused 1 {30 * GIB}\n"
SLICED = f"gpu 0 NVIDIA-H100 GPU-aaaa {80 * GIB}\nmig 16 0 MIG-1g MIG-cccc {10 * GIB} 7 0\nused 16 {GIB}\n"


def looked(env: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    done = run([sys.executable, "-c", LOOK], env=env)
    assert done.returncode == 0, done.stderr
    facts, unknown = json.loads(done.stdout)
    return facts, unknown


def test_the_fullest_gpu_the_driver_and_what_joins_them(play: Play) -> None:
    facts, unknown = looked(play(TWO) | {"FAKE_NVLINK": "2"})
    assert unknown == {}
    assert facts["driver.version"] == "570.86.10"
    assert facts["driver.cuda"] == 12080
    assert (facts["gpu.present"], facts["gpu.count"], facts["gpu.cc"]) == (2, 2, 90)
    assert (facts["gpu.total_gib"], facts["gpu.free_gib"], facts["gpu.in_use_gib"]) == (80.0, 50.0, 30.0)
    assert (facts["gpu.link"], facts["gpu.persistence"], facts["gpu.mig"]) == ("nvlink", True, False)
    assert "gpu.fabric" not in facts


@pytest.mark.parametrize(
    ("visible", "count", "wrong", "free"),
    [
        ("0", 1, None, 79.0),
        ("0,7", 1, "7", 79.0),
        ("GPU-bbbb", 1, None, 50.0),
        ("7", 0, "7", None),
        ("", 0, None, None),
    ],
)
def test_only_the_gpus_of_the_launch_count(
    play: Play, visible: str, count: int, wrong: str | None, free: float | None
) -> None:
    facts, _ = looked(play(TWO) | {"CUDA_VISIBLE_DEVICES": visible})
    assert (facts["gpu.present"], facts["gpu.count"]) == (2, count)
    assert (facts.get("gpu.visible_wrong"), facts.get("gpu.free_gib")) == (wrong, free)


def test_a_slice_has_its_own_memory(play: Play) -> None:
    facts, _ = looked(play(SLICED))
    assert (facts["gpu.mig"], facts["gpu.count"], facts["gpu.total_gib"], facts["gpu.name"]) == (
        True,
        1,
        10.0,
        "MIG-1g",
    )


def test_who_holds_memory_is_named_and_lives_on(play: Play) -> None:
    facts, _ = looked(play(TWO + f"at 0 proc 0 {os.getpid()} {2 * GIB}\nat 0 proc 1 1 {MIB}\n"))
    (holder,) = facts["gpu.holders"]
    assert f"pid {os.getpid()}, 2.0 GiB" in holder


def test_a_fabric_that_is_not_up_is_a_finding(play: Play, cuda: Path) -> None:
    report = checked(cuda, play(TWO) | {"FAKE_FABRIC": "2"}, "--gpu-memory-utilization", "0.5")
    assert [finding["id"] for finding in report["findings"]] == ["env.gpu-fault"]
    report = checked(cuda, play(TWO) | {"FAKE_FABRIC": "3"}, "--gpu-memory-utilization", "0.5")
    assert report["findings"] == []


@pytest.fixture
def cuda(tmp_path: Path) -> Path:
    """An installed vLLM for CUDA, as far as its metadata go, a model beside it, and a C compiler."""
    site = tmp_path / "site"
    for name, version in (("vllm", "0.32.0"), ("torch", "2.13.0")):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (site / "torch").mkdir()
    (site / "torch" / "version.py").write_text("cuda: Optional[str] = '12.8'\n")
    (write_model(tmp_path / "model") / "tokenizer.json").write_text("{}")
    script = tmp_path / "bin" / "vllm"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    return tmp_path


def checked(cuda: Path, env: dict[str, str], *words: str, model: str = "model") -> dict[str, Any]:
    """The report of `check` on a launch of that vLLM."""
    command = [str(cuda / "bin" / "vllm"), "serve", str(cuda / model), "--port", "0", *words]
    path = f"{os.environ.get('PYTHONPATH', '')}:{cuda / 'site'}"
    done = run([*VDOCTOR, "check", "--format", "json", "--", *command], env=env | {"PYTHONPATH": path})
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def ids(report: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in report["findings"]}


def test_a_healthy_launch_on_gpus_gives_no_finding(play: Play, cuda: Path) -> None:
    assert ids(checked(cuda, play(TWO), "--gpu-memory-utilization", "0.5")) == set()
    assert ids(checked(cuda, play(TWO), "--gpu-memory-utilization", "0.5", "--tensor-parallel-size", "2")) == set()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), {"oom.gpu-busy"}),  # 50 of 80 GiB are free, 0.92 are asked for
        (("--gpu-memory-utilization", "0.5", "--tensor-parallel-size", "4"), {"tp.exceeds-gpus"}),
        (("--gpu-memory-utilization", "0.5", "-tp", "2", "-pp", "2"), {"tp.world-preflight"}),
        (("--gpu-memory-utilization", "0.5", "-tp", "2", "-pp", "2", "--nnodes", "2"), set()),
        (("--gpu-memory-utilization", "0.5", "--max-model-len", "9000"), {"model.max-len-exceeds-config"}),
    ],
)
def test_a_fault_on_gpus_is_found(play: Play, cuda: Path, words: tuple[str, ...], found: set[str]) -> None:
    assert ids(checked(cuda, play(TWO), *words)) == found


FREE = "".join(f"gpu {at} NVIDIA-H100 GPU-{at}{at} {80 * GIB}\nused {at} 0\n" for at in range(4))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--tensor-parallel-size", "1"), {"oom.weights-preflight"}),
        (("--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.8"), {"oom.kv-none-preflight"}),
        (("--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.95"), {"oom.kv-too-small-preflight"}),
        (("--tensor-parallel-size", "4"), set()),
        (("--tensor-parallel-size", "2", "--cpu-offload-gb", "40"), set()),
    ],
)
def test_what_does_not_fit_is_foretold(play: Play, cuda: Path, words: tuple[str, ...], found: set[str]) -> None:
    (write_model(cuda / "large", LARGE, shards=4) / "tokenizer.json").write_text("{}")
    report = checked(cuda, play(FREE), *words, model="large")
    assert ids(report) == found
    if found == {"oom.kv-too-small-preflight"}:
        assert int(report["findings"][0]["fixes"][0]["changes"]["flags"]["--max-model-len"]) < 131072
