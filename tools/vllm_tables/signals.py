"""In which releases the signals of the rules occur."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.version import Version

from vdoctor.rulebase.schema import RuleBase
from vllm_tables.wordings import Wordings

_FOREIGN = "not vLLM's"
_WIDTH = 90


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A signal with the releases whose texts it fits, oldest first."""

    rule: str
    regex: str
    releases: tuple[str, ...]


def occurrences(base: RuleBase, wordings: Wordings, releases: Sequence[str]) -> list[Occurrence]:
    """One entry for each signal that has an expression; `releases` are those of `wordings`."""
    return [
        Occurrence(rule.id, signal.regex, tuple(releases[number] for number in wordings.releases(signal.regex)))
        for rule in base.rules
        for signal in rule.signals
        if signal.regex is not None
    ]


def table(found: Iterable[Occurrence]) -> Iterator[str]:
    """One line a signal: rule, first and last release, expression."""
    for one in found:
        when = f"{one.releases[0]:<9} {one.releases[-1]:<9}" if one.releases else f"{_FOREIGN:<19}"
        yield f"{one.rule:<40} {when}  {shortened(one.regex)}"


def shortened(regex: str) -> str:
    return regex if len(regex) <= _WIDTH else f"{regex[: _WIDTH - 3]}..."


def gone(found: Iterable[Occurrence], release: str) -> dict[str, str]:
    """Rules whose wording older releases have and `release` has not, with the last release that has it.

    A rule with another signal that occurs is alive. Signals that are not vLLM's say nothing.
    """
    last: dict[str, Version] = {}
    alive: set[str] = set()
    for one in found:
        older = [Version(name) for name in one.releases if Version(name) < Version(release)]
        if release in one.releases:
            alive.add(one.rule)
        elif older:
            last[one.rule] = max(older[-1], last.get(one.rule, older[-1]))
    return {rule: str(version) for rule, version in last.items() if rule not in alive}
