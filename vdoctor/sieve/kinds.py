"""Kinds of lines: what is known of all lines of one shape."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vdoctor.sieve.blocks import Block
from vdoctor.sieve.heads import Head, learn
from vdoctor.sieve.needles import Check, Needles

_MAX_HEADS, _MAX_SHAPES = 500, 20_000
#: Every record that may be left out names one.
_LEVELS = (b"INFO", b"DEBUG", b"WARNING")


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Records with one head and the same patterns to try. Without `checks` no line of this kind means anything.

    `serving`: it says that the process serves; `statistics`: vLLM's periodic line.
    """

    head: Head
    checks: tuple[Check, ...]
    serving: bool
    statistics: bool


class Kinds:
    """Knows the shapes seen so far. Each is judged once."""

    def __init__(self, needles: Needles) -> None:
        self._needles = needles
        self._heads: dict[bytes, Head | None] = {}
        self._any_head: re.Pattern[bytes] | None = None
        self._kinds: dict[tuple[Head, tuple[Check, ...]], Kind | None] = {}
        self._shapes: dict[bytes, Kind | None] = {}

    def __contains__(self, shape: bytes) -> bool:
        """The shape was judged already."""
        return shape in self._shapes

    def of(self, shape: bytes, view: Block) -> Kind | None:
        """The kind of a shape, of which `view` holds a line; None when its lines must all be read."""
        if shape in self._shapes:
            return self._shapes[shape]
        if len(self._shapes) >= _MAX_SHAPES:
            self._shapes.clear()
        kind = self._shapes[shape] = self._judge(shape, view)
        return kind

    def _judge(self, shape: bytes, view: Block) -> Kind | None:
        head = self._head(shape, view)
        if head is None:
            return None
        message = shape[len(head.shape) :]
        # Control characters and marks are removed before a line is read: what they hide shows only then.
        if not message.rstrip(b"\r").replace(b"\t", b" ").decode("utf-8", "replace").isprintable():
            return None
        checks = self._needles.checks(message)
        key = (head, checks)
        if key not in self._kinds:
            self._kinds[key] = _kind(head, checks)
        return self._kinds[key]

    def _head(self, shape: bytes, view: Block) -> Head | None:
        if self._any_head is not None and (found := self._any_head.match(shape)):
            return self._heads[found[0]]
        if len(self._heads) >= _MAX_HEADS or not any(level in shape for level in _LEVELS):
            return None
        head = learn(view.example(shape))
        if head is not None and shape.startswith(head.shape):
            self._heads[head.shape] = head
            # The longest one first: one head may begin with another.
            ordered = sorted(self._heads, key=len, reverse=True)
            self._any_head = re.compile(b"|".join(map(re.escape, ordered)))
            return head
        return None


def _kind(head: Head, checks: tuple[Check, ...]) -> Kind | None:
    if any(check.kind == "form" for check in checks):
        return None
    kinds = {check.kind for check in checks}
    rest = tuple(check for check in checks if check.kind not in ("serving", "statistics"))
    return Kind(head, rest, "serving" in kinds, "statistics" in kinds)
