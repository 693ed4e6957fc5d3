"""Classes of a release: bases, members, attributes."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from vllm_tables.names import Names
from vllm_tables.tree import bound_names, flatten
from vllm_tables.values import MISSING, UNKNOWN, Cls, Ext, Func, Instance, Member


class Classes(Names):
    """What is known of a class without making an object of it."""

    def bases(self, cls: Cls) -> list[Any]:
        return [self.eval(base, cls.scope) for base in cls.node.bases]

    def mro(self, cls: Cls) -> Iterator[Cls]:
        """Depth first; good enough for the shallow hierarchies that are met here."""
        yield cls
        for base in self.bases(cls):
            if isinstance(base, Cls):
                yield from self.mro(base)

    def has_base(self, cls: Cls, names: Iterable[str]) -> bool:
        wanted = set(names)
        for ancestor in self.mro(cls):
            for base in self.bases(ancestor):
                if isinstance(base, Ext) and base.last in wanted:
                    return True
        return False

    def is_enum(self, cls: Cls) -> bool:
        return self.has_base(cls, ("Enum", "IntEnum", "StrEnum", "Flag"))

    def is_dataclass(self, cls: Cls) -> bool:
        """Decorated, itself or an ancestor, by ``dataclass`` or vLLM's ``config``."""
        marks = {"dataclass", "config"}
        return any(
            decorator_name(decorator) in marks
            for ancestor in self.mro(cls)
            for decorator in ancestor.node.decorator_list
        )

    def members(self, cls: Cls) -> list[Member]:
        names = (
            target.id
            for node in cls.node.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and not target.id.startswith("_")
        )
        return [Member(cls, name, self.own_attribute(cls, name)) for name in names]

    def own_attribute(self, cls: Cls, name: str) -> Any:
        """What the class body itself binds to a name; MISSING when nothing."""
        for node in reversed(list(flatten(cls.node.body))):
            if name not in bound_names(node):
                continue
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return Func(node, cls.scope, owner=cls)
            value = getattr(node, "value", None)
            return self.eval(value, cls.scope) if value is not None else MISSING
        return MISSING

    def class_attribute(self, cls: Cls, name: str, receiver: Any, *, skip: bool = False) -> Any:
        if name == "__name__":
            return cls.name
        for ancestor in itertools.islice(self.mro(cls), 1 if skip else 0, None):
            value = self.own_attribute(ancestor, name)
            if value is MISSING:
                continue
            if isinstance(value, Func):
                return self._bind_method(value, receiver)
            return Member(cls, name, value) if self.is_enum(ancestor) else value
        return UNKNOWN

    def _bind_method(self, function: Func, receiver: Any) -> Any:
        marks = {decorator_name(node) for node in getattr(function.node, "decorator_list", ())}
        if "staticmethod" in marks:
            return function
        if "classmethod" in marks:
            bound = receiver.cls if isinstance(receiver, Instance) else receiver
        else:
            bound = receiver if isinstance(receiver, Instance) else None
        method = Func(function.node, function.scope, bound, function.owner)
        return self.call(method, [], {}) if marks & {"property", "cached_property"} else method


def decorator_name(node: ast.expr) -> str:
    """The last part of a decorator's name: ``config`` for ``@vllm.config.config(...)``."""
    target = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(target).rpartition(".")[2]
