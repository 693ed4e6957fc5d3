"""The options of `vllm serve` of one release."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from vllm_tables.interpreter import Interpreter
from vllm_tables.tree import Tree
from vllm_tables.values import UNKNOWN, Cls, Ext, Func, Instance, Member, Parser, is_plain


def literal(value: Any) -> Any:
    """A value as JSON, or None when it is not a literal."""
    if isinstance(value, Member):
        return value.value if isinstance(value.value, (str, int)) else None
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if isinstance(value, (list, tuple)):
        items = [literal(item) for item in value]
        clean = all(item is not None or raw is None for item, raw in zip(items, value, strict=True))
        return items if clean else None
    if isinstance(value, dict):
        return value if is_plain(value) and all(isinstance(key, str) for key in value) else None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    return value if isinstance(value, (bool, int, float, str)) else None


def choice_list(value: Any, vm: Interpreter) -> list[str] | None:
    """argparse's ``choices`` as sorted strings; an empty or partly unknown list says nothing."""
    items = vm.iterate(value) if value is not None else None
    if not items:
        return None
    texts = [item.value if isinstance(item, Member) else item for item in items]
    return sorted(map(str, texts), key=natural) if is_plain(texts) else None


def natural(text: str) -> tuple[int, str]:
    """Numbers by size, before words: "8" comes before "16"."""
    return (int(text), "") if text.isdecimal() else (sys.maxsize, text)


def kind_and_no(kwargs: dict[str, Any], vm: Interpreter) -> tuple[str, bool]:
    """The kind of an option, and whether it has a ``--no-`` form."""
    action = kwargs.get("action")
    if isinstance(action, Cls):
        known = ("_StoreTrueAction", "_StoreFalseAction", "BooleanOptionalAction")
        action = next((Ext(name) for name in known if vm.has_base(action, (name,))), None)
    if isinstance(action, Ext):
        if action.last == "BooleanOptionalAction":
            return "flag", True
        if action.last in ("_StoreTrueAction", "_StoreFalseAction"):
            return "flag", False
    if action in ("store_true", "store_false", "store_const", "help", "version", "count"):
        return "flag", False
    nargs = kwargs.get("nargs")
    if nargs == "?":
        return "optional", False
    return ("value" if nargs in (None, UNKNOWN) else "many"), False


def normal(name: str) -> str:
    """vLLM's parser turns underscores of long options into dashes."""
    return name.replace("_", "-") if name.startswith("--") else name


def describe(args: list[Any], kwargs: dict[str, Any], vm: Interpreter) -> tuple[str, dict[str, Any]] | None:
    """One ``add_argument`` as (long name, description); None for a positional."""
    names = [normal(arg) for arg in args if isinstance(arg, str)]
    if len(names) != len(args) or not names:
        vm.problems.append(f"an argument whose name is unknown: {args}")
        return None
    if not names[0].startswith("-"):
        return None
    if "**" in kwargs:
        vm.problems.append(f"{names[0]}: keywords unknown")
    name = next((text for text in names if text.startswith("--")), names[0])
    kind, negatable = kind_and_no(kwargs, vm)
    default = kwargs.get("default", False if kwargs.get("action") == "store_true" else None)
    return name, {
        "aliases": sorted(text for text in names if text != name),
        "kind": kind,
        "no": negatable,
        "default": literal(default),
        "choices": choice_list(kwargs.get("choices"), vm),
    }


def serve_parsers(vm: Interpreter) -> Iterator[Parser]:
    """The parsers named "serve" that the release's command line sets up."""
    root = Parser()
    module = vm.tree.module("vllm.entrypoints.cli.serve")
    if module is not None:
        command = vm.global_name(module, "ServeSubcommand")
        vm.call(vm.attribute(Instance(command), "subparser_init"), [root], {})
    elif (scripts := vm.tree.module("vllm.scripts")) is not None:
        root = root_of(vm, vm.global_name(scripts, "main"))
    yield from (child for child in root.children if child.name in ("serve", UNKNOWN))


def root_of(vm: Interpreter, main: Func) -> Parser:
    """Run ``main`` of the old command line; the parser that it filled stays among its names."""
    scope = vm.bind_arguments(main, [], {})
    vm.block(main.body, scope, [])
    made = [value for value in scope.names.values() if isinstance(value, Parser)]
    return next((parser for parser in made if parser.children), Parser())


def short_optimisation(tree: Tree) -> bool:
    """Whether vLLM's parser rewrites ``-O2`` to ``--optimization-level 2`` in this release."""
    source = tree.source("vllm.utils.argparse_utils") or ""
    return '"-O"' in source and '"--optimization-level"' in source


def options_of(vm: Interpreter) -> dict[str, dict[str, Any]]:
    """All options of ``vllm serve`` of one release."""
    out: dict[str, dict[str, Any]] = {}
    for parser in serve_parsers(vm):
        for args, kwargs in parser.added:
            found = describe(args, kwargs, vm)
            if found is not None:
                out.setdefault(*found)
    if short_optimisation(vm.tree) and "--optimization-level" in out:
        out["--optimization-level"]["aliases"].append("-O")
    return out
