"""The JSON report: complete, plain, the same after a round trip."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.reports import REPORT, both, finding, report
from vdoctor.model import Fact, Source
from vdoctor.report.json import pick, to_dict


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_round_trip_changes_nothing(lang: str) -> None:
    data = to_dict(REPORT, lang)
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_everything_is_in_it() -> None:
    data = to_dict(REPORT)
    assert data["source"] == {"kind": "file", "name": "a.log", "lines": 120, "bytes": 9000}
    assert data["engine"] == {
        "name": "vllm",
        "version": "0.11.0",
        "generation": "v1",
        "model": "org/model",
        "command": ["vllm", "serve", "org/model"],
    }
    assert (data["verdict"], data["phase"], data["step"], data["elapsed"]) == (
        "failed",
        "kv_init",
        "kv_init.allocate",
        75.0,
    )
    first = data["findings"][0]
    assert [first[key] for key in ("id", "rule", "severity", "confidence", "phase")] == [
        "oom.kv-none",
        "oom.kv-none-v1",
        "fatal",
        "certain",
        "kv_init",
    ]
    assert first["evidence"][0] == {"line": 118, "process": "EngineCore_DP0", "text": "ValueError: No available memory"}
    assert first["symptoms"] == ["dist.engine-core-failed"]
    assert first["fixes"][0]["changes"] == {
        "flags": {"--max-model-len": "8192", "--quantization": None, "--enforce-eager": True},
        "env": {"A": "b c", "OLD": None},
        "container": {"--shm-size": "16g"},
    }
    assert first["fixes"][1]["command"] is None
    assert data["not_evaluated"] == [{"id": "quant.capability-too-low", "missing": ["gpu.cc"]}]
    assert data["timeline"][1]["end"] is None
    assert data["exit"] == {"status": 137, "signal": "SIGKILL", "asked": None}
    assert [trial["verdict"] for trial in data["trials"]] == ["confirmed", "same failure"]
    assert data["facts"]["tp.valid"] == {"value": [1, 2, 4], "source": "derived"}


def test_texts_are_in_the_language_asked_for() -> None:
    assert to_dict(REPORT, "zh")["findings"][0]["title"] == "没有 KV 缓存空间"
    assert to_dict(REPORT, "en")["findings"][0]["title"] == "No room for the KV cache"


@pytest.mark.parametrize(
    ("texts", "lang", "expected"),
    [
        (both("a", "b"), "zh", "b"),
        ({"en": "a"}, "zh", "a"),
        ({"en": "a", "zh": ""}, "zh", "a"),
        ({"zh": "b"}, "en", "b"),
        ({}, "en", ""),
    ],
)
def test_missing_language_falls_back(texts: dict[str, str], lang: str, expected: str) -> None:
    assert pick(texts, lang) == expected


def test_unknown_things_are_null() -> None:
    data = to_dict(report(facts={}, generation=None, command=None, exit=None, elapsed=None, phase=None, step=None))
    assert data["engine"] == {"name": "vllm", "version": None, "generation": None, "model": None, "command": None}
    assert data["exit"] is data["elapsed"] is data["phase"] is data["step"] is None


@settings(max_examples=50, deadline=None)
@given(text=st.text(), number=st.floats(allow_nan=False, allow_infinity=False), size=st.integers(0, 1 << 62))
def test_any_text_and_number_survives(text: str, number: float, size: int) -> None:
    one = finding(title=both(text), why=both(text))
    changed = to_dict(
        report(findings=one.findings, facts={"a": Fact(number, text)}, source=Source("file", text, size, size))
    )
    assert json.loads(json.dumps(changed, allow_nan=False)) == changed
