"""Many regular expressions over one line at the price of one pass.

Each pattern contributes a literal that every match of it must contain; an Aho-Corasick automaton
looks for all literals at once and only patterns whose literal is there are tried.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

# The parser of regular expressions moved in 3.11; its tree has no public interface and no stubs.
_NAMES = ("re._constants", "re._parser") if sys.version_info >= (3, 11) else ("sre_constants", "sre_parse")
sre_constants: Any = importlib.import_module(_NAMES[0])
sre_parse: Any = importlib.import_module(_NAMES[1])

#: A literal shorter than this would send too many lines to the regex.
MIN_LITERAL = 4

_GROUPS = (sre_constants.SUBPATTERN, getattr(sre_constants, "ATOMIC_GROUP", None))


#: Literals that were worked out before, by pattern.
_known: dict[str, frozenset[str]] = {}


def remember(known: Mapping[str, Iterable[str]]) -> None:
    """Take over what was worked out in another run: to parse a pattern takes longer than to use it."""
    _known.update((pattern, frozenset(literals)) for pattern, literals in known.items())


def required_literals(pattern: str) -> frozenset[str]:
    """Literals of which at least one is in every match; empty when there is no such set.

    >>> sorted(required_literals("(?:Loading|Reading) weights took"))
    [' weights took']
    >>> sorted(required_literals("alpha|beta"))
    ['alpha', 'beta']
    """
    if (found := _known.get(pattern)) is None:
        tree = sre_parse.parse(pattern)
        found = frozenset() if tree.state.flags & re.IGNORECASE else frozenset(_best(_candidates(tree)))
        _known[pattern] = found
    return found


#: What every match holds: literals, and alternatives of which at least one holds as a whole.
Need = str | tuple[tuple["Need", ...], ...]


def needs(pattern: str) -> tuple[Need, ...]:
    """All literals that a match must hold, alternatives included; empty when nothing is known.

    >>> needs("Got (?:alpha|beta in) .*status")
    ('Got ', (('alpha',), ('beta in',)), ' ', 'status')
    """
    tree = sre_parse.parse(pattern)
    return () if tree.state.flags & re.IGNORECASE else tuple(_needs(tree))


def _needs(tree: Any) -> list[Need]:
    found: list[Need] = []
    run: list[str] = []
    for op, argument in [*tree, (None, None)]:
        if op is sre_constants.LITERAL:
            run.append(chr(argument))
            continue
        if op is sre_constants.AT:
            continue
        if run:
            found.append("".join(run))
            run.clear()
        if op is sre_constants.SUBPATTERN and argument[1] & re.IGNORECASE:
            continue
        if op in _GROUPS:
            found.extend(_needs(argument[-1] if op is sre_constants.SUBPATTERN else argument))
        elif op is sre_constants.BRANCH:
            found.append(tuple(tuple(_needs(branch)) for branch in argument[1]))
        elif op in (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT) and argument[0] >= 1:
            found.extend(_needs(argument[2]))
    return found


def _best(candidates: Iterable[frozenset[str]]) -> frozenset[str]:
    return max(candidates, key=lambda group: (min(map(len, group), default=0), -len(group)), default=frozenset())


def _candidates(tree: Any) -> list[frozenset[str]]:
    """Sets of literals, each of which is required by this sequence."""
    found: list[frozenset[str]] = []
    run: list[str] = []

    def end_run() -> None:
        if run:
            found.append(frozenset({"".join(run)}))
            run.clear()

    for op, argument in tree:
        if op is sre_constants.LITERAL:
            run.append(chr(argument))
            continue
        if op is sre_constants.AT:
            continue
        end_run()
        if op is sre_constants.SUBPATTERN and argument[1] & re.IGNORECASE:
            continue
        if op in _GROUPS:
            found.extend(_candidates(argument[-1] if op is sre_constants.SUBPATTERN else argument))
        elif op is sre_constants.BRANCH:
            branches = [_best(_candidates(branch)) for branch in argument[1]]
            if all(branches):
                found.append(frozenset().union(*branches))
        elif op in (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT) and argument[0] >= 1:
            found.extend(_candidates(argument[2]))
    end_run()
    return found


class PatternSet:
    """A fixed list of patterns; `hits` gives the indexes of those that match a text.

    `literals` may hold the required literals of each pattern when they are known beforehand.
    Patterns are compiled on first use. Raises ValueError for a pattern without a usable literal.
    """

    def __init__(self, patterns: Sequence[str], literals: Sequence[Iterable[str]] | None = None) -> None:
        # Imported here: rules are checked, and wheels built, without it.
        from ahocorasick_rs import AhoCorasick, MatchKind

        self._patterns = patterns
        self._compiled: list[re.Pattern[str] | None] = [None] * len(patterns)
        owners: dict[str, list[int]] = {}
        for index, pattern in enumerate(patterns):
            wanted = list(literals[index]) if literals is not None else sorted(required_literals(pattern))
            if not wanted or min(map(len, wanted)) < MIN_LITERAL:
                raise ValueError(f"pattern {pattern!r} has no literal of {MIN_LITERAL} or more characters")
            for literal in wanted:
                owners.setdefault(literal, []).append(index)
        self._owners = list(owners.values())
        self._automaton = AhoCorasick(list(owners), matchkind=MatchKind.Standard)

    def hits(self, text: str, skip: Callable[[int], bool] | None = None) -> list[tuple[int, re.Match[str]]]:
        """(index, match) of every pattern found in `text`, in the order of the list; those that `skip` names are not tried."""
        spots = self._automaton.find_matches_as_indexes(text, overlapping=True)
        if not spots:
            return []
        indexes = sorted({index for spot in spots for index in self._owners[spot[0]]})
        if skip is not None:
            indexes = [index for index in indexes if not skip(index)]
        found = [(index, self._pattern(index).search(text)) for index in indexes]
        return [(index, match) for index, match in found if match]

    def _pattern(self, index: int) -> re.Pattern[str]:
        pattern = self._compiled[index]
        if pattern is None:
            pattern = self._compiled[index] = re.compile(self._patterns[index])
        return pattern
