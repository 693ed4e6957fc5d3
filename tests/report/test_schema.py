"""The JSON Schema says what the reports are."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cases import ROOT, Case, cases, examine
from tests.report.reports import CHANGE, REPORT
from vdoctor.report.json import to_dict
from vdoctor.report.redact import redact

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
VALID = Draft202012Validator(SCHEMA)


def plain(data: Any) -> Any:
    """As a reader of the text sees it."""
    return json.loads(json.dumps(data))


def test_schema_itself_is_right() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_report_of_each_fixture_is_valid(case: Case) -> None:
    report = examine(case.log)
    for lang in ("en", "zh"):
        VALID.validate(plain(to_dict(report, lang)))
    VALID.validate(plain(to_dict(redact(report))))


def test_report_with_everything_in_it_is_valid() -> None:
    data = plain(to_dict(REPORT))
    VALID.validate(data)
    VALID.validate([data, data])
    assert set(SCHEMA["$defs"]["report"]["properties"]) == set(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "broken"),
        (("phase",), "boot"),
        (("step",), "kv_init"),
        (("schema",), "vdoctor.report/2"),
        (("source", "kind"), "pipe"),
        (("engine", "command"), "vllm serve"),
        (("findings", 0, "confidence"), "sure"),
        (("findings", 0, "evidence", 0, "line"), "118"),
        (("findings", 0, "fixes", 0, "changes"), {"flags": {"max-model-len": "1"}, "env": {}, "container": {}}),
        (("findings", 0, "fixes", 0, "changes", "flags"), {"--x": False}),
        (("trials", 0, "verdict"), "ok"),
        (("facts", "vllm.version"), "0.11.0"),
        (("timeline", 0, "start"), "0.0"),
    ],
)
def test_schema_refuses_what_is_no_report(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(plain(to_dict(REPORT)))
    place = data
    for key in path[:-1]:
        place = place[key]
    assert path[-1] in place or isinstance(path[-1], int)
    place[path[-1]] = value
    assert not VALID.is_valid(data)


@pytest.mark.parametrize("key", SCHEMA["$defs"]["report"]["required"])
def test_schema_refuses_a_report_with_a_key_missing(key: str) -> None:
    data = plain(to_dict(REPORT))
    del data[key]
    assert not VALID.is_valid(data)


def test_healthy_report_has_no_phase() -> None:
    data = plain(to_dict(REPORT)) | {"verdict": "healthy"}
    assert not VALID.is_valid(data)
    assert VALID.is_valid(data | {"phase": None, "step": None})


def test_example_holds_all_kinds_of_changes() -> None:
    """Else the schema of changes would not be tried."""
    assert None in CHANGE.flags.values()
    assert True in CHANGE.flags.values()
    assert CHANGE.env
    assert CHANGE.container
