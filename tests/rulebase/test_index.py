from __future__ import annotations

import json

import pytest

from tests.rulebase.rulebook import base, examine, line, rule, signal
from vdoctor.rulebase.index import from_data, to_data

RULES = base(
    rule(
        "oom.x",
        signal(
            r"total of (?P<gib>[0-9.]+) GiB",
            "gives = { 'gpu.total_gib' = 'gib' }\nset = { 'tp.valid' = [1, 2], 'port' = 8000 }\nlevel = ['ERROR']\nrepeats = 2",
        )
        + "[[signal]]\nends = ['weight_load.read']\nlast = 'shards'\n"
        + "[[when]]\nfact = 'model.quantization'\nop = 'in'\nvalue = ['awq', 'gptq']\n"
        + "[[when]]\nfact = 'tp.size'\nop = '>'\nthan = 'gpu.count'\n"
        + "[[fix]]\nid = 'a'\nsafety = 'safe'\nwhen = [{ fact = 'port', op = 'known' }]\n"
        + "changes = { flags = { '--port' = '{port}', '--enforce-eager' = true }, env = { A = '1' }, container = { '--ipc' = 'host' }, remove = ['--seed'] }\n"
        + "[[example]]\nmatch = true\nlog = 'x'\n",
        "severity = 'stall'\nphases = ['kv_init']\nexplains = ['dist.*']\nreferences = ['https://x']",
        en='fix.a = "do {port}"',
        zh='fix.a = "做 {port}"',
    ),
    rule("quant.y", signal("stable message")),
)


def test_rules_come_back_from_json_without_their_examples() -> None:
    again = from_data(json.loads(json.dumps(to_data(RULES))))
    assert to_data(again) == to_data(RULES)
    assert [one.examples for one in again.rules] == [(), ()]


def test_rules_from_the_index_find_the_same() -> None:
    again = from_data(json.loads(json.dumps(to_data(RULES))))
    log = f"{line('total of 3.5 GiB')}\n{line('total of 3.5 GiB')}\n{line('stable message')}"
    facts = {"model__quantization": "awq", "tp__size": 8, "gpu__count": 4}
    assert examine(again, log, **facts) == examine(RULES, log, **facts)
    assert {finding.id for finding in examine(RULES, log, **facts).findings} == {"oom.x", "quant.y"}


@pytest.mark.parametrize("data", [[{}], [{"id": "oom.x"}], [3], [None], 3, None, [{"signals": 3}]])
def test_data_of_another_format_is_refused(data: object) -> None:
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)):
        from_data(data)  # type: ignore[arg-type]
