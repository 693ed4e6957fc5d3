"""Completion in a real shell on a real terminal: what a person gets who presses Tab."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, VDOCTOR, Mark, Terminal, run
from vdoctor.cli.completing import SHELLS


@pytest.fixture
def env(mark: Mark, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds this tree's vdoctor; `work` is a folder with one log."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "vdoctor"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m vdoctor "$@"\n')
    script.chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "first-start.log").touch()
    settings = tmp_path / "inputrc"
    settings.write_text("set enable-bracketed-paste off\nset bell-style none\n")
    return mark.env | {
        "PATH": f"{script.parent}:{mark.env['PATH']}",
        "INPUTRC": str(settings),
        "HOME": str(tmp_path),
    }


@contextlib.contextmanager
def interactive(argv: list[str], setup: str, env: dict[str, str], folder: Path) -> Iterator[Terminal]:
    """A shell at its prompt, with the completion script read."""
    terminal = Terminal(argv, env=env)
    terminal.type(f"cd {folder}/work; {setup}; PS1='rea''dy> '\n".encode())
    terminal.wait_for(b"ready> ")
    yield terminal
    terminal.process.kill()
    terminal.process.wait()


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
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
def test_bash_completes(env: dict[str, str], tmp_path: Path, typed: str, shown: str) -> None:
    argv = ["bash", "--norc", "--noprofile", "-i"]
    with interactive(argv, "source <(vdoctor completion bash)", env, tmp_path) as shell:
        shell.type(typed.encode() + b"\t")
        shell.wait_for(shown.encode())


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here")
@pytest.mark.parametrize(
    ("typed", "shown"),
    [("vdoctor ana", "lyze"), ("vdoctor analyze fir", "st-start.log"), ("vdoctor compl", "etion")],
)
def test_zsh_completes(env: dict[str, str], tmp_path: Path, typed: str, shown: str) -> None:
    setup = "autoload -Uz compinit && compinit -u -D && source <(vdoctor completion zsh)"
    with interactive(["zsh", "-f", "-i"], setup, env, tmp_path) as shell:
        shell.type(typed.encode())
        shell.wait_for(typed.encode())
        shell.type(b"\t")
        shell.wait_for(shown.encode())


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("vdoctor ana", "analyze"),
        ("vdoctor analyze --format mark", "markdown"),
        ("vdoctor explain oom.sampler-w", "oom.sampler-warmup"),
    ],
)
def test_fish_completes(env: dict[str, str], typed: str, offered: str) -> None:
    done = run(["fish", "-N", "-c", f"vdoctor completion fish | source; complete -C '{typed}'"], env=env)
    assert [line.split("\t")[0] for line in done.stdout.decode().splitlines()] == [offered], done.stderr


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
