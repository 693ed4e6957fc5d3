"""The short diagnosis."""

from __future__ import annotations

from dataclasses import replace

from vdoctor.model import Change, Evidence, Finding, Fix, Report, Source
from vdoctor.report.brief import brief

FIX = Fix(
    "shorter", {"en": "Serve less.", "zh": "减少长度。"}, "lossy", Change({"--x": "1"}), command="vllm serve m --x 1"
)
FINDING = Finding(
    "oom.kv-none",
    "oom.kv-none",
    {"en": "No room for the KV cache", "zh": "没有 KV cache 空间"},
    {"en": "Weights took it all.", "zh": "权重占满了显存。"},
    "fatal",
    "certain",
    "kv_init",
    "kv_init.allocate",
    (Evidence(118, "EngineCore_DP0", "ValueError: \x1b[31mNo available memory\x1b[0m"),),
    (),
    (FIX,),
    (),
)
REPORT = Report(Source("live", "child"), "failed", "kv_init", "kv_init.allocate", (FINDING,), (), (), (), {})


def test_says_verdict_cause_proof_and_command() -> None:
    assert brief(REPORT, "en", 4096).decode().splitlines() == [
        "vdoctor: failed in kv_init.allocate",
        "oom.kv-none (certain): No room for the KV cache",
        "Weights took it all.",
        "proof: 118: ValueError: No available memory",
        "fix: Serve less.",
        "vllm serve m --x 1",
    ]


def test_says_it_in_chinese_and_cuts_no_character() -> None:
    whole = brief(REPORT, "zh", 4096)
    assert "没有 KV cache 空间" in whole.decode()
    for most in range(len(whole)):
        cut = brief(REPORT, "zh", most)
        assert len(cut) <= most
        assert whole.decode().startswith(cut.decode())


def test_without_a_finding_only_the_verdict_is_said() -> None:
    assert brief(replace(REPORT, findings=(), phase=None, step=None), "en", 4096) == b"vdoctor: failed"
