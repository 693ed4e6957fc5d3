"""Trials on GPUs: memory that a stranger took, ways for ranks to talk, attention kernels. The driver is the stand-in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.test_confirm import Bench
from tests.live.nvml.conftest import Play
from tests.processes import Mark

GIB = 1 << 30
CARDS = "".join(f"gpu {at} NVIDIA-L4 GPU-aaaa-{at} {24 * GIB}\nused {at} {GIB}\n" for at in range(2))
#: A server of two ranks that dies of `error` unless `cure` stands in the words or the environment; then it is the
#: simulated one. `first` runs before that.
SERVER = """#!{python}
import os, sys
from vdoctor.demo import server
words = sys.argv[1:]
{first}
if {cure!r} not in [*words, *(f"{{k}}={{v}}" for k, v in os.environ.items())]:
    for line in {lines!r}:
        print(line, flush=True)
    sys.exit(1)
given = [word for word in words if word not in ("--tensor-parallel-size", "2")]
sys.exit(server.main(given))
"""
BEGIN = [
    "(APIServer pid=1) INFO 12-01 10:00:00 [api_server.py:1977] vLLM API server version 0.11.2",
    "(APIServer pid=1) INFO 12-01 10:00:00 [utils.py:253] non-default args: {'model_tag': 'm', 'tensor_parallel_size': 2}",
    "(EngineCore_DP0 pid=2) INFO 12-01 10:00:01 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='m'",
    "(Worker_TP0 pid=3) INFO 12-01 10:00:02 [parallel_state.py:1208] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:4 backend=nccl",
]
LOADED = [
    "(Worker_TP0 pid=3) INFO 12-01 10:00:03 [gpu_model_runner.py:2843] Starting to load model m...",
    "(Worker_TP0 pid=3) INFO 12-01 10:00:04 [gpu_model_runner.py:2918] Model loading took 5.0000 GiB memory and 1.0 seconds",
]
TRACE = [
    "(EngineCore_DP0 pid=2) ERROR 12-01 10:00:05 [core.py:842] EngineCore failed to start.",
    "(EngineCore_DP0 pid=2) ERROR 12-01 10:00:05 [core.py:842] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=2) ERROR 12-01 10:00:05 [core.py:842]   File "/x/vllm/v1/engine/core.py", line 708, in run_engine_core',
]
NCCL = f"{TRACE[0].partition(']')[0]}] RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
KERNEL = f"{TRACE[0].partition(']')[0]}] RuntimeError: CUDA error: unspecified launch failure"


def bench_of(mark: Mark, folder: Path, played: dict[str, str], cure: str, lines: list[str], first: str = "") -> Bench:
    bench = Bench(mark, folder)
    bench.env |= played | {"PATH": bench.env["PATH"]}
    text = SERVER.format(python=sys.executable, cure=cure, lines=lines, first=first)
    (folder / "bin" / "vllm").write_text(text)
    return bench


@pytest.mark.parametrize(
    ("cure", "lines", "change"),
    [
        ("--disable-custom-all-reduce", [*BEGIN, *TRACE, NCCL], "--disable-custom-all-reduce"),
        ("NCCL_P2P_DISABLE=1", [*BEGIN, *TRACE, NCCL], "NCCL_P2P_DISABLE=1"),
        (
            "VLLM_ATTENTION_BACKEND=TRITON_ATTN",
            [*BEGIN, *LOADED, *TRACE, KERNEL],
            "VLLM_ATTENTION_BACKEND=TRITON_ATTN",
        ),
        (
            "TRITON_ATTN",
            [line.replace("0.11.2", "0.14.0") for line in (*BEGIN, *LOADED, *TRACE, KERNEL)],
            "--attention-backend TRITON_ATTN",
        ),
    ],
)
def test_rung_that_helps_is_found_and_proven(
    mark: Mark, tmp_path: Path, play: Play, cure: str, lines: list[str], change: str
) -> None:
    bench = bench_of(mark, tmp_path, play(CARDS), cure, lines)
    session = bench.record("--tensor-parallel-size", "2")
    status, report, told = bench.confirm(session, "--confirm", "auto")
    assert status == 0, told
    added = [word for word in report["proof"]["after"] if word not in report["proof"]["before"]]
    assert " ".join(added) == change
    assert report["proof"]["price"]


@pytest.mark.slow
def test_memory_that_a_stranger_took_is_told_with_his_name_and_he_is_left_alone(
    mark: Mark, tmp_path: Path, play: Play
) -> None:
    """He comes with the first trial and stays: he is waited for once."""
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        played = play(CARDS)
        more = CARDS.replace(f"used 1 {GIB}", f"used 1 {21 * GIB}") + f"at 0 proc 1 {stranger.pid} {20 * GIB}\n"
        comes = f"open({played['FAKE_NVML']!r}, 'w').write({more!r}) if 'serve' in words and os.path.exists({str(tmp_path / 'now')!r}) else None"
        bench = bench_of(mark, tmp_path, played, "NCCL_P2P_DISABLE=1", [*BEGIN, *TRACE, NCCL], comes)
        session = bench.record("--tensor-parallel-size", "2")
        (tmp_path / "now").touch()
        status, report, told = bench.confirm(session, "--confirm", "auto")
        assert stranger.poll() is None
        first, *rest = report["trials"]
        assert "more than before" not in (first["reason"] or "")
        assert rest
        wanted = f"GPU 1 held 20.0 GiB more than before the trials (now on it: sleep (pid {stranger.pid}), 20.0 GiB; left alone)"
        assert all(wanted in trial["reason"] for trial in rest), told
        assert status == 0
    finally:
        stranger.kill()
        stranger.wait()
