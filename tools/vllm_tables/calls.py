"""Calls: of functions of the tree, of parsers, of what may be called for real."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from vllm_tables.expressions import Expressions
from vllm_tables.keywords import Kwargs
from vllm_tables.outside import OPAQUE, PURE, PURE_METHODS, safely
from vllm_tables.tree import Tree
from vllm_tables.values import MISSING, UNKNOWN, Cls, Ext, Func, Instance, Method, Parser, Scope, Super, is_plain, same

MAX_DEPTH = 24


class Calls(Expressions):
    """Calls, with a guard against recursion that never ends."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._active: list[ast.AST] = []
        self._kwargs = Kwargs(self)

    def _Call(self, node: ast.Call, scope: Scope) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._super(scope)
        function = self.eval(node.func, scope)
        args = self._items(node.args, scope)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value, scope)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs.update(value)
            else:
                kwargs["**"] = UNKNOWN
        return self.call(function, args, kwargs)

    def _super(self, scope: Scope) -> Any:
        inner: Scope | None = scope
        while inner is not None and inner.cls is None:
            inner = inner.outer
        if inner is None or inner.cls is None:
            return UNKNOWN
        return Super(inner.cls, inner.names.get("cls", inner.names.get("self", UNKNOWN)))

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, Method):
            return self._call_method(function, args, kwargs)
        if isinstance(function, Func):
            return self._call_function(function, args, kwargs)
        if isinstance(function, Cls):
            return Parser() if self._is_parser(function) else Instance(function)
        if isinstance(function, Ext):
            return self._call_external(function, args, kwargs)
        return UNKNOWN

    def _is_parser(self, cls: Cls) -> bool:
        return self.has_base(cls, ("ArgumentParser",))

    def _call_external(self, function: Ext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if function.last in ("field", "Field", "PydanticField"):
            return self._field_default(args, kwargs)
        if function.name in PURE and is_plain(args) and is_plain(kwargs):
            return safely(PURE[function.name], *args, **kwargs)
        if function.name in OPAQUE:
            listed = [list(self.members(arg)) if isinstance(arg, Cls) and self.is_enum(arg) else arg for arg in args]
            return safely(OPAQUE[function.name], *listed, **kwargs)
        return Parser() if function.last == "ArgumentParser" else UNKNOWN

    def _field_default(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The default that ``dataclasses.field`` or ``pydantic.Field`` stands for."""
        if "default_factory" in kwargs:
            made = self.call(kwargs["default_factory"], [], {})
            return UNKNOWN if isinstance(made, Instance) else made
        default = kwargs.get("default", args[0] if args else MISSING)
        return MISSING if default is ... else default

    def _call_method(self, method: Method, args: list[Any], kwargs: dict[str, Any]) -> Any:
        receiver = method.receiver
        if isinstance(receiver, Parser):
            return self._call_parser(receiver, method.name, args, kwargs)
        for kind, names in PURE_METHODS.items():
            if isinstance(receiver, kind) and method.name in names.split():
                if isinstance(receiver, str) and not (is_plain(args) and is_plain(kwargs)):
                    return UNKNOWN
                return safely(getattr(receiver, method.name), *args, **kwargs)
        return UNKNOWN

    def _call_parser(self, parser: Parser, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "add_argument":
            parser.added.append((args, kwargs))
        elif name in ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers"):
            return parser
        elif name == "add_parser":
            child = Parser(args[0] if args else kwargs.get("name", UNKNOWN))
            child.added.append((["-h", "--help"], {"action": "help"}))
            parser.children.append(child)
            return child
        return UNKNOWN

    def _call_function(self, function: Func, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if function.name == "get_kwargs" and args and isinstance(args[0], Cls):
            return self._kwargs.of(args[0], function.scope.module)
        if function.name == "get_field" and len(args) == 2 and isinstance(args[0], Cls):
            return self.class_attribute(args[0], args[1], args[0])
        if function.node in self._active or len(self._active) > MAX_DEPTH:
            return UNKNOWN
        self._active.append(function.node)
        try:
            scope = self.bind_arguments(function, args, kwargs)
            return self._result(function.body, scope)
        finally:
            self._active.pop()

    def bind_arguments(self, function: Func, args: list[Any], kwargs: dict[str, Any]) -> Scope:
        scope = Scope(function.scope.module, outer=function.scope, cls=function.owner)
        spec = function.node.args
        positional = [*spec.posonlyargs, *spec.args]
        if function.receiver is not None:
            args = [function.receiver, *args]
        defaults = [*[None] * (len(positional) - len(spec.defaults)), *spec.defaults]
        named = list(zip([*positional, *spec.kwonlyargs], [*defaults, *spec.kw_defaults], strict=True))
        for parameter, default in named:
            value = UNKNOWN if default is None else self.eval(default, function.scope)
            scope.names[parameter.arg] = kwargs.get(parameter.arg, value)
        scope.names.update(zip((parameter.arg for parameter in positional), args, strict=False))
        if spec.vararg:
            scope.names[spec.vararg.arg] = tuple(args[len(positional) :])
        if spec.kwarg:
            taken = {parameter.arg for parameter, _ in named}
            scope.names[spec.kwarg.arg] = {k: v for k, v in kwargs.items() if k not in taken}
        return scope

    def _result(self, body: Sequence[ast.stmt], scope: Scope) -> Any:
        """What a function returns. A certain return wins over those behind unknown conditions."""
        perhaps: list[Any] = []
        flow = self.block(body, scope, perhaps)
        if flow is not None and flow.kind == "return":
            return flow.value
        if flow is None and perhaps:
            first = perhaps[0]
            return first if all(same(first, other) for other in perhaps[1:]) else UNKNOWN
        return UNKNOWN if flow else None
