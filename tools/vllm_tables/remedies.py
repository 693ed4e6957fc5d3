"""Fixes against releases: which rules have nothing to offer where their message occurs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from vdoctor.launch.options import OptionTable
from vdoctor.model import Fact
from vdoctor.rulebase.conditions import holds
from vdoctor.rulebase.schema import FixSpec, Rule, RuleBase, When
from vllm_tables.signals import Occurrence

_VERSION = "vllm.version"


class Remedies:
    """What a release lets a fix do: the options, and the variables that vLLM itself reads."""

    def __init__(self, options: OptionTable, variables: Mapping[str, Any]) -> None:
        self._options = options
        self._variables = variables

    def helpless(self, rule: Rule, releases: Iterable[str]) -> list[str]:
        """The releases in which none of a rule's fixes can be used; none for a rule without any."""
        applies = [release for release in releases if _hold(rule.whens, release)]
        return [
            release for release in applies if rule.fixes and not any(self._usable(fix, release) for fix in rule.fixes)
        ]

    def unread(self, fix: FixSpec, releases: Iterable[str]) -> list[tuple[str, str]]:
        """(variable, release) where a fix that is offered sets what the release does not read."""
        return [
            (name, release)
            for release in releases
            if _hold(fix.when, release) and self._typed(fix, release)
            for name in fix.change.env
            if not self._read(name, release)
        ]

    def _usable(self, fix: FixSpec, release: str) -> bool:
        read = all(self._read(name, release) for name in fix.change.env)
        return _hold(fix.when, release) and self._typed(fix, release) and read

    def _typed(self, fix: FixSpec, release: str) -> bool:
        flags = (flag for flag, value in fix.change.flags.items() if value is not None and not flag.startswith("{"))
        return all(self._options.exists(flag, release) is not False for flag in flags)

    def _read(self, name: str, release: str) -> bool:
        if not name.startswith("VLLM_"):
            return True
        spans = self._variables.get(name, ())
        return any(Version(span["since"]) <= Version(release) <= Version(span["until"]) for span in spans)


def _hold(whens: Iterable[When], release: str) -> bool:
    """Whether the conditions allow a release; those on anything else are taken to hold."""
    facts = {_VERSION: Fact(release, "table")}
    return all(holds(when, facts) is not False for when in whens if when.fact == _VERSION)


@dataclass(frozen=True, slots=True)
class Report:
    """Lines about rules without a fix, and about variables that are set for nothing."""

    helpless: tuple[str, ...]
    unread: tuple[str, ...]


def report(base: RuleBase, found: Sequence[Occurrence], remedies: Remedies, releases: Sequence[str]) -> Report:
    where = occurring(found, releases)
    helpless, unread = [], []
    for rule in base.rules:
        own = where.get(rule.id, list(releases))
        if lacking := remedies.helpless(rule, own):
            helpless.append(f"{rule.id:<40} {', '.join(ranges(lacking, releases))}")
        unread += list(_unread_lines(rule, own, remedies, releases))
    return Report(tuple(helpless), tuple(unread))


def _unread_lines(rule: Rule, own: Sequence[str], remedies: Remedies, releases: Sequence[str]) -> Iterator[str]:
    for fix in rule.fixes:
        missed: dict[str, list[str]] = {}
        for name, release in remedies.unread(fix, [one for one in own if _hold(rule.whens, one)]):
            missed.setdefault(name, []).append(release)
        for name, lacking in missed.items():
            yield f"{rule.id:<40} {fix.id:<16} {name:<36} {', '.join(ranges(lacking, releases))}"


def occurring(found: Iterable[Occurrence], releases: Sequence[str]) -> dict[str, list[str]]:
    """The releases in which a rule can fire. A signal that is not vLLM's can occur with any."""
    where: dict[str, set[str]] = {}
    for one in found:
        where.setdefault(one.rule, set()).update(one.releases or releases)
    return {rule: [release for release in releases if release in own] for rule, own in where.items()}


def ranges(some: Sequence[str], releases: Sequence[str]) -> list[str]:
    """Neighbouring releases as one word: `0.9.2-0.11.0`."""
    runs: list[list[str]] = []
    for before, release in zip([None, *releases], releases, strict=False):
        if release in some:
            if runs and runs[-1][-1] == before:
                runs[-1].append(release)
            else:
                runs.append([release])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
