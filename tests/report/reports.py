"""Reports made by hand, with everything in them that a report can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vdoctor.model import (
    Change,
    Evidence,
    Exit,
    Fact,
    Finding,
    Fix,
    NotEvaluated,
    PhaseTime,
    Report,
    Source,
    Span,
    Trial,
)

LONG = "vllm serve org/model --port 8000 " + " ".join(f"--option-{n} value-{n}" for n in range(30))
CHANGE = Change(
    {"--max-model-len": "8192", "--quantization": None, "--enforce-eager": True},
    {"A": "b c", "OLD": None},
    {"--shm-size": "16g"},
)


def both(text: str, zh: str | None = None) -> dict[str, str]:
    return {"en": text, "zh": text if zh is None else zh}


FIX = Fix("shorter", both("Serve shorter requests.", "缩短请求。"), "lossy", CHANGE, both("Longer ones fail."), LONG)
FINDING = Finding(
    "oom.kv-none",
    "oom.kv-none-v1",
    both("No room for the KV cache", "没有 KV 缓存空间"),
    both("The weights take all of it.", "权重占满显存。"),
    "fatal",
    "certain",
    "kv_init",
    "kv_init.allocate",
    (Evidence(118, "EngineCore_DP0", "ValueError: No available memory"), Evidence(7, None, "other")),
    ("dist.engine-core-failed",),
    (FIX, Fix("by-hand", both("Buy a larger card."), "manual", Change())),
    ("https://example.org/1",),
)
REPORT = Report(
    Source("file", "a.log", 120, 9000),
    "failed",
    "kv_init",
    "kv_init.allocate",
    (FINDING, replace(FINDING, id="dist.straggler", rule="dist.straggler", title=both("A rank is late", "有进程落后"))),
    (NotEvaluated("quant.capability-too-low", ("gpu.cc",)),),
    (
        Span("APIServer", "launch.config", 0.0, 2.0, 1, 9),
        Span("EngineCore_DP0", "kv_init.allocate", 60.0, None, 100, 118),
    ),
    (PhaseTime("launch", 0.0, 20.0), PhaseTime("weight_load", 20.0, 60.0), PhaseTime("kv_init", 60.0, None)),
    {
        "vllm.version": Fact("0.11.0", "log:1"),
        "model.name": Fact("org/model", "argv"),
        "tp.valid": Fact((1, 2, 4), "derived"),
    },
    75.0,
    "v1",
    ("vllm", "serve", "org/model"),
    {
        "log": {"weights": 15.27},
        "gpus": [{"index": 0, "name": "L4", "total": 23.6, "used": 1.0, "used_peak": 22.0}],
        "host": {"rss_peak": 3.5},
    },
    None,
    Exit(75.0, 137, "SIGKILL"),
    (
        Trial("shorter", CHANGE, LONG, "confirmed", 31.0),
        Trial("x", Change(), "vllm serve m", "same failure", 9.0, "oom.kv-none"),
    ),
)


def report(**changes: Any) -> Report:
    """The report with some fields changed."""
    return replace(REPORT, **changes)


def finding(**changes: Any) -> Report:
    """The report with one finding, some of its fields changed."""
    return replace(REPORT, findings=(replace(FINDING, **changes),))
