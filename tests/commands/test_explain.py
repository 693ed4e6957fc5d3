"""vdoctor explain: the page of a rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Cli
from vdoctor.rulebase.causes import CAUSES
from vdoctor.store import load_rules


def test_page_shows_both_languages_fixes_and_references(cli: Cli, rules: Path) -> None:
    answer = cli("explain", "model.frobnicator", "--rules", rules)
    assert (answer.status, answer.err) == (0, "")
    for text in (
        "model.frobnicator  (model.bad-config · fatal · test)",
        "It lost one.",
        "丢了一个。",
        "Shift down.",
        "降一档。",
        "--max-model-len",
        "https://example.org/frobnicator",
    ):
        assert text in answer.out


def test_one_language(cli: Cli, rules: Path) -> None:
    english = cli("explain", "model.frobnicator", "--rules", rules, "--lang", "en").out
    chinese = cli("explain", "model.frobnicator", "--rules", rules, "--lang", "zh").out
    assert ("It lost one." in english, "丢了一个。" in english) == (True, False)
    assert ("It lost one." in chinese, "丢了一个。" in chinese) == (False, True)


def test_finding_id_shows_every_rule_that_shares_it(cli: Cli, rules: Path) -> None:
    answer = cli("explain", "model.bad-config", "--rules", rules, "--lang", "en")
    assert answer.status == 0
    shipped = [rule.id for rule in load_rules().by_cause("model.bad-config")]
    assert all(f"{name}  (" in answer.out for name in ["model.frobnicator", *shipped])


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("model.frobnicater", "model.frobnicator"),
        ("oom.kv-nun", "oom.kv-none"),
        ("dist.shm-to-small", "dist.shm-too-small"),
    ],
)
def test_unknown_id_names_the_nearest(cli: Cli, rules: Path, name: str, near: str) -> None:
    answer = cli("explain", name, "--rules", rules)
    assert (answer.status, answer.out) == (2, "")
    assert f"{name}: no such rule or finding id" in answer.err
    assert near in answer.err.split("did you mean: ")[1]


def test_id_like_no_other_points_to_the_list(cli: Cli) -> None:
    answer = cli("explain", "zzzzzzzz")
    assert answer.status == 2
    assert "vdoctor rules list" in answer.err


@pytest.mark.parametrize("name", ["", "*", "\x1b[2J", "../../etc/passwd", "[red]x[/red]"])
def test_strange_id_is_refused(cli: Cli, name: str) -> None:
    answer = cli("explain", name)
    assert (answer.status, answer.out) == (2, "")
    assert "\x1b" not in answer.err


def test_finding_id_without_a_rule_says_what_it_means(cli: Cli) -> None:
    ruled = {rule.cause for rule in load_rules().rules}
    for name in sorted(set(CAUSES) - ruled)[:3]:
        answer = cli("explain", name)
        assert answer.status == 2
        assert CAUSES[name] in answer.err
