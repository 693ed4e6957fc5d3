"""vdoctor demo: the promise of the product in one command."""

from __future__ import annotations

from pathlib import Path

from tests.commands.conftest import Vdoctor
from tests.processes import Mark


def test_demo_diagnoses_and_proves_the_fix(vdoctor: Vdoctor, mark: Mark, tmp_path: Path) -> None:
    done = vdoctor("demo", "--speed", "20", TMPDIR=str(tmp_path))
    out = done.stdout.decode()
    assert done.returncode == 0, out
    for text in (
        "failed in graph_capture.capture",
        "oom.graph-capture",
        "confirmed: the server gets ready with this command",
    ):
        assert text in out
    # The proven command is the last line, on one line, ready to paste.
    assert out.rstrip().splitlines()[-1].strip().startswith("vllm serve demo/llama-8b --port ")
    assert mark.left() == []
    assert list(tmp_path.iterdir()) == []


def test_demo_speaks_chinese(vdoctor: Vdoctor) -> None:
    done = vdoctor("demo", "--speed", "100", "--lang", "zh")
    assert "已证实" in done.stdout.decode()


ROOT = Path(__file__).parents[2]


def test_a_crash_is_played_and_diagnosed(vdoctor: Vdoctor, mark: Mark, tmp_path: Path) -> None:
    done = vdoctor(
        "demo", "--play", ROOT / "fixtures/oom/kv-too-small-vllm-0.11.2", "--speed", "1000", TMPDIR=str(tmp_path)
    )
    out = done.stdout.decode()
    assert done.returncode == 1
    assert "oom.kv-too-small" in out
    assert out.index("is played by stand-ins") < out.index("failed in kv_init")
    assert mark.left() == []
    assert list(tmp_path.iterdir()) == []


def test_a_stall_is_played_with_its_cast(vdoctor: Vdoctor, mark: Mark, tmp_path: Path) -> None:
    """Two ranks spin, the third is stopped: vdoctor sees it on the stand-ins, under their own process ids."""
    place = tmp_path / "case"
    place.mkdir()
    line = "(Worker_TP{n} pid={pid}) INFO 12-01 10:00:01 [gpu_model_runner.py:93] Starting to load model /m/x...\n"
    lines = [line.format(n=n, pid=7000 + n) for n in range(3)]
    head = "(EngineCore_DP0 pid=6999) INFO 12-01 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.11.0) with config: model='/m/x'\n"
    (place / "log.txt").write_text(head + "".join(lines))
    (place / "case.json").write_text('{"kind": "stall"}')
    done = vdoctor(
        "demo", "--play", place, "--cast", "Worker_TP0=spin,Worker_TP1=stopped,Worker_TP2=spin", "--lang", "zh"
    )
    out = done.stdout.decode()
    assert done.returncode == 1
    assert "dist.straggler" in out
    assert "Worker_TP1" in out and "被暂停" in out
    assert "pid=7001" not in out
    assert mark.left() == []


def test_what_cannot_be_played_is_said(vdoctor: Vdoctor, tmp_path: Path) -> None:
    for options in (
        ["--play", tmp_path],
        ["--cast", "a=idle"],
        ["--play", ROOT / "fixtures/oom/kv-too-small-vllm-0.11.2", "--cast", "x"],
    ):
        done = vdoctor("demo", *options)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr
