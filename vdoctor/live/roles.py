"""What a process of the tree is, by its name and command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Compilers and their parts: nvcc runs cicc and ptxas, g++ runs cc1plus, as and collect2/ld; ninja runs them all.
_COMPILERS = frozenset(
    ("nvcc", "cicc", "ptxas", "fatbinary", "cudafe++", "nvlink", "ninja", "cc1", "cc1plus", "collect2", "as", "lld")
)
# x86_64-linux-gnu-g++-13, c++, clang-18, ld.gold, ptxas-blackwell (what newer Triton ships).
_COMPILER = re.compile(r"(?:[\w.]+-)*(?:g\+\+|gcc|c\+\+|cc|clang(?:\+\+)?|ld(?:\.\w+)?|hipcc)(?:-[\d.]+)?$|ptxas-\w+$")
_TITLE = re.compile(r"(?:VLLM::|ray::)([A-Za-z]\w*(?:[ _]?\w+)*)")
_SERVER = re.compile(r"(?:^|/)vllm$")


def role(name: str, words: Sequence[str]) -> str | None:
    """`VLLM::Worker_TP0` -> `Worker_TP0`; `compiler`, `resource_tracker`, `APIServer`; None when unknown.

    `name` is the system's (15 characters on Linux), `words` the command line, which is one word where vLLM set a title.
    """
    program = words[0].rpartition("/")[2] if words else ""
    for one in (name, program if name and program.startswith(name) else name):
        if one in _COMPILERS or _COMPILER.fullmatch(one):
            return "compiler"
    title = _TITLE.match(words[0]) if words else None
    if title:
        return title[1].replace(" ", "_")
    if any("resource_tracker" in word for word in words[1:6]):
        return "resource_tracker"
    return "APIServer" if _is_server(words) else None


def _is_server(words: Sequence[str]) -> bool:
    """`[python] .../vllm serve ...` or `python -m vllm.entrypoints...`; not the `uv run vllm serve` in front of it."""
    if not words or not ("python" in words[0] or _SERVER.search(words[0])):
        return False
    for at, word in enumerate(words[:4]):
        if _SERVER.search(word) and "serve" in words[at + 1 : at + 3]:
            return True
        if word == "-m" and any(next_.startswith("vllm.entrypoints.") for next_ in words[at + 1 : at + 2]):
            return True
    return False
