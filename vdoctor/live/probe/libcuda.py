"""Which libcuda.so.1 the loader would take: a compat library in front of the driver's is a well-known trap."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from vdoctor.live.probe.finding import Seen
from vdoctor.live.probe.tools import ask

_NAME = "libcuda.so.1"


def libcuda(env: Mapping[str, str]) -> Seen:
    """Facts `lib.cuda` (path) and `lib.cuda_compat` (it comes from a CUDA compat folder, with another one behind it)."""
    seen = Seen()
    if sys.platform != "linux":
        return seen
    found = [*_on_path(env.get("LD_LIBRARY_PATH", "")), *_cached(env)]
    if not found:
        seen.miss("lib.cuda", "the loader knows no libcuda.so.1")
        return seen
    seen.add("lib.cuda", found[0], "probe:loader")
    others = [path for path in found[1:] if os.path.realpath(path) != os.path.realpath(found[0])]
    if _is_compat(found[0]) and any(not _is_compat(path) for path in others):
        seen.add("lib.cuda_compat", found[0], "probe:loader")
    return seen


def _on_path(search: str) -> list[str]:
    places = [Path(place) for place in search.split(":") if place]
    return [str(place / _NAME) for place in places if (place / _NAME).exists()]


def _cached(env: Mapping[str, str]) -> list[str]:
    """What ldconfig's cache holds, in its order."""
    path = env.get("PATH", "") + ":/sbin:/usr/sbin"
    text = ask(["ldconfig", "-p"], {**env, "PATH": path}) or ""
    lines = (line.strip() for line in text.splitlines())
    return [line.partition(" => ")[2] for line in lines if line.startswith(_NAME) and " => " in line]


def _is_compat(path: str) -> bool:
    return "/compat/" in path or "/compat/" in os.path.realpath(path)
