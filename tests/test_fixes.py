"""What the rules propose can be typed: option by option, release by release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources

import pytest
from packaging.version import Version

from tests.cases import rules
from vdoctor.launch import options as option_tables
from vdoctor.launch.options import Option
from vdoctor.model import Fact, Facts
from vdoctor.rulebase.conditions import all_hold
from vdoctor.rulebase.schema import FixSpec, Rule, When

TABLE = option_tables.load()
RELEASES = json.loads(resources.files("vdoctor.data").joinpath("options.json").read_text(encoding="utf-8"))["releases"]
VERSION = "vllm.version"
#: Messages that came with a release: what older ones would have parsed does not matter.
SINCE = {"args.quantization-renamed": "0.32"}
WITH_FLAGS = [rule for rule in rules().rules if any(fix.change.flags for fix in rule.fixes)]


def about_version(whens: tuple[When, ...]) -> tuple[When, ...]:
    return tuple(when for when in whens if when.fact == VERSION)


def named_flags(fix: FixSpec) -> dict[str, object]:
    """The options that a fix sets by name; `{args.unknown}` and removed ones are not proposed."""
    return {flag: value for flag, value in fix.change.flags.items() if value is not None and not flag.startswith("{")}


def offered(rule: Rule) -> Iterator[tuple[FixSpec, str]]:
    """(fix, release) wherever nothing that depends on the version alone forbids the fix."""
    for release in RELEASES:
        if Version(release) < Version(SINCE.get(rule.id, "0")):
            continue
        facts: Facts = {VERSION: Fact(release, "test")}
        for fix in rule.fixes:
            wanted = named_flags(fix)
            if not wanted or all_hold(about_version((*rule.whens, *fix.when)), facts) is False:
                continue
            if all(TABLE.exists(flag, release) is not False for flag in wanted):
                yield fix, release


def parses(option: Option, value: object) -> bool:
    """Whether argparse would take the value that a fix sets; what is filled in later counts as right."""
    if value is True:
        return option.kind in ("flag", "optional")
    if option.kind == "flag":
        return False
    filled_in_later = "{" in str(value) and not str(value).startswith('{"')
    return option.choices is None or filled_in_later or str(value) in option.choices


@pytest.mark.parametrize("rule", WITH_FLAGS, ids=lambda rule: rule.id)
def test_an_offered_fix_can_be_typed(rule: Rule) -> None:
    faults = [
        (fix.id, flag, value, release)
        for fix, release in offered(rule)
        for flag, value in named_flags(fix).items()
        if (option := TABLE.lookup(flag, release)) is None or not parses(option, value)
    ]
    assert faults == []
