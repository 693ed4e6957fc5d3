"""The arguments that vLLM prints at its start, as Python literals."""

from __future__ import annotations

import ast
import re
from typing import Any

_HEAD = re.compile(r"^(?:non-default )?args: (?P<body>Namespace\(.*|\{.*)$", re.DOTALL)


def parse_arguments(message: str) -> dict[str, Any] | None:
    """`non-default args: {...}` or `args: Namespace(...)` to a dict; None when it is neither.

    Values that are no literals (`<function loads at 0x..>`, nested configs) are left out; a line
    that was cut keeps what stands before the cut.
    """
    found = _HEAD.match(message)
    if not found:
        return None
    body = found["body"]
    body = body.rstrip()
    if body.startswith("{"):
        return _literal(body) or _pieces(body[1:], "}", ":")
    return _pieces(body[len("Namespace(") :], ")", "=")


def _literal(text: str) -> dict[str, Any] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None


def _pieces(body: str, end: str, separator: str) -> dict[str, Any]:
    """Split at commas outside brackets and quotes and read each value on its own."""
    values: dict[str, Any] = {}
    # Without its end the last value may be half a number.
    pieces = _split(body.removesuffix(end)) if body.endswith(end) else _split(body)[:-1]
    for piece in pieces:
        key, found, text = piece.partition(separator)
        key = key.strip().strip("'\"")
        if not found or not key.isidentifier():
            continue
        try:
            values[key] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return values


def _split(body: str) -> list[str]:
    pieces: list[str] = []
    depth, start, quote, escaped = 0, 0, "", False
    for at, char in enumerate(body):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(body[start:at])
            start = at + 1
    pieces.append(body[start:])
    return pieces
