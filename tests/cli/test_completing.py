"""Completion in a real shell on a real terminal: what a person gets who presses Tab."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, VDOCTOR, Mark, Terminal, marked, run
from vdoctor.cli.completing import SHELLS

BASH = shutil.which("bash") or ""


@pytest.fixture
def mark() -> Iterator[Mark]:
    with marked() as found:
        yield found


@pytest.fixture
def shell(mark: Mark, tmp_path: Path) -> Iterator[Terminal]:
    """An interactive bash that has read the completion script, in a folder with one log."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "vdoctor"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m vdoctor "$@"\n')
    script.chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "first-start.log").touch()
    settings = tmp_path / "inputrc"
    settings.write_text("set enable-bracketed-paste off\nset bell-style none\n")
    env = mark.env | {"PATH": f"{script.parent}:{mark.env['PATH']}", "PS1": "ready> ", "INPUTRC": str(settings)}
    if not BASH:
        pytest.skip("no bash here")
    terminal = Terminal([BASH, "--norc", "--noprofile", "-i"], env=env)
    terminal.type(f"cd {tmp_path}/work; source <(vdoctor completion bash); echo loa''ded\n".encode())
    terminal.wait_for(b"loaded\r\nready> ")
    yield terminal
    terminal.process.kill()
    terminal.process.wait()


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("vdoctor ana", "vdoctor analyze "),
        ("vdoctor analyze fir", "vdoctor analyze first-start.log "),
        ("vdoctor analyze --jso", "vdoctor analyze --jsonl "),
        ("vdoctor analyze --format mark", "vdoctor analyze --format markdown "),
        ("vdoctor analyze --gpu-log fir", "vdoctor analyze --gpu-log first-start.log "),
        ("vdoctor explain oom.sampler-w", "vdoctor explain oom.sampler-warmup "),
        ("vdoctor estimate Qwen/Qwen3-8", "vdoctor estimate Qwen/Qwen3-8B "),
        ("vdoctor watch -- cat fir", "vdoctor watch -- cat first-start.log "),
        ("vdoctor completion ba", "vdoctor completion bash "),
    ],
)
def test_bash_completes(shell: Terminal, typed: str, shown: str) -> None:
    shell.type(typed.encode() + b"\t")
    shell.wait_for(shown.encode())


@pytest.mark.parametrize("name", SHELLS)
def test_script_is_one_that_the_shell_reads(mark: Mark, name: str) -> None:
    done = run([*VDOCTOR, "completion", name], env=mark.env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"_VDOCTOR_COMPLETE=" in done.stdout
    found = shutil.which(name)
    if found is not None:
        subprocess.run([found, "-n"], input=done.stdout, check=True, cwd=ROOT)


def test_unknown_shell_is_wrong_usage(mark: Mark) -> None:
    done = run([*VDOCTOR, "completion", "tcsh"], env=mark.env)
    assert done.returncode == 2
    assert b"bash" in done.stderr
