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
