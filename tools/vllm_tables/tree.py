"""The source tree of one release, parsed when asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from vllm_tables.values import Module


def bound_names(node: ast.AST) -> Iterator[str]:
    """The names that one top-level statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
        yield from (target.id for target in [node.target] if isinstance(target, ast.Name))


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def flatten(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run at import, those below ``if TYPE_CHECKING`` left out."""
    for node in body:
        if isinstance(node, ast.If):
            # The first alternative is yielded last: where both bind a name, it wins.
            yield from flatten(node.orelse)
            if not is_type_checking(node.test):
                yield from flatten(node.body)
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from flatten(handler.body)
            yield from flatten([*node.body, *node.orelse, *node.finalbody])
        else:
            yield node


def import_base(node: ast.ImportFrom, module: Module) -> str:
    """The absolute name of the module that a ``from ... import`` reads."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    drop = node.level - 1 if module.is_package else node.level
    return ".".join([*parts[: len(parts) - drop], *([node.module] if node.module else [])])


class Tree:
    """The modules of one release, parsed when asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def source(self, name: str) -> str | None:
        path = self._path(name)
        return path.read_text(encoding="utf-8") if path else None

    def _path(self, name: str) -> Path | None:
        base = self.root.joinpath(*name.split("."))
        candidates = (base / "__init__.py", base.with_suffix(".py"))
        return next((path for path in candidates if path.is_file()), None)

    def _load(self, name: str) -> Module | None:
        path, source = self._path(name), self.source(name)
        if path is None or source is None:
            return None
        module = Module(name, path.name == "__init__.py", {}, [])
        for node in flatten(ast.parse(source).body):
            for bound in bound_names(node):
                module.bindings.setdefault(bound, []).append(node)
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                module.stars.append(node)
        return module
