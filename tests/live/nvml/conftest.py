"""The stand-in for NVIDIA's library, compiled, and the environment in which the real pynvml finds it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Mark

Play = Callable[[str], dict[str, str]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stand-in, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.fail(
            "these tests need a C compiler (cc, gcc or clang) for the stand-in of NVIDIA's library", pytrace=False
        )
    folder = tmp_path_factory.mktemp("nvml")
    source = str(Path(__file__).parent / "fake_nvml.c")
    argv = [compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", str(folder / "libnvidia-ml.so.1"), source]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def play(library: Path, tmp_path: Path, mark: Mark) -> Play:
    """The environment in which pynvml finds the stand-in playing a trajectory."""

    def environment(trajectory: str) -> dict[str, str]:
        (tmp_path / "trajectory").write_text(trajectory)
        return mark.env | {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(tmp_path / "trajectory")}

    return environment
