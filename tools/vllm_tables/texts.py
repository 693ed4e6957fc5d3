"""The texts that a release may print: its string constants, with holes where values go in.

An f-string, a %-template and a ``.format`` template become one text each; so does what ``+`` and
implicit concatenation put together. Docstrings and constants without a space are no messages.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

#: Stands for a value that only a running vLLM knows.
HOLE = "\ue000"
#: Raised whenever the reading below changes: what was kept of an earlier one is then read again.
FORMAT = 2

_FEWEST_LETTERS = 6
_PERCENT = re.compile(r"%(?:\(\w+\))?[-#0+]*(?:\d+|\*)?(?:\.\d+)?[diouxXeEfFgGcrsa]")
_BRACES = re.compile(r"(?<!\{)\{[\w.!:\[\]]*\}(?!\})")
_LOGGERS = ("logger", "log", "logging", "_logger", "init_logger")
_LEVELS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "info_once", "warning_once")


@dataclass(frozen=True, slots=True)
class Text:
    """`kind`: the exception that carries the text, ``log.error`` and the like, or nothing; `place`: path:line."""

    kind: str
    words: str
    place: str


class Reader:
    """Reads trees. A file that a release shares with one read before is not read again."""

    def __init__(self, trees: Path) -> None:
        self._trees = trees
        self._files: dict[tuple[str, int], tuple[Text, ...]] = {}

    def texts(self, release: str) -> list[Text]:
        """All texts of a release, by file. They are kept beside the tree: reading one takes a minute."""
        kept = self._trees / f"{release}.texts.json"
        if (found := _kept(kept)) is not None:
            return found
        root = self._trees / release
        texts = [text for path in sorted(root.rglob("*.py")) for text in self._file(path, root)]
        kept.write_text(json.dumps({"format": FORMAT, "texts": [astuple(text) for text in texts]}), encoding="utf-8")
        return texts

    def _file(self, path: Path, root: Path) -> tuple[Text, ...]:
        name, source = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        key = (name, hash(source))
        if key not in self._files:
            self._files[key] = tuple(texts_of_source(source, name))
        return self._files[key]


def _kept(path: Path) -> list[Text] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [Text(*row) for row in document["texts"]] if document["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def texts_of_source(source: str, name: str) -> Iterator[Text]:
    """The texts of one file; each once for each kind."""
    seen: set[tuple[str, str]] = set()
    for kind, words, line in _Walk().texts(ast.parse(source)):
        if _is_message(words) and (kind, words) not in seen:
            seen.add((kind, words))
            yield Text(kind, words, f"{name}:{line}")


def _is_message(words: str) -> bool:
    return " " in words.strip() and sum(map(str.isalpha, words)) - words.count(HOLE) >= _FEWEST_LETTERS


class _Walk:
    """Goes through a file and remembers what carries the text that it is in."""

    def __init__(self) -> None:
        # Names of the current function that are raised or logged later: `msg = "..."; raise ValueError(msg)`.
        self._carried: dict[str, str] = {}

    def texts(self, node: ast.AST, kind: str = "") -> Iterator[tuple[str, str, int]]:
        """(kind, words, line) of every text at or below a node."""
        if isinstance(node, ast.expr) and (words := render(node)) is not None:
            yield kind, words, node.lineno
            for inner in _values(node):
                yield from self.texts(inner, kind)
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outer, self._carried = self._carried, carried_names(node)
            yield from self._children(node, "")
            self._carried = outer
            return
        kind = carrier(node) or self._assigned(node) or kind
        if isinstance(node, ast.Raise) and len(parts := _arguments(node)) > 1:
            # `RuntimeError("a", "b")` prints a tuple.
            yield kind, ", ".join(f"'{render(part) or HOLE}'" for part in parts), node.lineno
        yield from self._children(node, kind)

    def _children(self, node: ast.AST, kind: str) -> Iterator[tuple[str, str, int]]:
        for child in ast.iter_child_nodes(node):
            # The condition of an assertion is no part of its message.
            apart = isinstance(node, ast.Assert) and child is node.test
            yield from self.texts(child, "" if apart else kind)

    def _assigned(self, node: ast.AST) -> str | None:
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            return next((self._carried[name] for name in names if name in self._carried), None)
        return None


def carried_names(function: ast.AST) -> dict[str, str]:
    """Local names that a function raises or logs, with what carries them; what is raised counts more."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(function):
        if (kind := carrier(node)) is not None:
            named = (inner.id for part in _arguments(node) for inner in ast.walk(part) if isinstance(inner, ast.Name))
            found += [(name, kind) for name in named]
    return dict(sorted(found, key=lambda pair: (pair[1][:1].isupper(), pair[1] == "log.error")))


def _arguments(node: ast.AST) -> list[ast.expr]:
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


def render(node: ast.expr) -> str | None:
    """The text that an expression builds, with holes; None when it is no text."""
    if isinstance(node, ast.Constant):
        return _holes(node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return render(node.left)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = render(node.left), render(node.right)
        return None if left is None and right is None else (left or HOLE) + (right or HOLE)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return render(node.func.value)
    return None


def _holes(text: str) -> str:
    return _BRACES.sub(HOLE, _PERCENT.sub(HOLE, text)).replace("%%", "%")


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of a text that are no text: they may hold others."""
    if isinstance(node, ast.JoinedStr):
        yield from (part for part in node.values if isinstance(part, ast.FormattedValue))
    elif isinstance(node, ast.BinOp):
        for part in (node.left, node.right):
            yield from _values(part) if render(part) is not None else [part]
    elif isinstance(node, ast.Call):
        yield from node.args
