"""The interpreter: statements, on top of expressions and calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from vllm_tables.calls import Calls
from vllm_tables.outside import safely
from vllm_tables.tree import import_base
from vllm_tables.values import UNKNOWN, Cls, Flow, Func, Scope


class Interpreter(Calls):
    """Runs functions of one release's source with partly unknown values."""

    def block(self, body: Sequence[ast.stmt], scope: Scope, perhaps: list[Any]) -> Flow | None:
        for node in body:
            flow = self.statement(node, scope, perhaps)
            if flow is not None:
                return flow
        return None

    def statement(self, node: ast.stmt, scope: Scope, perhaps: list[Any] | None = None) -> Flow | None:
        visit = getattr(self, f"_do_{type(node).__name__}", None)
        return visit(node, scope, [] if perhaps is None else perhaps) if visit else None

    def _do_Expr(self, node: ast.Expr, scope: Scope, perhaps: list[Any]) -> None:
        self.eval(node.value, scope)

    def _do_Assign(self, node: ast.Assign, scope: Scope, perhaps: list[Any]) -> None:
        value = self.eval(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def _do_AnnAssign(self, node: ast.AnnAssign, scope: Scope, perhaps: list[Any]) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value, scope), scope)

    def _do_AugAssign(self, node: ast.AugAssign, scope: Scope, perhaps: list[Any]) -> None:
        value = self.binary(node.op, self.eval(node.target, scope), self.eval(node.value, scope))
        self.assign(node.target, value, scope)

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, ast.Subscript):
            container, key = self.eval(target.value, scope), self.eval(target.slice, scope)
            if isinstance(container, (dict, list)) and key is not UNKNOWN:
                safely(container.__setitem__, key, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.iterate(value) or []
            fits = len(items) == len(target.elts)
            for index, element in enumerate(target.elts):
                self.assign(element, items[index] if fits else UNKNOWN, scope)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, UNKNOWN, scope)

    def _do_Delete(self, node: ast.Delete, scope: Scope, perhaps: list[Any]) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                container = self.eval(target.value, scope)
                if isinstance(container, (dict, list)):
                    safely(container.__delitem__, self.eval(target.slice, scope))

    def _do_Import(self, node: ast.Import, scope: Scope, perhaps: list[Any]) -> None:
        for alias in node.names:
            dotted = alias.name if alias.asname else alias.name.partition(".")[0]
            scope.names[alias.asname or dotted] = self.import_name(dotted)

    def _do_ImportFrom(self, node: ast.ImportFrom, scope: Scope, perhaps: list[Any]) -> None:
        base = import_base(node, scope.module)
        for alias in node.names:
            scope.names[alias.asname or alias.name] = self._from(base, alias.name)

    def _do_FunctionDef(self, node: ast.FunctionDef, scope: Scope, perhaps: list[Any]) -> None:
        scope.names[node.name] = Func(node, scope)

    def _do_ClassDef(self, node: ast.ClassDef, scope: Scope, perhaps: list[Any]) -> None:
        scope.names[node.name] = Cls(node, scope)

    def _do_Return(self, node: ast.Return, scope: Scope, perhaps: list[Any]) -> Flow:
        return Flow("return", self.eval(node.value, scope))

    def _do_Raise(self, node: ast.Raise, scope: Scope, perhaps: list[Any]) -> Flow:
        return Flow("raise")

    def _do_Break(self, node: ast.Break, scope: Scope, perhaps: list[Any]) -> Flow:
        return Flow("break")

    def _do_Continue(self, node: ast.Continue, scope: Scope, perhaps: list[Any]) -> Flow:
        return Flow("continue")

    def _do_If(self, node: ast.If, scope: Scope, perhaps: list[Any]) -> Flow | None:
        known = self.truth(self.eval(node.test, scope))
        if known is not None:
            return self.block(node.body if known else node.orelse, scope, perhaps)
        flows = [self.block(branch, scope, perhaps) for branch in (node.body, node.orelse)]
        perhaps.extend(flow.value for flow in flows if flow and flow.kind == "return")
        # Only where both ways end the function is the rest certainly not run.
        if all(flow is not None and flow.kind in ("return", "raise") for flow in flows):
            return Flow("return", UNKNOWN)
        return None

    def _do_For(self, node: ast.For, scope: Scope, perhaps: list[Any]) -> Flow | None:
        items = self.iterate(self.eval(node.iter, scope))
        for item in [UNKNOWN] if items is None else items:
            self.assign(node.target, item, scope)
            flow = self.block(node.body, scope, perhaps)
            if flow is None or flow.kind == "continue":
                continue
            if flow.kind == "break":
                return None
            if items is not None:
                return flow
        return self.block(node.orelse, scope, perhaps)

    def _do_With(self, node: ast.With, scope: Scope, perhaps: list[Any]) -> Flow | None:
        return self.block(node.body, scope, perhaps)

    def _do_Try(self, node: ast.Try, scope: Scope, perhaps: list[Any]) -> Flow | None:
        return self.block([*node.body, *node.orelse, *node.finalbody], scope, perhaps)
