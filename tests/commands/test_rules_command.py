"""vdoctor rules list and lint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import RULE, Cli
from vdoctor.errors import RuleError
from vdoctor.launch import options as option_tables
from vdoctor.proof import lint
from vdoctor.rulebase.loader import load
from vdoctor.store import load_rules


def test_list_has_a_line_for_every_rule_and_the_count_apart(cli: Cli, rules: Path) -> None:
    answer = cli("rules", "list", "--rules", rules)
    names = [line.split()[0] for line in answer.out.splitlines()]
    assert answer.status == 0
    assert names == sorted([*(rule.id for rule in load_rules().rules), "model.frobnicator"])
    assert answer.err == f"{len(names)} rules\n"


def test_list_as_json(cli: Cli, rules: Path) -> None:
    answer = cli("rules", "list", "--rules", rules, "--format", "json", "--lang", "zh")
    assert (answer.status, answer.err) == (0, "")
    row = next(row for row in answer.data if row["rule"] == "model.frobnicator")
    assert (row["id"], row["status"], row["severity"]) == ("model.bad-config", "test", "fatal")
    assert "变速器" in row["title"]


def test_lint_of_a_familys_folder_finds_its_rules_and_gives_0(cli: Cli, rules: Path) -> None:
    answer = cli("rules", "lint", rules / "model")
    assert (answer.status, answer.out, answer.err) == (0, "", "1 rules checked, 0 faults\n")


PLACE = "rules/model/frobnicator.toml"


def faults(old: str, new: str) -> str:
    """What lint says about the rule with one change, without the other rules; it must refuse it."""
    assert old in RULE
    try:
        found = lint(load([(PLACE, RULE.replace(old, new))]), option_tables.load())
    except RuleError as error:
        found = [error.what]
    assert found
    assert all(fault.startswith(f"{PLACE}: ") for fault in found)
    return "\n".join(found)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema = 1", "schema = 2", "schema: must be 1\n  help: write schema = 1"),
        ('id = "model.frobnicator"', 'id = "model.other"', "does not equal the path\n  help: move the file to model/other.toml"),
        ('cause = "model.bad-config"', 'cause = "model.nonsense"', "cause: 'model.nonsense' is no finding id\n  help: "),
        ('status = "test"', 'status = "good"', "status: 'good' is not allowed\n  help: one of: "),
        ("gears'\ngives", "(gears'\ngives", "regex: missing ), unterminated subpattern"),
        ("the frobnicator has only (?P<have>\\d+) of \\d+ gears'\ngives", "(?P<have>\\d+) of'\ngives", "no literal of 4"),
        ("(?P<have>\\d+)", "(?P<have>(\\d+)+)", "a repeat inside a repeat"),
        ('= "have" }', '= "havent" }', "'havent' is no group of the regex"),
        ("kv.fit_len", "kv.fit_length", "unknown fact 'kv.fit_length'\n  help: known: kv."),
        ('safety = "safe"', 'safety = "lossy"', "text.en.cost.shorter: missing"),
        ('title = "变速器只有 {kv.fit_len} 个齿轮"', 'title = "{kv.fit_len} gears"', "text.zh.title: is not Chinese"),
        ("变速器只有 {kv.fit_len} 个", "变速器少了一个", "text.zh.title: mentions other facts"),
        ('fix.shorter = "降一档。"', "", "text.zh.fix.shorter: missing"),
        ("match = false", "match = true", "example[1]: does not match"),
        ("only 3 of 4 gears'", "4 gears'", "example[0]: does not match"),
        ("the frobnicator has 4 gears", "the frobnicator has only 1 of 4 gears", "example[1]: matches"),
        ('why = "all gears are there"\n', "", "example[1].why: missing"),
        ('references = ["https://example.org/frobnicator"]', "references = []", "references: missing"),
        ('[[example]]\nmatch = false', '[[exampel]]\nmatch = false', "exampel: unknown key"),
        ("schema = 1\n", "schema = 1\nschema = 1\n", "not valid TOML"),
    ],
)  # fmt: skip
def test_lint_names_place_and_reason_of_a_fault(old: str, new: str, said: str) -> None:
    assert said in faults(old, new)


def test_lint_proves_the_fix_and_its_command() -> None:
    good = "gears'\n[[example]]\nmatch = false"
    fix = 'gears\'\nfix = "longer"\n[[example]]\nmatch = false'
    assert "example[0].fix: first fix is 'shorter', not 'longer'" in faults(good, fix)
    change = (
        'gears\'\nchange = { before = "vllm serve m --max-model-len 9", after = "vllm serve m --max-model-len 4" }\n'
        "[[example]]\nmatch = false"
    )
    assert "example[0].change: gives 'vllm serve m --max-model-len 3'" in faults(good, change)


def test_lint_shows_every_fault_of_every_file_at_once(cli: Cli, rules: Path) -> None:
    path = rules / "model" / "frobnicator.toml"
    path.write_text(RULE.replace("schema = 1", "schema = 3\ncolour = 1"))
    taken = load_rules().rules[0].id
    other = rules / taken.partition(".")[0] / f"{taken.partition('.')[2]}.toml"
    other.parent.mkdir(exist_ok=True)
    other.write_text(RULE.replace("model.frobnicator", taken))
    answer = cli("rules", "lint", rules)
    assert (answer.status, answer.out) == (2, "")
    assert f"{path}: colour: unknown key" in answer.err
    assert f"{path}: schema: must be 1" in answer.err
    assert f"id: {taken!r} is taken by" in answer.err
    assert "3 faults in the form" in answer.err


def test_lint_finds_a_rival() -> None:
    other = RULE.replace("model.frobnicator", "model.greedy").replace('"model.bad-config"', '"model.not-found"')
    base = load([(PLACE, RULE), ("rules/model/greedy.toml", other)])
    assert any("takes it" in fault for fault in lint(base, option_tables.load()))


@pytest.mark.parametrize("name", ["missing.toml", "folder-without-rules", "binary.toml"])
def test_lint_of_what_is_no_rule_gives_2(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder-without-rules").mkdir()
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    answer = cli("rules", "lint", tmp_path / name)
    assert answer.status == 2, answer.err


def test_rules_without_a_subcommand_shows_help(cli: Cli) -> None:
    answer = cli("rules")
    assert answer.status == 2
    assert "lint" in answer.err + answer.out


# rules new, rules test


def test_test_says_how_every_example_came_out(cli: Cli, rules: Path) -> None:
    path = rules / "model" / "frobnicator.toml"
    answer = cli("rules", "test", path)
    assert (answer.status, answer.out, answer.err) == (0, "ok   model.frobnicator  2 examples\n", "1 rules, 0 faults\n")
    path.write_text(RULE.replace("only 3 of 4 gears'", "4 gears'"))
    answer = cli("rules", "test", path)
    assert answer.status == 2
    assert answer.out.startswith("FAIL model.frobnicator  2 examples\n     ")


def test_new_writes_a_draft_that_lint_refuses_until_it_is_finished(cli: Cli, failed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "drafts"
    answer = cli("rules", "new", "model.gears", "--from-log", f"{failed}:6", "--dir", folder)
    path = folder / "model" / "gears.toml"
    assert (answer.status, answer.out) == (0, f"{path}\n")
    assert "frobnicator" in path.read_text()
    with pytest.raises(AssertionError):
        assert lint(load([(str(path), path.read_text())]), option_tables.load()) == []
    # It is not written over.
    assert cli("rules", "new", "model.gears", "--from-log", f"{failed}:6", "--dir", folder).status == 2


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Model.Gears", "{log}:6"),
        ("gears", "{log}:6"),
        ("model.gears", "{log}"),
        ("model.gears", "{log}:99"),
        ("model.gears", "/no/log:1"),
    ],
)
def test_new_refuses_what_it_cannot_use(cli: Cli, failed: Path, tmp_path: Path, name: str, place: str) -> None:
    answer = cli("rules", "new", name, "--from-log", place.format(log=failed), "--dir", tmp_path / "drafts")
    assert (answer.status, answer.out) == (2, "")
    assert not (tmp_path / "drafts").exists()
