"""A regular expression as an automaton whose steps know whether they stand for a letter of its wording.

Look-arounds and word boundaries are left out, repeats beyond the first few are loops: the automaton
takes at least what the expression takes. The beginning and the end of a text are characters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from vdoctor.intake.patterns import sre_constants as sre
from vdoctor.intake.patterns import sre_parse

Test = Callable[[str], bool]

#: Stands before and after a text; only ``^`` and ``$`` take it.
EDGE = "\ue001"

_COPIES = 4
_EDGES = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING, sre.AT_END, sre.AT_END_STRING)
_CATEGORIES: dict[str, Test] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda char: char.isalnum() or char == "_",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One character: `literal` when the expression names it, else any that passes the test."""

    literal: bool
    test: Test
    target: int


class Automaton:
    """States are numbers, 0 the first; `steps` and `accepting` look through steps that take no character."""

    def __init__(self, regex: str) -> None:
        self._steps: list[list[Step]] = [[]]
        self._free: list[list[int]] = [[]]
        last = self._sequence(sre_parse.parse(regex), 0)
        self.literals = sum(step.literal for steps in self._steps for step in steps)
        closures = [self._closure(state) for state in range(len(self._steps))]
        self.steps = [[step for one in closure for step in self._steps[one]] for closure in closures]
        self.accepting = frozenset(state for state, closure in enumerate(closures) if last in closure)

    def _closure(self, state: int) -> frozenset[int]:
        seen, todo = {state}, [state]
        while todo:
            fresh = [other for other in self._free[todo.pop()] if other not in seen]
            seen.update(fresh)
            todo += fresh
        return frozenset(seen)

    def _state(self) -> int:
        self._steps.append([])
        self._free.append([])
        return len(self._steps) - 1

    def _sequence(self, items: Iterable[Any], start: int) -> int:
        for op, argument in items:
            start = self._item(op, argument, start)
        return start

    def _item(self, op: Any, argument: Any, start: int) -> int:
        if op is sre.LITERAL:
            return self._step(start, True, functools.partial(str.__eq__, chr(argument)))
        if op in (sre.IN, sre.NOT_LITERAL, sre.ANY):
            return self._step(start, False, test_of(op, argument))
        if op is sre.AT:
            return self._step(start, False, _is_edge) if argument in _EDGES else start
        if op is sre.BRANCH:
            return self._branch(argument[1], start)
        if op is sre.SUBPATTERN:
            return self._sequence(argument[3], start)
        if op is getattr(sre, "ATOMIC_GROUP", None):
            return self._sequence(argument, start)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None)):
            return self._repeat(argument[0], argument[1], argument[2], start)
        if op is sre.GROUPREF:
            return self._repeat(0, sre.MAXREPEAT, [(sre.ANY, None)], start)
        return start

    def _step(self, start: int, literal: bool, test: Test) -> int:
        target = self._state()
        self._steps[start].append(Step(literal, test, target))
        return target

    def _branch(self, branches: Iterable[Any], start: int) -> int:
        end = self._state()
        for branch in branches:
            first = self._state()
            self._free[start].append(first)
            self._free[self._sequence(branch, first)].append(end)
        return end

    def _repeat(self, least: int, most: Any, item: Any, start: int) -> int:
        for _ in range(min(least, _COPIES)):
            start = self._sequence(item, start)
        if most == least and least <= _COPIES:
            return start
        first, end = self._state(), self._state()
        self._free[start] += [first, end]
        last = self._sequence(item, first)
        self._free[last].append(end)
        if most != 1:
            self._free[last].append(first)
        return end


def test_of(op: Any, argument: Any) -> Test:
    if op is sre.ANY:
        return lambda char: char not in ("\n", EDGE)
    if op is sre.NOT_LITERAL:
        return lambda char: char not in (chr(argument), EDGE)
    return functools.lru_cache(maxsize=None)(lambda char: char != EDGE and in_set(argument, char))


def _is_edge(char: str) -> bool:
    """A traceback is read line by line, so a text of several lines begins and ends with each."""
    return char in (EDGE, "\n")


def in_set(items: Iterable[tuple[Any, Any]], char: str) -> bool:
    """Whether a character is in ``[...]``."""
    negated = False
    for op, argument in items:
        if op is sre.NEGATE:
            negated = True
        elif (
            (op is sre.LITERAL and char == chr(argument))
            or (op is sre.RANGE and argument[0] <= ord(char) <= argument[1])
            or (op is sre.CATEGORY and _in_category(argument, char))
        ):
            return not negated
    return negated


def _in_category(category: Any, char: str) -> bool:
    name = str(category).removeprefix("CATEGORY_")
    plain = name.removeprefix("NOT_")
    return _CATEGORIES[plain](char) is (plain == name)
