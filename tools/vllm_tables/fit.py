"""How well a regular expression fits a text with holes.

What fills a hole is unknown, so it may be anything, also what the expression asks for. Letters of
the expression that only a hole can supply are missed; the fit with the fewest of them is looked for.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from vllm_tables.automaton import EDGE, Automaton
from vllm_tables.phrases import HOLE
from vllm_tables.texts import Text

#: A text fits when it spells so much of the letters that the expression asks for ...
ENOUGH = 0.65
#: ... and all of them when they are fewer than this: "error" alone is no fit for "Bus error".
_TELLING = 12
_FEWEST = 4

_Scores = dict[int, tuple[int, int]]  # state -> (-missed, matched); greater is better


@dataclass(frozen=True, slots=True, order=True)
class Fit:
    """`share` of the expression's letters that stand in the text, and how many these are."""

    share: float
    matched: int

    @property
    def good(self) -> bool:
        least = _FEWEST if self.share == 1 else _TELLING
        return self.share >= ENOUGH and self.matched >= least


NONE = Fit(0.0, 0)


def frame(kind: str) -> str:
    """What stands before a text in a log: an exception's name, what argparse says, nothing, or who knows."""
    if kind == "ArgumentTypeError":
        return f"{HOLE}: error: argument {HOLE}: "
    if kind == "parser.error":
        return f"{HOLE}: error: "
    if kind.startswith("log."):
        return ""
    return f"{HOLE}{kind}: " if kind[:1].isupper() else HOLE


def fit_text(automaton: Automaton, text: Text) -> Fit:
    """The best fit of a text as it is met in a log. Its frame proves nothing; after it may come anything."""
    return fit(automaton, f"{text.words}{HOLE}{EDGE}", EDGE + frame(text.kind))


def fit(automaton: Automaton, words: str, before: str = "") -> Fit:
    """The best fit anywhere in `words`; letters that are found `before` them are not counted."""
    scores: _Scores = {}
    best = NONE
    for at, char in enumerate(before + words):
        scores.setdefault(0, (0, 0))
        counts = at >= len(before)
        scores = _through_hole(automaton, scores) if char == HOLE else _through(automaton, scores, char, counts)
        for state in scores.keys() & automaton.accepting:
            missed, matched = scores[state]
            if matched:
                best = max(best, Fit(matched / (matched - missed), matched))
    return best


def _through(automaton: Automaton, scores: _Scores, char: str, counts: bool) -> _Scores:
    new: _Scores = {}
    for state, (missed, matched) in scores.items():
        for step in automaton.steps[state]:
            if step.test(char):
                score = (missed, matched + (step.literal and counts))
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
