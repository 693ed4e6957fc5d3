"""Compilers and the CUDA toolkit as the launch would find them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from vdoctor.live.probe.finding import Seen

_SECONDS = 2.0
_NVCC_RELEASE = re.compile(r"release (\d{1,3}\.\d{1,3})")


def ask(argv: Sequence[str], env: Mapping[str, str], seconds: float = _SECONDS) -> str | None:
    """What a command prints; None when it is not there, fails, or takes too long."""
    try:
        done = subprocess.run(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def tools(env: Mapping[str, str]) -> Seen:
    """Facts about the compilers on the PATH of `env`."""
    seen = Seen()
    path = env.get("PATH", os.defpath)
    # Triton: CC, else clang, else gcc (triton/runtime/build.py); Inductor: CXX, else g++ and clang++.
    c = _first((env.get("CC", ""), "gcc", "clang", "cc"), path)
    cxx = _first((env.get("CXX", ""), "g++", "clang++", "c++"), path)
    seen.add("compiler.c", c or "", "probe:PATH")
    seen.add("compiler.cxx", cxx or "", "probe:PATH")
    seen.add("compiler.ninja", shutil.which("ninja", path=path) or "", "probe:PATH")
    _toolkit(seen, env, path)
    return seen


def _first(names: Sequence[str], path: str) -> str | None:
    # CC may hold options behind the name.
    commands = (name.split()[0] for name in names if name.strip())
    return next((found for name in commands if (found := shutil.which(name, path=path))), None)


def _toolkit(seen: Seen, env: Mapping[str, str], path: str) -> None:
    """CUDA_HOME as torch.utils.cpp_extension looks for it: the variable, nvcc on the PATH, /usr/local/cuda."""
    home = env.get("CUDA_HOME") or env.get("CUDA_PATH")
    on_path = shutil.which("nvcc", path=path)
    if home:
        seen.add("cuda.home", home, "environment")
        nvcc = str(Path(home, "bin", "nvcc"))
        if not os.access(nvcc, os.X_OK):
            seen.add("cuda.home_broken", True, "probe:CUDA_HOME")
            return
    elif on_path:
        nvcc = on_path
        seen.add("cuda.home", str(Path(os.path.realpath(on_path)).parent.parent), "probe:PATH")
    elif os.access("/usr/local/cuda/bin/nvcc", os.X_OK):
        nvcc = "/usr/local/cuda/bin/nvcc"
        seen.add("cuda.home", "/usr/local/cuda", "probe:/usr/local/cuda")
    else:
        seen.add("cuda.nvcc_found", False, "probe:PATH")
        return
    seen.add("cuda.nvcc_found", True, "probe:PATH")
    seen.add("cuda.nvcc", nvcc, "probe:PATH")
    said = _NVCC_RELEASE.search(ask([nvcc, "--version"], env) or "")
    seen.add("cuda.toolkit", said[1] if said else None, "probe:nvcc")
