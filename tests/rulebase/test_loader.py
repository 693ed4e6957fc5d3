from __future__ import annotations

import pytest

from tests.rulebase.rulebook import base, rule, signal
from vdoctor.errors import RuleError
from vdoctor.rulebase.loader import load, parse_rule

GOOD = signal("stable middle of a message")
FIX = "[[fix]]\nid = 'x'\nsafety = 'safe'\n"


def fault(text: str) -> str:
    with pytest.raises(RuleError) as caught:
        parse_rule(text, "my.toml")
    return caught.value.what


def test_a_complete_rule_is_read() -> None:
    text = rule(
        "oom.x",
        signal(
            "total of (?P<gib>[0-9.]+) GiB",
            "gives = { 'gpu.total_gib' = 'gib' }\nset = { 'port' = 8000 }\nlevel = ['ERROR']\nprocess = '^Worker'",
        )
        + "[[signal]]\nends = ['weight_load.read']\nlast = 'shards'\n"
        + "[[when]]\nfact = 'gpu.cc'\nop = '<'\nvalue = 75\n"
        + FIX.replace("'safe'", "'lossy'")
        + "changes = { flags = { '--max-model-len' = '{kv.fit_len}', '--enforce-eager' = true, '--port' = 8001 }, env = { A = 1 }, container = { '--shm-size' = '16g' }, remove = ['--foo'] }\n"
        + "[[example]]\nmatch = false\nwhy = 'another'\nlog = 'x'\n",
        "severity = 'stall'\nconfidence = 'likely'\nphases = ['kv_init']\npreflight = true\nwrapper = true\nexplains = ['oom.*']\nreferences = ['https://x']",
        en='fix.x = "do it"\ncost.x = "slower"',
        zh='fix.x = "做"',
    )
    read = parse_rule(text, "my.toml")
    assert (read.id, read.cause, read.severity, read.confidence, read.wrapper, read.preflight) == (
        "oom.x",
        "oom.x",
        "stall",
        "likely",
        True,
        True,
    )
    assert read.signals[0].gives == {"gpu.total_gib": "gib"}
    assert read.signals[1].ends == ("weight_load.read",)
    assert read.fixes[0].change.flags == {
        "--foo": None,
        "--max-model-len": "{kv.fit_len}",
        "--enforce-eager": True,
        "--port": "8001",
    }
    assert (read.fixes[0].id, read.fixes[0].safety, read.fixes[0].change.env) == ("x", "lossy", {"A": "1"})
    assert read.fixes[0].change.container == {"--shm-size": "16g"}
    assert read.text("fix.x") == {"en": "do it", "zh": "做"}
    assert read.text("cost.x") == {"en": "slower"}


@pytest.mark.parametrize(
    ("text", "place", "reason", "help_text"),
    [
        ("schema = 1\nid = ", "my.toml", "not valid TOML", ""),
        (rule("oom.x", GOOD).replace("schema = 1", "schema = 2"), "schema", "must be 1", "schema = 1"),
        (rule("oom.x", GOOD).replace('id = "oom.x"', ""), "id", "missing", "add id"),
        (rule("oom.x", GOOD).replace('id = "oom.x"', "id = 3"), "id", "must be a non-empty string, not 3", ""),
        (rule("Oom", GOOD), "id", "is no rule id", "family.some-name"),
        (rule("oom.x_y", GOOD), "id", "is no rule id", "family.some-name"),
        (rule("oom.x", GOOD).replace('cause = "oom.x"', ""), "cause", "missing", "add cause"),
        (rule("oom.x", GOOD).replace('status = "test"', 'status = "good"'), "status", "'good' is not allowed", "experimental, test, stable"),
        (rule("oom.x", GOOD, "severity = 'bad'"), "severity", "'bad' is not allowed", "fatal, stall"),
        (rule("oom.x", GOOD, "confidence = 'sure'"), "confidence", "'sure' is not allowed", "certain"),
        (rule("oom.x", GOOD, "phases = ['start']"), "phases", "'start' is not allowed", "weight_load"),
        (rule("oom.x", GOOD, "phases = 'kv_init'"), "phases", "must be a list of strings", ""),
        (rule("oom.x", GOOD, "wrapper = 'yes'"), "wrapper", "must be true or false", ""),
        (rule("oom.x", GOOD, "explains = [3]"), "explains", "must be a list of strings", ""),
        (rule("oom.x", GOOD, "colour = 'red'"), "colour", "unknown key", "known keys: cause"),
        (rule("oom.x", ""), "signal", "needs a [[signal]] or a [[when]]", ""),
        (rule("oom.x", "", "signal = 'x'"), "signal", "must be a list of tables", "[[signal]]"),
        (rule("oom.x", "[[signal]]\n"), "signal[0]", "needs regex, ends, like or when", ""),
        (rule("oom.x", GOOD + signal("([unclosed")), "signal[1].regex", "unterminated character set", ""),
        (rule("oom.x", signal("a+b+")), "signal[0].regex", "no literal of 4 characters", "keep a fixed stretch"),
        (rule("oom.x", signal("(?i)stable text")), "signal[0].regex", "no literal of 4 characters", "no (?i)"),
        (rule("oom.x", signal("stable (a+)+ text")), "signal[0].regex", "repeat inside a repeat", "write one repeat"),
        (rule("oom.x", signal("stable text", "stack = '('")), "signal[0].stack", "missing ), unterminated subpattern", ""),
        (rule("oom.x", signal("stable text", "process = '*'")), "signal[0].process", "nothing to repeat", ""),
        (rule("oom.x", signal("stable text", "gives = { 'gpu.cc' = 'cc' }")), "signal[0].gives", "'cc' is no group", "(?P<cc>...)"),
        (rule("oom.x", signal("stable text", "gives = { 'gpu.cc' = ['a'] }")), "signal[0].gives", "is no group", ""),
        (rule("oom.x", signal("stable (?P<c>text)", "gives = { 'gpu.colour' = 'c' }")), "signal[0].gives", "unknown fact 'gpu.colour'", "gpu.cc"),
        (rule("oom.x", signal("stable text", "set = { 'nothing' = 1 }")), "signal[0].set", "unknown fact 'nothing'", "known:"),
        (rule("oom.x", signal("stable text", "set = { 'port' = { a = 1 } }")), "signal[0].set", "is no value of a fact", ""),
        (rule("oom.x", "[[signal]]\nends = ['weight_load.start']\n"), "signal[0].ends", "is not allowed", "weight_load.read"),
        (rule("oom.x", "[[when]]\nop = '<'\nvalue = 3\n"), "when[0].fact", "missing", "add fact"),
        (rule("oom.x", "[[when]]\nfact = 'gpu.cc'\nop = '=<'\nvalue = 3\n"), "when[0].op", "'=<' is not allowed", "<="),
        (rule("oom.x", "[[when]]\nfact = 'gpu.cc'\nop = '<'\n"), "when[0]", "needs value or than", ""),
        (rule("oom.x", "[[when]]\nfact = 'gpu.cc'\nop = '<'\nthan = 'gpu.x'\n"), "when[0].than", "unknown fact 'gpu.x'", ""),
        (rule("oom.x", "[[when]]\nfact = 'vllm.version'\nop = 'version'\nvalue = '0.11 or so'\n"), "when[0].value", "is no range of versions", ">=0.11"),
        (rule("oom.x", "[[when]]\nfact = 'port'\nop = 'in'\nvalue = 8000\n"), "when[0].value", "must be a list", ""),
        (rule("oom.x", GOOD + "[[fix]]\nid = 'x'\n"), "fix[0].safety", "missing", "add safety"),
        (rule("oom.x", GOOD + "[[fix]]\nsafety = 'manual'\n"), "fix[0].id", "missing", "add id"),
        (rule("oom.x", GOOD + FIX), "fix[0]", "a safe fix needs changes", "manual"),
        (rule("oom.x", GOOD + FIX + "changes = { flags = { 'max-len' = '1' } }\n"), "fix[0].changes", "'max-len' is no option", "--name"),
        (rule("oom.x", GOOD + FIX + "changes = { flags = { '--x' = false } }\n"), "fix[0].changes.flags.--x", "False is no setting", "true"),
        (rule("oom.x", GOOD + FIX + "changes = { flags = { '--x' = [1] } }\n"), "fix[0].changes.flags.--x", "[1] is no setting", "a string"),
        (rule("oom.x", GOOD + FIX + "changes = { arguments = {} }\n"), "fix[0].changes.arguments", "unknown key", "flags"),
        (rule("oom.x", GOOD + FIX + "changes = 'x'\n"), "fix[0].changes", "must be a table", ""),
        (rule("oom.x", GOOD, en='fix.x = "{gpu.colour}"'), "text.en.fix.x", "unknown fact 'gpu.colour'", "gpu.cc"),
        (rule("oom.x", GOOD).replace("[text.zh]", "[text.fr]"), "text.zh", "missing", "add [text.zh]"),
        (rule("oom.x", GOOD).replace("[text.zh]", "[text.fr]"), "text.fr", "unknown language", "en, zh"),
        (rule("oom.x", GOOD).replace('cause = "why"', ""), "text.en.cause", "missing", ""),
        (rule("oom.x", GOOD + "[[example]]\nlog = 'x'\n"), "example[0].match", "must be true or false", ""),
        (rule("oom.x", GOOD + "[[example]]\nmatch = false\nlog = 'x'\n"), "example[0].why", "missing", ""),
        (rule("oom.x", GOOD + "[[example]]\nmatch = true\nfacts = { 'gpu.x' = 1 }\n"), "example[0].facts", "unknown fact 'gpu.x'", ""),
        (rule("oom.x", GOOD + "[[example]]\nmatch = true\nlog = 'x'\nchange = { before = 3, after = 'x' }\n"), "example[0].change.before", "must be a non-empty string", ""),
        (rule("oom.x", GOOD + "[[example]]\nmatch = true\nlog = 'x'\nphase = 'boot'\n"), "example[0].phase", "'boot' is not allowed", "runtime"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_place_reason_and_help(text: str, place: str, reason: str, help_text: str) -> None:
    message = fault(text)
    (told,) = [part for part in message.split("my.toml: ")[1:] if reason in part] or [message]
    assert told.startswith((place + ":", "not valid TOML")) or place == "my.toml"
    assert reason in told
    if help_text:
        assert "help:" in told
        assert help_text in told.split("help:")[1]


def test_shows_where_in_a_regex_the_fault_is() -> None:
    lines = fault(rule("oom.x", signal("stable (?P<a)"))).splitlines()
    at = next(number for number, text in enumerate(lines) if "(?P<a)" in text)
    assert lines[at + 1].strip() == "^"
    assert lines[at + 1].index("^") > lines[at].index("stable")


def test_all_faults_of_all_files_come_at_once() -> None:
    broken = rule("oom.x", signal("a+"), "severity = 'bad'\ncolour = 1").replace('status = "test"', "")
    with pytest.raises(RuleError) as caught:
        load([("a.toml", broken), ("b.toml", "not toml"), ("c.toml", rule("oom.y", GOOD))])
    faults = caught.value.what
    for part in (
        "a.toml: severity",
        "a.toml: colour",
        "a.toml: status",
        "a.toml: signal[0].regex",
        "b.toml: not valid TOML",
    ):
        assert part in faults
    assert "c.toml" not in faults
    assert caught.value.hint


def test_an_id_must_equal_the_path() -> None:
    text = rule("oom.x", GOOD)
    assert parse_rule(text, "/any/where/oom/x.toml").id == "oom.x"
    assert parse_rule(text, "rules\\oom\\x.toml").id == "oom.x"
    with pytest.raises(RuleError, match=r"id: 'oom.x' does not equal the path\n  help: move the file to oom/x.toml"):
        parse_rule(text, "rules/env/x.toml")


def test_two_rules_cannot_share_an_id() -> None:
    with pytest.raises(RuleError, match=r"rule 2: id: .oom\.x. is taken by rule 1"):
        base(rule("oom.x", GOOD), rule("oom.x", GOOD))


def test_rules_come_in_order_of_their_ids() -> None:
    read = base(rule("oom.b", GOOD), rule("oom.a", GOOD), rule("env.z", GOOD))
    assert [one.id for one in read.rules] == ["env.z", "oom.a", "oom.b"]
    assert read.get("oom.a") is not None
    assert read.get("oom.c") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[[[",
        "id = 1",
        "[text]\nen = 3",
        "signal = [3]",
        "when = {}",
        "fix = [[]]",
        "text = []",
        "example = 'x'",
        "id = 2025-01-01",
        "[[signal]]\nregex = 3\nlevel = 3\ngives = 3\nset = []",
    ],
)
def test_no_file_breaks_the_loader(text: str) -> None:
    assert fault(text).startswith("my.toml: ")


@pytest.mark.parametrize(
    "pattern", [r"waits \((?:\d+) of (\d+)\) long", r"a (?:b|c)* long text", r"\(\d+\)+ long text"]
)
def test_harmless_repeats_are_allowed(pattern: str) -> None:
    assert parse_rule(rule("oom.x", signal(pattern)), "my.toml").signals[0].regex == pattern
