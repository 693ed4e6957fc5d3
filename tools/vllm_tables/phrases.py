"""The texts that the code of a file puts together, and what carries each of them.

An f-string, a %-template, a ``.format`` template, a sum and ``sep.join([...])`` give one text each,
with holes where values go in. A name that stands for a text is replaced by it where that is certain.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

#: Stands for a value that only a running vLLM knows.
HOLE = "\ue000"

_PERCENT = re.compile(r"%(?:\(\w+\))?[-#0+]*(?:\d+|\*)?(?:\.\d+)?[diouxXeEfFgGcrsa]")
_BRACES = re.compile(r"(?<!\{)\{[\w.!:\[\]]*\}(?!\})")
_LOGGERS = ("logger", "log", "logging", "_logger", "init_logger")
_LEVELS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "info_once", "warning_once")

#: A name to its text; a list of texts stands under the name of the list, not yet joined.
Known = Mapping[str, "str | list[str]"]


class Walk:
    """Goes through a file and remembers what the names of the current function stand for."""

    def __init__(self) -> None:
        self._known: Known = {}
        # Names that are raised or logged later: `msg = "..."; raise ValueError(msg)`.
        self._carried: dict[str, str] = {}

    def texts(self, node: ast.AST, kind: str = "") -> Iterator[tuple[str, str, int]]:
        """(what carries it, text, line) of every text at or below a node."""
        if isinstance(node, ast.expr) and (words := render(node, self._known)) is not None:
            yield kind, words, node.lineno
            for inner in _values(node):
                yield from self.texts(inner, kind)
        elif isinstance(node, ast.Module):
            constants = [inner for inner in node.body if isinstance(inner, ast.Assign)]
            self._known = known_names(ast.Module([*constants], []))
            yield from self._children(node, "")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outer = self._known, self._carried
            self._known, self._carried = {**self._known, **known_names(node)}, carried_names(node)
            yield from self._children(node, "")
            self._known, self._carried = outer
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):  # a docstring
            yield from self._statement(node, carrier(node) or self._assigned(node) or kind)

    def _statement(self, node: ast.AST, kind: str) -> Iterator[tuple[str, str, int]]:
        if isinstance(node, ast.Raise) and len(parts := arguments(node)) > 1:
            # `RuntimeError("a", "b")` prints a tuple.
            yield kind, ", ".join(f"'{_part(part, self._known)}'" for part in parts), node.lineno
        yield from self._children(node, kind)

    def _children(self, node: ast.AST, kind: str) -> Iterator[tuple[str, str, int]]:
        for child in ast.iter_child_nodes(node):
            # The condition of an assertion is no part of its message.
            apart = isinstance(node, ast.Assert) and child is node.test
            yield from self.texts(child, "" if apart else kind)

    def _assigned(self, node: ast.AST) -> str | None:
        return next((self._carried[name] for name in _targets(node) if name in self._carried), None)


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


# --- what carries a text --------------------------------------------------------------------------


def carried_names(function: ast.AST) -> dict[str, str]:
    """Local names that a function raises or logs, with what carries them; what is raised counts more."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(function):
        if (kind := carrier(node)) is not None:
            named = (inner.id for part in arguments(node) for inner in ast.walk(part) if isinstance(inner, ast.Name))
            found += [(name, kind) for name in named]
    return dict(sorted(found, key=lambda pair: (pair[1][:1].isupper(), pair[1] == "log.error")))


def arguments(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assert):
        return [node.msg] if node.msg is not None else []
    call = node.exc if isinstance(node, ast.Raise) else node
    return call.args if isinstance(call, ast.Call) else []


def carrier(node: ast.AST) -> str | None:
    """What a statement or call makes of its text: an exception's name, ``log.error``, ``warning``."""
    if isinstance(node, ast.Assert):
        return "AssertionError"
    if isinstance(node, ast.Raise) and node.exc is not None:
        target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.unparse(target).rpartition(".")[2]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        if name in _LOGGERS and node.func.attr in _LEVELS:
            return f"log.{node.func.attr}"
        if (name, node.func.attr) == ("warnings", "warn"):
            return "warning"
        if name.endswith("parser") and node.func.attr == "error":
            return "parser.error"
    return None


# --- what an expression puts together -------------------------------------------------------------


def known_names(scope: ast.AST) -> dict[str, str | list[str]]:
    """The names of a function or module that stand for one text, or for one list of texts.

    What is added to either later may be there or not: a hole.
    """
    found: dict[str, str | list[str]] = {}
    twice: set[str] = set()
    for node in sorted(_bindings(scope), key=lambda node: node.lineno):
        if isinstance(node, ast.Assign):
            for name in _targets(node):
                if name in found:
                    twice.add(name)
                elif (value := _value(node.value, found)) is not None:
                    found[name] = value
        elif isinstance(node, ast.AugAssign):
            for name in _targets(node):
                found[name] = _longer(found.get(name, HOLE))
        elif (name := _appended(node)) in found:
            found[name] = _longer(found[name])
    return {name: value for name, value in found.items() if name not in twice}


def _bindings(scope: ast.AST) -> Iterator[ast.Assign | ast.AugAssign | ast.Call]:
    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Call)):
            yield node


def _value(node: ast.expr, known: Known) -> str | list[str] | None:
    if isinstance(node, (ast.List, ast.Tuple)):
        parts = [_part(element, known) for element in node.elts]
        return parts if any(part != HOLE for part in parts) else None
    return render(node, known)


def _longer(value: str | list[str]) -> str | list[str]:
    return value + HOLE if isinstance(value, str) else [*value, HOLE]


def _appended(node: ast.Call) -> str:
    """The list that a call adds to; an empty name for any other call."""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in ("append", "extend", "insert"):
        return function.value.id if isinstance(function.value, ast.Name) else ""
    return ""


def render(node: ast.expr, known: Known) -> str | None:
    """The text that an expression puts together; None when it is no text."""
    if isinstance(node, ast.Constant):
        return _holes(node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(map(str, (_piece(part, known) for part in node.values)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return render(node.left, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if all(render(side, known) is None for side in (node.left, node.right)):
            return None
        return _part(node.left, known) + _part(node.right, known)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _method(node.func, node.args, known)
    return None


def _method(function: ast.Attribute, given: list[ast.expr], known: Known) -> str | None:
    text = render(function.value, known)
    if text is not None and function.attr == "join" and len(given) == 1:
        parts = _value(given[0], known)
        parts = known.get(given[0].id) if isinstance(given[0], ast.Name) else parts
        return text.join(parts) if isinstance(parts, list) else None
    return text if function.attr == "format" else None


def _piece(node: ast.expr, known: Known) -> str:
    """A piece of an f-string; its constants are no templates."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    plain = isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None
    return _part(node.value, known) if plain and isinstance(node, ast.FormattedValue) else HOLE


def _part(node: ast.expr, known: Known) -> str:
    value = known.get(node.id) if isinstance(node, ast.Name) else render(node, known)
    return value if isinstance(value, str) else HOLE


def _holes(text: str) -> str:
    return _BRACES.sub(HOLE, _PERCENT.sub(HOLE, text)).replace("%%", "%")


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of a text that are no text: they may hold others."""
    if isinstance(node, ast.JoinedStr):
        yield from (part for part in node.values if isinstance(part, ast.FormattedValue))
    elif isinstance(node, ast.BinOp):
        for part in (node.left, node.right):
            yield from _values(part) if render(part, {}) is not None else [part]
    elif isinstance(node, ast.Call):
        yield from node.args
