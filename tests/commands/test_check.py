"""`vdoctor check`: what would stop a launch, before it starts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA, write_model
from tests.processes import ROOT, VDOCTOR


def check(*words: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    done = run("--format", "json", *words, env=env)
    return done.returncode, json.loads(done.stdout)


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*VDOCTOR, "check", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", **(env or {})},
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def vllm(tmp_path: Path) -> str:
    """An installed vLLM of the CPU, as far as its metadata go, and the command of it."""
    site = tmp_path / "site"
    info = site / "vllm-0.32.0+cpu.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    script = tmp_path / "bin" / "vllm"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    (write_model(tmp_path / "model") / "tokenizer.json").write_text("{}")
    return str(script)


def site(vllm: str) -> dict[str, str]:
    # The size of the cache is set: how much memory is free just now does not matter.
    return {"PYTHONPATH": f"{ROOT}:{Path(vllm).parent.parent / 'site'}", "VLLM_CPU_KVCACHE_SPACE": "1"}


def ids(report: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in report["findings"]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_healthy_launch_gives_no_finding(vllm: str, tmp_path: Path) -> None:
    status, report = check("--", vllm, "serve", str(tmp_path / "model"), "--port", str(free_port()), env=site(vllm))
    assert (status, ids(report), report["verdict"]) == (0, [], "healthy")
    assert report["schema"] == "vdoctor.report/1"
    assert report["source"]["kind"] == "check"
    assert report["engine"]["version"] == "0.32.0+cpu"


def test_each_fault_is_found_with_its_proof_and_fix(vllm: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        number = taken.getsockname()[1]
        words = ("--", vllm, "serve", str(tmp_path / "none"), "--port", str(number), "--enable-metrics")
        status, report = check(*words, env=site(vllm))
    assert status == 1
    assert set(ids(report)) == {"model.not-found", "api.port-in-use", "args.unknown-flag"}
    by_id = {finding["id"]: finding for finding in report["findings"]}
    port = by_id["api.port-in-use"]
    assert port["fixes"][0]["command"] == f"{vllm} serve {tmp_path / 'none'} --port {number + 1} --enable-metrics"
    assert port["evidence"][0] == {"line": 0, "process": f"probe:port {number}", "text": "somebody listens on it"}
    unknown = by_id["args.unknown-flag"]["fixes"][-2]
    assert unknown["command"] == f"{vllm} serve {tmp_path / 'none'} --port {number}"


def test_without_a_command_the_machine_is_looked_at() -> None:
    status, report = check()
    assert status in (0, 1)
    assert "host.total_gib" in report["facts"]
    assert report["engine"]["command"] is None


def test_an_image_cannot_be_looked_into_and_that_is_said() -> None:
    done = run("--", "docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.11.0", "--model", "m", "--port", "1")
    assert "it cannot be looked into from here" in " ".join(done.stdout.split())
    assert done.stderr == ""


def test_a_setting_of_the_command_counts(vllm: str, tmp_path: Path) -> None:
    words = (
        "--",
        "env",
        "VLLM_PORT=tcp://10.0.0.1:80",
        vllm,
        "serve",
        str(tmp_path / "model"),
        "--port",
        str(free_port()),
    )
    _, report = check(*words, env=site(vllm))
    assert ids(report) == ["args.invalid-value"]


def test_text_shows_every_fault_with_its_fix(vllm: str, tmp_path: Path) -> None:
    words = (
        "--lang",
        "zh",
        "--",
        vllm,
        "serve",
        str(tmp_path / "none"),
        "--enable-metrics",
        "--port",
        str(free_port()),
    )
    done = run(*words, env=site(vllm))
    assert done.stdout.startswith("✗ 这样启动会失败")
    assert "没有这个目录" in done.stdout.replace("\n", "").replace(" ", "")
    assert done.stdout.count("修复 1") == 2


def test_nothing_is_imported_from_vllm_or_torch(vllm: str, tmp_path: Path) -> None:
    for name in ("vllm", "torch"):
        place = Path(vllm).parent.parent / "site" / name
        place.mkdir()
        (place / "__init__.py").write_text("raise SystemExit('imported')")
    status, report = check("--", vllm, "serve", str(tmp_path / "model"), "--port", str(free_port()), env=site(vllm))
    assert (status, report["engine"]["version"]) == (0, "0.32.0+cpu")


def test_a_command_that_is_not_there_is_no_clean_bill(tmp_path: Path) -> None:
    done = run("--", str(tmp_path / "vllm"), "serve", "m", "--port", str(free_port()))
    assert done.returncode == 0
    assert "nothing found in what could be looked at" in done.stdout
    assert "command not found" in done.stdout


def test_a_look_that_takes_long_is_named(vllm: str, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "python3"
    slow.write_text(f'#!/bin/sh\nsleep 1.5\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    Path(vllm).write_text(f"#!{slow}\n")
    done = run("--", vllm, "serve", str(tmp_path / "model"), "--port", str(free_port()), env=site(vllm))
    assert done.returncode == 0, done.stdout
    assert done.stderr.startswith("vdoctor: still looking at: ")
    assert "environment" in done.stderr


def test_independent_faults_of_a_command_are_all_told(vllm: str, tmp_path: Path) -> None:
    words = ("--quantization", "awq", "--dtype", "int3", "--max-model-len", "9000", "--port", str(free_port()))
    status, report = check("--", vllm, "serve", str(tmp_path / "model"), *words, env=site(vllm))
    assert (status, set(ids(report))) == (
        1,
        {"quant.not-quantized", "args.invalid-value", "model.max-len-exceeds-config"},
    )


def test_a_cache_that_is_too_small_is_foretold_with_the_length_that_fits(vllm: str, tmp_path: Path) -> None:
    (write_model(tmp_path / "long", LLAMA | {"max_position_embeddings": 4_000_000}) / "tokenizer.json").write_text("{}")
    words = ("--", "env", "VLLM_CPU_KVCACHE_SPACE=1", vllm, "serve", str(tmp_path / "long"), "--port", str(free_port()))
    _, report = check(*words, env=site(vllm))
    (finding,) = report["findings"]
    assert (finding["id"], finding["confidence"]) == ("oom.kv-too-small", "certain")
    # 1 KiB a token: a million tokens in 1 GiB.
    shorter = next(fix for fix in finding["fixes"] if fix["id"] == "shorter")
    assert int(shorter["changes"]["flags"]["--max-model-len"]) in range(1_040_000, (1 << 20) + 1)


def test_the_file_of_config_counts_and_the_command_beats_it(vllm: str, tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(f"model: {tmp_path / 'model'}\nport: {free_port()}\ngpu-memory-utilization: 90\n")
    words = ("--", vllm, "serve", "--config", str(file))
    status, report = check(*words, env=site(vllm))
    assert (status, ids(report)) == (1, ["args.invalid-value"])
    assert report["findings"][0]["evidence"]
    status, report = check(*words, "--gpu-memory-utilization", "0.9", env=site(vllm))
    assert report["facts"]["model.type"]["value"] == "llama"
    assert (status, ids(report)) == (0, [])


def test_a_config_file_that_cannot_be_read_is_told(vllm: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for file, says in ((tmp_path / "no.yaml", "is not there"), (pipe, "not a plain file"), (tmp_path, "plain file")):
        done = run("--", vllm, "serve", str(tmp_path / "model"), "--config", str(file), env=site(vllm))
        assert ("args.invalid-value" in done.stdout) is (says == "is not there")
        assert says in " ".join(done.stdout.split()) and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--model", "meta-llama/Llama-3.1-8B", "-tp", "4"), []),
        (("--model", "meta-llama/Llama-3.1-8B", "-tp", "3"), ["tp.heads-not-divisible"]),
        (("--model", "meta-llama/Llama-3.1-8B", "--max-model-len", "200000"), ["model.max-len-exceeds-config"]),
        (("--model", "/models/x", "-tp", "3"), []),
        (("--model", "m/x", "--use-v2-block-manager"), ["args.unknown-flag"]),
        (("--model", "m/x", "--disable-log-requests"), []),
    ],
)
def test_an_image_names_its_release_and_a_model_that_is_known(words: tuple[str, ...], found: list[str]) -> None:
    image = ("docker", "run", "--gpus", "all", "-p", "0:8000", "vllm/vllm-openai:v0.12.0")
    status, report = check("--", *image, *words, "--port", str(free_port()))
    assert (status, ids(report)) == (1 if found else 0, found)
