"""The rules held against the texts of releases: what is printed, mode by mode."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from vdoctor.launch import options as option_tables
from vdoctor.rulebase.loader import load
from vdoctor.rulebase.schema import RuleBase
from vllm_tables import errors, remedies, signals
from vllm_tables.releases import DATA, RELEASES, RULES, TREES, missing
from vllm_tables.texts import Reader
from vllm_tables.wordings import Wordings


@dataclass(frozen=True, slots=True)
class Inputs:
    """`asked`: the releases given with --release."""

    rules: RuleBase
    trees: Path
    releases: list[str]
    asked: list[str]

    def wordings(self, releases: Sequence[str]) -> Wordings:
        reader = Reader(self.trees)
        return Wordings([reader.texts(release) for release in releases])


def print_signals(given: Inputs) -> Iterator[str]:
    """Signal by signal the first and the last release that words it so."""
    found = signals.occurrences(given.rules, given.wordings(given.releases), given.releases)
    yield from signals.table(found)
    for release in given.asked:
        yield f"\nrules whose wording is gone in {release}:"
        lost = signals.gone(found, release)
        yield from (f"{rule:<40} last in {last}" for rule, last in lost.items()) if lost else ["none"]


def print_fixes(given: Inputs) -> Iterator[str]:
    """Rules that have no fix to offer in a release, and fixes that set what a release does not read."""
    found = signals.occurrences(given.rules, given.wordings(given.releases), given.releases)
    variables = json.loads((DATA / "envs.json").read_text(encoding="utf-8"))["variables"]
    report = remedies.report(
        given.rules, found, remedies.Remedies(option_tables.load(), variables), given.asked or given.releases
    )
    yield "rules none of whose fixes can be used, in releases that have their wording:"
    yield from report.helpless or ["none"]
    yield "\nvariables set in releases that do not read them:"
    yield from report.unread or ["none"]


def print_errors(given: Inputs) -> Iterator[str]:
    """Errors of the start-up that no rule knows."""
    releases = given.asked or given.releases[-1:]
    yield from errors.table(errors.unmatched(given.rules, given.wordings(releases)))


MODES: dict[str, Callable[[Inputs], Iterator[str]]] = {
    "signals": print_signals,
    "fixes": print_fixes,
    "errors": print_errors,
}


def run(mode: str, argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"vllm_tables {mode}", description=MODES[mode].__doc__)
    parser.add_argument("versions", nargs="*", help="releases instead of the built-in list")
    parser.add_argument("--release", action="append", default=[], metavar="V", help="the release in question")
    parser.add_argument("--trees", type=Path, default=TREES, help="where the Python trees are kept")
    parser.add_argument("--rules", type=Path, default=RULES, help="the folder of the rules")
    args = parser.parse_args(argv)
    releases = sorted({*(args.versions or RELEASES), *args.release}, key=Version)
    if absent := missing(args.trees, releases):
        parser.exit(2, f"no tree of {', '.join(absent)}: use --fetch first\n")
    base = load((str(path), path.read_text(encoding="utf-8")) for path in sorted(args.rules.glob("*/*.toml")))
    for line in MODES[mode](Inputs(base, args.trees, releases, args.release)):
        print(line)
    return 0
