"""Expressions with partly unknown values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from vllm_tables.classes import Classes
from vllm_tables.outside import FORM_NAMES, OPERATORS, external, safely
from vllm_tables.values import (
    UNKNOWN,
    Cls,
    Ext,
    Form,
    Func,
    Instance,
    Member,
    Method,
    Module,
    Parser,
    Scope,
    Super,
    _Unknown,
    is_plain,
    is_type,
)


class Expressions(Classes):
    """One method per kind of node; a kind that is not here has an unknown value."""

    def eval(self, node: ast.AST | None, scope: Scope) -> Any:
        if node is None:
            return None
        visit = getattr(self, f"_{type(node).__name__}", None)
        return visit(node, scope) if visit else UNKNOWN

    def _Constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def _Name(self, node: ast.Name, scope: Scope) -> Any:
        return self.lookup(node.id, scope)

    def _Attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self.attribute(self.eval(node.value, scope), node.attr)

    def attribute(self, value: Any, name: str) -> Any:
        if isinstance(value, Module):
            return self._module_attribute(value, name)
        if isinstance(value, Ext):
            return external(f"{value.name}.{name}")
        if isinstance(value, Cls):
            return self.class_attribute(value, name, value)
        if isinstance(value, Instance):
            return self.class_attribute(value.cls, name, value)
        if isinstance(value, Super):
            return self.class_attribute(value.owner, name, value.receiver, skip=True)
        if isinstance(value, Member) and name in ("name", "value"):
            return getattr(value, name)
        known = isinstance(value, (Parser, str, dict, list, set, tuple))
        return Method(value, name) if known else UNKNOWN

    def _module_attribute(self, module: Module, name: str) -> Any:
        value = self.global_name(module, name)
        if value is UNKNOWN and module.name == "vllm.envs":
            # Its variables are made by a module-level __getattr__ from this dictionary.
            getters = self.global_name(module, "environment_variables")
            if isinstance(getters, dict):
                return self.call(getters.get(name), [], {})
        return value

    def _Subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        value = self.eval(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            bounds = [self.eval(part, scope) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
            return safely(operator.getitem, value, slice(*bounds)) if is_plain(value) else UNKNOWN
        key = self.eval(node.slice, scope)
        if isinstance(value, Ext):
            return type_form(value, key if isinstance(key, tuple) else (key,))
        return safely(operator.getitem, value, key) if isinstance(value, (dict, list, tuple, str)) else UNKNOWN

    def _items(self, nodes: Sequence[ast.expr], scope: Scope) -> list[Any]:
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.iterate(self.eval(node.value, scope))
                out.extend([UNKNOWN] if inner is None else inner)
            else:
                out.append(self.eval(node, scope))
        return out

    def _List(self, node: ast.List, scope: Scope) -> Any:
        return self._items(node.elts, scope)

    def _Tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        return tuple(self._items(node.elts, scope))

    def _Set(self, node: ast.Set, scope: Scope) -> Any:
        return safely(set, self._items(node.elts, scope))

    def _Dict(self, node: ast.Dict, scope: Scope) -> Any:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            item = self.eval(value, scope)
            if key is not None:
                safely(out.__setitem__, self.eval(key, scope), item)
            elif isinstance(item, dict):
                out.update(item)
            else:
                out[UNKNOWN] = UNKNOWN
        return out

    def _JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        parts = [self.eval(part, scope) for part in node.values]
        return "".join(map(str, parts)) if is_plain(parts) else UNKNOWN

    def _FormattedValue(self, node: ast.FormattedValue, scope: Scope) -> Any:
        return self.eval(node.value, scope)

    def _BinOp(self, node: ast.BinOp, scope: Scope) -> Any:
        return self.binary(node.op, self.eval(node.left, scope), self.eval(node.right, scope))

    def binary(self, op: ast.AST, left: Any, right: Any) -> Any:
        if isinstance(op, ast.BitOr) and (is_type(left) or is_type(right)):
            return Form("Union", (left, right))
        if isinstance(left, (list, tuple)) and type(left) is type(right):
            return safely(OPERATORS[type(op)], left, right)
        known = is_plain(left) and is_plain(right) and type(op) in OPERATORS
        return safely(OPERATORS[type(op)], left, right) if known else UNKNOWN

    def truth(self, value: Any) -> bool | None:
        """True, False, or None when only a running vLLM knows."""
        if isinstance(value, Ext) and value.last == "TYPE_CHECKING":
            return False
        if isinstance(value, (Cls, Func, Module, Parser)):
            return True
        return bool(value) if is_plain(value) or isinstance(value, (list, dict, tuple)) else None

    def _BoolOp(self, node: ast.BoolOp, scope: Scope) -> Any:
        decisive = isinstance(node.op, ast.Or)
        unknown, value = False, None
        for part in node.values:
            value = self.eval(part, scope)
            known = self.truth(value)
            if known is decisive:
                # `unknown or True` is true, but `unknown or "x"` is not known to be "x".
                return value if not unknown or isinstance(value, bool) else UNKNOWN
            unknown = unknown or known is None
        return UNKNOWN if unknown else value

    def _UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.eval(node.operand, scope)
        if isinstance(node.op, ast.Not):
            known = self.truth(value)
            return UNKNOWN if known is None else not known
        if isinstance(node.op, ast.USub) and is_plain(value):
            return safely(operator.neg, value)
        return UNKNOWN

    def _Compare(self, node: ast.Compare, scope: Scope) -> Any:
        left = self.eval(node.left, scope)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.eval(comparator, scope)
            result = self._compare(op, left, right)
            if result is not True:
                return result
            left = right
        return True

    def _compare(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        if right == Ext("os.environ") and isinstance(op, (ast.In, ast.NotIn)):
            return isinstance(op, ast.NotIn)
        if left is UNKNOWN or right is UNKNOWN or isinstance(left, Ext) or isinstance(right, Ext):
            return UNKNOWN
        if isinstance(op, (ast.Is, ast.IsNot)):
            return (left is right) is isinstance(op, ast.Is)
        known = is_plain(left) and is_plain(right)
        return safely(OPERATORS[type(op)], left, right) if known else UNKNOWN

    def _IfExp(self, node: ast.IfExp, scope: Scope) -> Any:
        known = self.truth(self.eval(node.test, scope))
        if known is not None:
            return self.eval(node.body if known else node.orelse, scope)
        first, second = self.eval(node.body, scope), self.eval(node.orelse, scope)
        same = is_plain(first) and is_plain(second) and first == second
        return first if same else UNKNOWN

    def _NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Any:
        value = self.eval(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def _Lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        return Func(node, scope)

    def _ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope) -> Any:
        out: list[Any] = []
        inner = Scope(scope.module, outer=scope, cls=scope.cls)
        complete = self._comprehend(node.generators, inner, lambda: out.append(self.eval(node.elt, inner)))
        return out if complete else UNKNOWN

    _GeneratorExp = _ListComp

    def _SetComp(self, node: ast.SetComp, scope: Scope) -> Any:
        items = self._ListComp(node, scope)
        return safely(set, items) if items is not UNKNOWN else UNKNOWN

    def _DictComp(self, node: ast.DictComp, scope: Scope) -> Any:
        out: dict[Any, Any] = {}
        inner = Scope(scope.module, outer=scope, cls=scope.cls)

        def add() -> None:
            safely(out.__setitem__, self.eval(node.key, inner), self.eval(node.value, inner))

        return out if self._comprehend(node.generators, inner, add) else UNKNOWN

    def _comprehend(self, generators: Sequence[ast.comprehension], scope: Scope, emit: Callable[[], None]) -> bool:
        """Run a comprehension; False when an iterable or a condition is unknown."""
        if not generators:
            emit()
            return True
        items = self.iterate(self.eval(generators[0].iter, scope))
        if items is None:
            return False
        for item in items:
            self.assign(generators[0].target, item, scope)
            tests = [self.truth(self.eval(test, scope)) for test in generators[0].ifs]
            if None in tests:
                return False
            if all(tests) and not self._comprehend(generators[1:], scope, emit):
                return False
        return True

    def iterate(self, value: Any) -> list[Any] | None:
        """The items of an iterable in a stable order; None when unknown."""
        if isinstance(value, Cls):
            return list(self.members(value)) if self.is_enum(value) else None
        if isinstance(value, (set, frozenset)):
            return sorted(value, key=repr)
        if isinstance(value, (_Unknown, Ext, Form, Func, Instance, Member, Method, Parser, Module)):
            return None
        items = safely(list, value)
        return None if items is UNKNOWN else items


def type_form(base: Ext, args: tuple[Any, ...]) -> Any:
    """``base[args]`` as a type; wrappers that argparse does not see are taken off."""
    name = FORM_NAMES.get(base.last, base.last)
    if name in ("Annotated", "SkipValidation", "Final", "Required"):
        return args[0]
    if base.last == "Optional":
        args = (*args, None)
    return Form(name, args)
