"""The environment that the launch will run in: its interpreter, asked with a few lines of standard library."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vdoctor.live.probe.target_script import SCRIPT
from vdoctor.live.probe.tools import ask
from vdoctor.model import Launch


def interpreter(launch: Launch, env: Mapping[str, str]) -> tuple[str | None, str]:
    """The Python that will run vLLM, and where that was read; None with the reason where it cannot be known."""
    if launch.container:
        return None, f"the server runs in the image {launch.container[-1]}: it cannot be looked into from here"
    path = env.get("PATH", os.defpath)
    words = [*launch.program, *launch.args[:1]]
    for word in words:
        name = Path(word).name
        if name in ("uv", "conda", "mamba", "micromamba", "poetry", "pixi", "ray", "kubectl", "srun"):
            return None, f"{name} chooses the environment: run check inside it"
        if name == "vllm" or name.startswith("python"):
            found = shutil.which(word, path=path)
            if found is None:
                return None, f"{word}: command not found"
            return (found, f"probe:{found}") if name != "vllm" else _shebang(found, path)
    return None, "the command names neither vllm nor a python"


def _shebang(script: str, path: str) -> tuple[str | None, str]:
    """The interpreter in the first line; also `/usr/bin/env python3` and the sh trick that installers use for long paths."""
    try:
        with Path(script).open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        return None, f"{script}: {error.strerror}"
    first, _, rest = head.partition(b"\n")
    words = first.decode("utf-8", "replace").removeprefix("#!").split()
    if not first.startswith(b"#!") or not words:
        return None, f"{script} is no Python script"
    if Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    elif Path(words[0]).name == "sh":
        second = rest.partition(b"\n")[0].decode("utf-8", "replace").split('"')
        words = [second[1]] if second[0].strip().startswith("'''exec'") and len(second) > 1 else []
    if not words or not Path(words[0]).name.startswith("python"):
        return None, f"{script} is started by {' '.join(words) or 'another program'}"
    found = shutil.which(words[0], path=path)
    return (found, f"probe:{script}") if found else (None, f"{script}: its interpreter {words[0]} is not there")


def ask_target(python: str, env: Mapping[str, str], seconds: float = 5.0) -> dict[str, Any] | None:
    """What the interpreter says about its packages; None when it does not answer."""
    text = ask([python, "-c", SCRIPT], env, seconds)
    try:
        data = json.loads(text) if text else None
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def local_model(launch: Launch, name: str | None) -> Path | None:
    """The folder of the model where the launch names one on this machine."""
    if name is None or launch.container:
        return None
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # ~somebody who is not known here
        return None
    # A repository has one slash; s3:// and the like are fetched.
    is_path = name.startswith(("/", "./", "../", "~")) or (name.count("/") > 1 and "://" not in name)
    return path if is_path or path.exists() else None
