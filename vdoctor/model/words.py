"""The words that observations, start-ups and reports share."""

from __future__ import annotations

from typing import Any, Literal

PHASES = ("launch", "weight_load", "kv_init", "graph_capture", "runtime")

#: Steps in the order in which a start-up passes them. Names are fixed; new ones may be added.
STEPS = (
    "launch.config",
    "launch.engine_start",
    "launch.distributed_init",
    "weight_load.download",
    "weight_load.init",
    "weight_load.read",
    "weight_load.process",
    "kv_init.compile",
    "kv_init.profile",
    "kv_init.allocate",
    "graph_capture.warmup",
    "graph_capture.capture",
    "graph_capture.sampler",
    "runtime.startup",
    "runtime.ready",
    "runtime.serving",
)

Severity = Literal["fatal", "stall", "degraded", "info"]
Confidence = Literal["confirmed", "certain", "likely", "possible"]
Verdict = Literal["failed", "stalled", "degraded", "healthy", "incomplete", "not_vllm"]
Safety = Literal["safe", "lossy", "manual"]
EventKind = Literal["record", "bar", "traceback", "text"]
#: What a stall is made of: storage that does not answer, a download, a collective whose ranks spin (NCCL, P2P), one rank
#: behind the others, one that died, a stopped process, a compiler, a lock or message between processes, too little memory,
#: a front end that no longer answers /health.
StallKind = Literal[
    "storage",
    "download",
    "collective",
    "rank-behind",
    "rank-dead",
    "stopped",
    "compile",
    "lock",
    "memory",
    "deaf",
    "unknown",
]

SEVERITIES: tuple[Severity, ...] = ("fatal", "stall", "degraded", "info")
CONFIDENCES: tuple[Confidence, ...] = ("confirmed", "certain", "likely", "possible")

FactValue = str | int | float | bool | tuple[Any, ...]
#: The value of a changed option: text or number to set, True for a bare flag, None to remove it.
FlagValue = str | bool | None


def phase_of(step: str) -> str:
    """`kv_init.profile` -> `kv_init`."""
    return step.partition(".")[0]
