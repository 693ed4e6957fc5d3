"""Names from outside the tree, and the pure functions among them that may be called for real."""

from __future__ import annotations

import ast
import copy
import itertools
import operator
import posixpath
from collections.abc import Callable
from typing import Any

from vllm_tables.values import UNKNOWN, Ext, Form


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
