"""Stable names for private values: the same value has the same name throughout one report."""

from __future__ import annotations

import re
from collections import Counter

#: What is replaced, in the order in which it is listed.
KINDS = ("secret", "user", "email", "host", "ip", "mac", "gpu-uuid", "serial", "model-path", "org", "model", "prompt")

#: What stands for a dropped prompt.
DROPPED = "[dropped]"

_PSEUDONYM = re.compile(
    r"(?:secret|user|email|host|ip|mac|serial|model-path|org|model)-\d{1,9}(?:\.[a-z]{2,12})?|(?:GPU|MIG)-uuid-\d{1,9}"
)

#: Learned values that are looked for everywhere: a hostile log may hold endless many.
_MAX_LEARNED, _MAX_LENGTH = 2000, 400


class Pseudonyms:
    """Gives out `host-1`, `user-1`, ...; counts what was replaced; knows what to look for everywhere."""

    def __init__(self) -> None:
        #: Replacements by kind.
        self.replaced: Counter[str] = Counter()
        #: Values to be replaced wherever they stand as a word of their own, with what stands for them.
        self.learned: dict[str, tuple[str, str]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._next: Counter[str] = Counter()

    def name(self, kind: str, value: str, *, everywhere: bool = False, shape: str = "{}") -> str:
        """The name of a value; one that is such a name already keeps it.

        `everywhere`: the value is private wherever it stands. `shape` holds what stays around the name (`/{}.gguf`).
        """
        if is_pseudonym(value):
            return value
        self.replaced[kind] += 1
        key = (kind, value)
        if key not in self._names:
            self._next[kind] += 1
            number = self._next[kind]
            self._names[key] = f"uuid-{number}" if kind == "gpu-uuid" else f"{kind}-{number}"
        shown = shape.format(self._names[key])
        if everywhere:
            self.know(kind, value, shown)
        return shown

    def know(self, kind: str, value: str, shown: str) -> None:
        """From now on `value` is replaced wherever it stands as a word of its own."""
        if len(value) <= _MAX_LENGTH and value not in self.learned and len(self.learned) < _MAX_LEARNED:
            self.learned[value] = (kind, shown)

    def drop(self) -> str:
        """Count a prompt that is left out; returns what stands for it."""
        self.replaced["prompt"] += 1
        return DROPPED

    def distinct(self) -> dict[str, int]:
        """How many different values of each kind were met; dropped prompts are not told apart."""
        return {kind: self._next[kind] or self.replaced[kind] for kind in KINDS if self.replaced[kind]}


def is_pseudonym(text: str) -> bool:
    """`host-1` and the like: redacted before."""
    return _PSEUDONYM.fullmatch(text) is not None
