"""How well a regular expression fits a text with holes.

What fills a hole is unknown, so it may be anything, also what the expression asks for. Letters of
the expression that only a hole can supply are missed; the fit with the fewest of them is looked for.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from vllm_tables.automaton import Automaton
from vllm_tables.texts import HOLE, Text

#: A text fits when it spells so much of the letters that the expression asks for.
ENOUGH = 0.6
FEWEST_LETTERS = 4

_Scores = dict[int, tuple[int, int]]  # state -> (-missed, matched); greater is better


@dataclass(frozen=True, slots=True, order=True)
class Fit:
    """`share` of the expression's letters that stand in the text."""

    share: float
    matched: int

    @property
    def good(self) -> bool:
        return self.share >= ENOUGH and self.matched >= FEWEST_LETTERS


NONE = Fit(0.0, 0)


def spoken(text: Text) -> str:
    """A text as it is met in a log: the exception stands in front, and anything may stand around."""
    name = "" if not text.kind or text.kind[:1].islower() else f"{text.kind}: "
    return f"{HOLE}{name}{text.words}{HOLE}"


def fit(automaton: Automaton, words: str) -> Fit:
    """The best fit anywhere in `words`."""
    scores: _Scores = {}
    best = NONE
    for char in words:
        scores.setdefault(0, (0, 0))
        scores = _through_hole(automaton, scores) if char == HOLE else _through(automaton, scores, char)
        for state in scores.keys() & automaton.accepting:
            missed, matched = scores[state]
            if matched:
                best = max(best, Fit(matched / (matched - missed), matched))
    return best


def _through(automaton: Automaton, scores: _Scores, char: str) -> _Scores:
    new: _Scores = {}
    for state, (missed, matched) in scores.items():
        for step in automaton.steps[state]:
            if step.test(char):
                score = (missed, matched + step.literal)
                if step.target not in new or score > new[step.target]:
                    new[step.target] = score
    return new


def _through_hole(automaton: Automaton, scores: _Scores) -> _Scores:
    """A hole supplies any number of characters: every state behind is reached, at the price of letters missed."""
    limit = automaton.literals * (1 - ENOUGH)
    done: _Scores = {}
    heap = [(-missed, -matched, state) for state, (missed, matched) in scores.items()]
    heapq.heapify(heap)
    while heap:
        missed, matched, state = heapq.heappop(heap)
        if state in done:
            continue
        done[state] = (-missed, -matched)
        for step in automaton.steps[state]:
            if step.target not in done and missed + step.literal <= limit:
                heapq.heappush(heap, (missed + step.literal, matched, step.target))
    return done
