"""Names looked up across the modules of a release."""

from __future__ import annotations

import ast
import builtins
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from vllm_tables.outside import external
from vllm_tables.tree import Tree, import_base
from vllm_tables.values import UNKNOWN, Ext, Flow, Module, Scope


class Names(ABC):
    """The innermost part of the interpreter; what it needs of the outer parts is abstract."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[str] = []

    @abstractmethod
    def eval(self, node: ast.AST | None, scope: Scope) -> Any:
        """The value of an expression."""

    @abstractmethod
    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a call returns."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Bind a value to a target."""

    @abstractmethod
    def statement(self, node: ast.stmt, scope: Scope, perhaps: list[Any] | None = None) -> Flow | None:
        """Run a statement; values that it may return are added to `perhaps`."""

    @abstractmethod
    def block(self, body: Sequence[ast.stmt], scope: Scope, perhaps: list[Any]) -> Flow | None:
        """Run statements until one ends the block."""

    def lookup(self, name: str, scope: Scope | None) -> Any:
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            if scope.outer is None:
                return self.global_name(scope.module, name)
            scope = scope.outer
        return UNKNOWN

    def global_name(self, module: Module, name: str) -> Any:
        if name in module.cache:
            return module.cache[name]
        if name == "__name__":
            return module.name
        if name in module.busy:
            return UNKNOWN
        if name not in module.bindings:
            return self._absent(module, name)
        module.busy.add(name)
        value = self._bind_global(module, name)
        module.busy.discard(name)
        module.cache[name] = value
        return value

    def _absent(self, module: Module, name: str) -> Any:
        for star in module.stars:
            found = self._from(import_base(star, module), name)
            if found is not UNKNOWN and not isinstance(found, Ext):
                return found
        if module.is_package and (child := self.tree.module(f"{module.name}.{name}")):
            return child
        return Ext(f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN

    def _bind_global(self, module: Module, name: str) -> Any:
        scope = Scope(module)
        # In order, in one scope: a later `X += [...]` reads what the earlier statement gave.
        for node in module.bindings[name]:
            self.statement(node, scope)
        return scope.names.get(name, UNKNOWN)

    def import_name(self, dotted: str) -> Any:
        if dotted.partition(".")[0] != "vllm":
            return Ext(dotted)
        return self.tree.module(dotted) or UNKNOWN

    def _from(self, base: str, name: str) -> Any:
        if base.partition(".")[0] != "vllm":
            return external(f"{base}.{name}")
        module = self.tree.module(base)
        return self.global_name(module, name) if module else UNKNOWN
