"""All texts of many releases, looked up by regular expression."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vdoctor.intake.patterns import sre_constants as sre
from vdoctor.intake.patterns import sre_parse
from vllm_tables.automaton import Automaton
from vllm_tables.fit import fit_text, frame
from vllm_tables.texts import Text

_WORD = re.compile(r"[A-Za-z]{3,}")
#: Texts that share fewer of the letters of an expression's words are not tried.
_SHARED = 0.55


@dataclass(frozen=True, slots=True)
class Wording:
    """A text with the numbers of the releases that have it."""

    text: Text
    releases: frozenset[int]


class Wordings:
    """The texts of releases, oldest first."""

    def __init__(self, texts: Sequence[Iterable[Text]]) -> None:
        places: dict[tuple[str, str], Text] = {}
        numbers: dict[tuple[str, str], set[int]] = {}
        for number, release in enumerate(texts):
            for text in release:
                key = (text.kind, text.words)
                places[key] = text  # the place in the newest release that has it
                numbers.setdefault(key, set()).add(number)
        self.all = [Wording(text, frozenset(numbers[key])) for key, text in places.items()]
        self._owners: dict[str, set[int]] = {}
        for at, wording in enumerate(self.all):
            for word in _WORD.findall(frame(wording.text.kind) + wording.text.words):
                self._owners.setdefault(word, set()).add(at)
        self._containing = functools.lru_cache(maxsize=None)(self._texts_with)

    @functools.cache  # noqa: B019  # one object lives as long as the program
    def matches(self, regex: str) -> tuple[Wording, ...]:
        """The texts that an expression fits."""
        automaton = Automaton(regex)
        tried = self._candidates(regex)
        return tuple(self.all[at] for at in tried if fit_text(automaton, self.all[at].text).good)

    def releases(self, regex: str) -> list[int]:
        """The numbers of the releases with a text that an expression fits."""
        return sorted(frozenset().union(*(wording.releases for wording in self.matches(regex))))

    def _candidates(self, regex: str) -> list[int]:
        tree = sre_parse.parse(regex)
        shared: dict[int, int] = {}
        for word in set(words_of(tree)):
            for at in self._containing(word):
                shared[at] = shared.get(at, 0) + len(word)
        least = fewest_letters(tree) * _SHARED
        return [at for at, letters in shared.items() if letters >= least]

    def _texts_with(self, word: str) -> frozenset[int]:
        return frozenset(at for whole, owners in self._owners.items() if word in whole for at in owners)


def words_of(tree: Any) -> Iterator[str]:
    """The words, or parts of words, that an expression spells in any of its branches."""
    for run in _runs(tree):
        if isinstance(run, str):
            yield from _WORD.findall(run)
        else:
            for branch in run:
                yield from words_of(branch)


def fewest_letters(tree: Any) -> int:
    """The letters in the words of the shortest branch."""
    total = 0
    for run in _runs(tree):
        if isinstance(run, str):
            total += sum(map(len, _WORD.findall(run)))
        else:
            total += min(map(fewest_letters, run), default=0)
    return total


def _runs(tree: Any) -> Iterator[str | list[Any]]:
    """Literal stretches, and where the expression divides the lists of its ways."""
    run = ""
    for op, argument in tree:
        if op is sre.LITERAL:
            run += chr(argument)
            continue
        yield run
        run = ""
        if op is sre.SUBPATTERN:
            yield [argument[3]]
        elif op is sre.BRANCH:
            yield list(argument[1])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            yield [argument[2]] if argument[0] else [argument[2], ()]
    yield run
