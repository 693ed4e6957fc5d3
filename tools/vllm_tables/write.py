"""Tables over all releases, and the text of the data files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from vllm_tables.environment import envs_of
from vllm_tables.interpreter import Interpreter
from vllm_tables.options import options_of
from vllm_tables.quantization import quantization_of
from vllm_tables.tree import Tree

Table = dict[str, dict[str, dict[str, Any]]]  # release -> name -> description


def spans(table: Table, name: str) -> list[dict[str, Any]]:
    """Runs of neighbouring releases in which the description of a name stays the same."""
    out: list[dict[str, Any]] = []
    before: dict[str, Any] | None = None
    for release, names in table.items():
        now = names.get(name)
        if now is not None and now == before:
            out[-1]["until"] = release
        elif now is not None:
            out.append({"since": release, "until": release, **now})
        before = now
    return out


def all_names(table: Table) -> list[str]:
    return sorted({name for names in table.values() for name in names})


def hoist(found: list[dict[str, Any]], keys: Iterable[str]) -> dict[str, Any]:
    """Move what is equal in all spans up to the entry, to keep the file small."""
    entry: dict[str, Any] = {}
    for key in keys:
        if all(span[key] == found[0][key] for span in found):
            entry[key] = found[0][key]
            for span in found:
                del span[key]
    return {**entry, "spans": found}


def document(releases: Sequence[str], label: str, entries: dict[str, Any]) -> str:
    """JSON with one entry per line, so that a diff shows what a release changed."""
    lines = ",\n".join(f"{dump(name)}: {dump(entries[name])}" for name in sorted(entries))
    head = f'{{"schema": 1, "releases": {dump(list(releases))},\n"{label}": {{\n'
    return f"{head}{lines}\n}}}}\n"


def dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def build(trees: Path, releases: Sequence[str]) -> dict[str, str]:
    """The text of the three data files, by file name."""
    options: Table = {}
    quantization: Table = {}
    variables: Table = {}
    for version in sorted(releases, key=Version):
        vm = Interpreter(Tree(trees / version))
        options[version] = options_of(vm)
        quantization[version] = quantization_of(vm)
        variables[version] = envs_of(vm)
        for problem in vm.problems:
            print(f"{version}: {problem}", file=sys.stderr)
    order = list(options)
    keys = ("aliases", "kind", "no")
    entries = {name: hoist(spans(options, name), keys) for name in all_names(options)}
    methods = {name: spans(quantization, name) for name in all_names(quantization)}
    names = {name: spans(variables, name) for name in all_names(variables)}
    return {
        "options.json": document(order, "options", entries),
        "quantization.json": document(order, "methods", methods),
        "envs.json": document(order, "variables", names),
    }
