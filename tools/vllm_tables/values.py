"""The values that the interpreter handles; any of them may be unknown."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any


class _Unknown:
    """What only a running vLLM could tell."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
MISSING = object()


@dataclass(frozen=True)
class Ext:
    """A name from outside the tree: ``argparse.BooleanOptionalAction``, ``builtins.int``."""

    name: str

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Form:
    """A type expression: ``Literal["a"]``, ``list[int]``, ``int | None``."""

    name: str
    args: tuple[Any, ...]


@dataclass(eq=False)
class Scope:
    """Names of one function call, class body or module; looked up outwards."""

    module: Module
    names: dict[str, Any] = field(default_factory=dict)
    outer: Scope | None = None
    cls: Cls | None = None


@dataclass(eq=False)
class Module:
    """One source file; ``bindings`` are the statements that bind a top-level name, in order."""

    name: str
    is_package: bool
    bindings: dict[str, list[ast.stmt]]
    stars: list[ast.ImportFrom]
    cache: dict[str, Any] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Cls:
    """A class of the tree."""

    node: ast.ClassDef
    scope: Scope

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(eq=False)
class Func:
    """A function, method or lambda of the tree, with the scope that it closes over."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    receiver: Any = None
    owner: Cls | None = None

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")

    @property
    def body(self) -> list[ast.stmt]:
        """A lambda is a function of one return statement."""
        if isinstance(self.node, ast.Lambda):
            return [ast.Return(self.node.body)]
        return self.node.body


@dataclass(eq=False)
class Instance:
    """An object of a class of the tree; only its class is known."""

    cls: Cls


@dataclass(frozen=True)
class Super:
    """``super()``: the owner's bases, bound to the receiver."""

    owner: Cls
    receiver: Any


@dataclass(frozen=True)
class Member:
    """A member of an enumeration."""

    cls: Cls
    name: str
    value: Any


@dataclass(frozen=True)
class Method:
    """A method of a parser or of a plain Python value."""

    receiver: Any
    name: str


@dataclass(eq=False)
class Parser:
    """A parser, a group of one, or the collection of its subparsers."""

    name: Any = UNKNOWN
    added: list[tuple[list[Any], dict[str, Any]]] = field(default_factory=list)
    children: list[Parser] = field(default_factory=list)


@dataclass(frozen=True)
class Flow:
    """How a block ended, other than by falling through."""

    kind: str
    value: Any = None


def is_plain(value: Any) -> bool:
    """Whether a value is Python data through and through."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str, bytes))


def is_type(value: Any) -> bool:
    return isinstance(value, (Ext, Form, Cls))


def same(left: Any, right: Any) -> bool:
    return left is right or (is_plain(left) and is_plain(right) and left == right)
