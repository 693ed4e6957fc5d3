"""Lines made to keep a regular expression busy: built from its own parts, each as long as is asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

from vdoctor.intake.patterns import sre_constants as c
from vdoctor.intake.patterns import sre_parse

_MOST = 3
_FILLERS = (" ", "0", "a", "A", "'", '"', "(", "[", ".", "/", "-", ":", "=", ",", "x ", "a.", "1:", "A_", "%|")


def attacks(pattern: str, size: int) -> Iterator[str]:
    """Lines of about `size` characters for this pattern."""
    tree = sre_parse.parse(pattern)
    seen: set[str] = set()
    for unit in _units(list(tree)):
        line = unit[0] + unit[1] * max(1, (size - len(unit[0])) // max(1, len(unit[1])))
        for end in ("", "\x00", "!"):
            if line + end not in seen:
                seen.add(line + end)
                yield line + end


def _units(items: list[Any]) -> Iterator[tuple[str, str]]:
    """(beginning, what is repeated): up to each repeat a match, then the repeat for ever; and all of that again and again."""
    whole = _sample(items)
    yield "", whole
    yield whole, whole[:-1] or "x"
    for at, before, pump in _repeats(items):
        yield before, pump
        yield "", before + pump
        yield before + pump * 3, before or pump
        if at:
            yield "", before
    beginning = whole[: max(1, len(whole) // 2)]
    yield "", beginning
    for filler in _FILLERS:
        yield beginning, filler
        yield "", beginning + filler


def _repeats(items: list[Any], before: str = "") -> Iterator[tuple[int, str, str]]:
    """Every repeat in the tree, with a match of what stands in front of it."""
    for at, (op, argument) in enumerate(items):
        if op in (c.MAX_REPEAT, c.MIN_REPEAT) and (argument[1] is c.MAXREPEAT or argument[1] > 20):
            for variant in range(_MOST):
                yield at, before, _sample(list(argument[2]), variant) or "x"
        for inner in _inner(op, argument):
            yield from _repeats(inner, before)
        before += _sample([(op, argument)])


def _inner(op: Any, argument: Any) -> list[list[Any]]:
    if op is c.SUBPATTERN:
        return [list(argument[-1])]
    if op is c.BRANCH:
        return [list(branch) for branch in argument[1]]
    if op in (c.MAX_REPEAT, c.MIN_REPEAT):
        return [list(argument[2])]
    if op in (c.ASSERT, c.ASSERT_NOT):
        return [list(argument[1])]
    return []


def _sample(items: list[Any], variant: int = 0) -> str:
    """A text that the items match, mostly."""
    return "".join(_one(op, argument, variant) for op, argument in items)


def _one(op: Any, argument: Any, variant: int) -> str:
    if op is c.LITERAL:
        return chr(argument)
    if op is c.NOT_LITERAL:
        return "x" if argument != ord("x") else "y"
    if op is c.ANY:
        return ("x", " ", "0")[variant % 3]
    if op is c.IN:
        return _member(argument, variant)
    if op is c.BRANCH:
        branches = argument[1]
        return _sample(list(branches[variant % len(branches)]), variant)
    if op in (c.MAX_REPEAT, c.MIN_REPEAT):
        return _sample(list(argument[2]), variant) * max(argument[0], min(1, int(argument[1])))
    return "".join(_sample(inner, variant) for inner in _inner(op, argument)) if op is c.SUBPATTERN else ""


def _member(items: list[Any], variant: int) -> str:
    kept = [char for char in " 0a-A./'\"_x:,(\t" if re.match(_class(items), char)]
    if kept:
        return kept[variant % len(kept)]
    op, argument = next((i for i in items if i[0] in (c.LITERAL, c.RANGE)), (c.LITERAL, ord("x")))
    return chr(argument if op is c.LITERAL else argument[0])


def _class(items: list[Any]) -> str:
    """The class as text again."""
    names = {
        c.CATEGORY_DIGIT: r"\d",
        c.CATEGORY_NOT_DIGIT: r"\D",
        c.CATEGORY_SPACE: r"\s",
        c.CATEGORY_NOT_SPACE: r"\S",
        c.CATEGORY_WORD: r"\w",
        c.CATEGORY_NOT_WORD: r"\W",
    }
    text = ""
    for op, argument in items:
        if op is c.NEGATE:
            text += "^"
        elif op is c.LITERAL:
            text += re.escape(chr(argument))
        elif op is c.RANGE:
            text += f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        elif op is c.CATEGORY:
            text += names[argument]
    return f"[{text}]"


def noise(seed: int, size: int) -> str:
    """Random text of log-like pieces."""
    dice = random.Random(seed)
    return "".join(dice.choices((*_FILLERS, "Traceback", "ERROR", "vllm", "File ", "pid=1)"), k=size // 3))[:size]
