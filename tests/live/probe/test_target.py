"""Which Python a command will run under, and what it says of its packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vdoctor.launch.command import parse
from vdoctor.live.probe.target import ask_target, interpreter

TRICK = "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nimport sys\n"


def script(folder: Path, text: str) -> dict[str, str]:
    """An environment whose PATH begins with a folder that holds a `vllm`."""
    path = folder / "vllm"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("text", [f"#!{sys.executable}\n", TRICK.format(python=sys.executable)])
def test_the_shebang_of_vllm_names_the_interpreter(tmp_path: Path, text: str) -> None:
    env = script(tmp_path, text)
    assert interpreter(parse(["vllm", "serve", "m"]), env) == (sys.executable, f"probe:{tmp_path / 'vllm'}")


def test_env_in_the_shebang_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    env = script(tmp_path, "#!/usr/bin/env python3\n")
    assert interpreter(parse(["vllm", "serve", "m"]), env)[0] == str(tmp_path / "python3")


def test_a_python_in_the_command_is_taken() -> None:
    launch = parse([sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "m"])
    assert interpreter(launch, os.environ)[0] == sys.executable


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("docker run --gpus all vllm/vllm-openai:v0.11.0 --model m", "cannot be looked into"),
        ("uv run vllm serve m", "run check inside it"),
        ("no-such-folder/vllm serve m", "command not found"),
        ("./start.sh", "neither vllm nor a python"),
    ],
)
def test_where_it_cannot_be_known_the_reason_is_told(words: str, reason: str) -> None:
    python, why = interpreter(parse(words.split()), os.environ)
    assert python is None
    assert reason in why


def test_a_vllm_that_is_no_script(tmp_path: Path) -> None:
    env = script(tmp_path, "\x7fELF")
    assert interpreter(parse(["vllm", "serve", "m"]), env)[1] == f"{tmp_path / 'vllm'} is no Python script"


def test_the_interpreter_tells_its_packages_without_importing_them(tmp_path: Path) -> None:
    """A package tree as pip leaves it, whose import would fail."""
    info = tmp_path / "vllm-0.99.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm\nVersion: 0.99.1\nRequires-Dist: torch==9.1.0\n"
        'Requires-Dist: numpy<2; python_version < "3"\nRequires-Dist: ray; extra == "ray"\n'
    )
    (tmp_path / "torch-9.0.0+cu130.dist-info").mkdir()
    (tmp_path / "torch-9.0.0+cu130.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 9.0.0+cu130\n"
    )
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "torch" / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    models = tmp_path / "vllm" / "model_executor" / "models"
    models.mkdir(parents=True)
    (models / "registry.py").write_text("_TEXT_MODELS = {'OneForCausalLM': ('one', 'One'), **x}\n_OTHER = {'No': 1}\n")
    answer = ask_target(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert answer is not None
    assert (answer["vllm"], answer["torch_cuda"]) == ("0.99.1", "13.0")
    assert answer["versions"]["torch"] == "9.0.0+cu130"
    assert answer["requires"] == ["torch==9.1.0", 'numpy<2; python_version < "3"']
    assert answer["architectures"] == ["OneForCausalLM"]


def test_an_interpreter_that_does_not_answer(tmp_path: Path) -> None:
    liar = tmp_path / "python"
    liar.write_text("#!/bin/sh\necho no json\n")
    liar.chmod(0o755)
    assert ask_target(str(liar), os.environ) is None
    assert ask_target(str(tmp_path / "none"), os.environ) is None
    assert subprocess.run([liar], stdout=subprocess.PIPE).stdout == b"no json\n"
