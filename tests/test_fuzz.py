"""Thousands of damaged logs: no crash, no hang, and no `healthy` for a server whose fatal line is still there.

VDOCTOR_FUZZ sets how many (`make fuzz`: 20000), VDOCTOR_FUZZ_SEED where to begin.
"""

from __future__ import annotations

import functools
import json
import os
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases, examine
from tests.mutations import mutated
from tests.serving import STYLES, Server
from vdoctor.model import Report
from vdoctor.report.json import to_dict
from vdoctor.report.text import render

INPUTS = int(os.environ.get("VDOCTOR_FUZZ", "2000"))
FIRST = int(os.environ.get("VDOCTOR_FUZZ_SEED", "0"))
SHARDS = 20
#: Processor seconds for 36 KB: a hang, not a slow machine.
HANG = 20.0
#: What children complain of behind such a line is noise.
_SHUTDOWN = re.compile(rb"Shutting down|Application shutdown complete|Finished server process|\[shutdown\]")
_READY = re.compile(
    rb"Application startup complete|Uvicorn running on|HTTP/1\.|throughput: |Received request|Added request"
)

_CORE = "(EngineCore_DP0 pid=10714) ERROR 12-01 00:00:05 [core.py:9] "
#: What ends a server that serves, in the words of vLLM and CUDA.
DEATHS = tuple(
    (
        "".join(
            f"{_CORE}{line}\n"
            for line in (
                "EngineCore encountered a fatal error.",
                "Traceback (most recent call last):",
                '  File "/x/vllm/v1/engine/core.py", line 9, in run_busy_loop',
                "    self._process_engine_step()",
                '  File "/x/vllm/v1/worker/gpu_model_runner.py", line 7, in execute_model',
                "    output = self.model(",
                error,
            )
        )
        + "(APIServer pid=10689) ERROR 12-01 00:00:05 [async_llm.py:7] AsyncLLM output_handler failed.\n"
        + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).\n"
    ).encode()
    for error in (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of "
        "which 1.10 GiB is free. Including non-PyTorch memory, this process has 77.99 GiB memory in use.",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: the frobnicator has no gears",
    )
)


@functools.cache
def logs() -> list[bytes]:
    """The corpus: all fixtures, long ones cut to their beginning and end, and servers that died while they served."""
    fixtures = [log if len(log) < 12_000 else log[:6000] + log[-6000:] for log in (case.log for case in cases())]
    healthy = [case.log for case in cases() if case.label["id"] == "healthy"]
    served = Server(5, STYLES["0.11"], busy=5).text(3)
    # As often as there are fixtures.
    return fixtures + [healthy[at % len(healthy)] + served + DEATHS[at % len(DEATHS)] for at in range(len(fixtures))]


@functools.cache
def fatal_lines(at: int) -> tuple[bytes, ...]:
    """Lines that prove the failure of a fixture."""
    report = examine(logs()[at])
    if report.verdict != "failed":
        return ()
    lines = logs()[at].split(b"\n")
    sure = [f for f in report.findings if f.severity == "fatal" and f.confidence != "possible"]
    proven = {lines[evidence.line - 1] for finding in sure[:1] for evidence in finding.evidence}
    return tuple(proven)


def check(seed: int) -> str | None:
    """What is wrong with the answer to one damaged log."""
    at, data = mutated(seed, logs())
    begin = time.process_time()
    report = examine(data)
    text = render(report, verbose=True)
    json.dumps(to_dict(report), allow_nan=False)
    took = time.process_time() - begin
    if took > HANG:
        return f"seed {seed}: {took:.1f} s for {len(data)} bytes"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text):
        return f"seed {seed}: control characters in the text"
    if report.verdict == "healthy" and (line := survivor(at, data)):
        return f"seed {seed}: healthy, though {line[:120]!r} is there"
    return None


def survivor(at: int, data: bytes) -> bytes | None:
    """A fatal line that is whole, after which nothing says that a server serves.

    Nor before it, unless it was so in the fixture: a start that fails beside another server that serves is two logs.
    """
    whole, before = set(data.split(b"\n")), logs()[at]
    for line in fatal_lines(at):
        if line not in whole or _READY.search(data, data.rindex(line)) or _SHUTDOWN.search(data, 0, data.rindex(line)):
            continue
        if not _READY.search(data, 0, data.index(line)) or _READY.search(before, 0, before.index(line)):
            return line
    return None


@pytest.mark.parametrize("shard", range(SHARDS))
def test_damaged_logs_get_an_answer(shard: int) -> None:
    seeds = range(FIRST + shard, FIRST + INPUTS, SHARDS)
    assert [fault for seed in seeds if (fault := check(seed))] == []


def test_fatal_lines_of_the_corpus_are_known() -> None:
    starts = [at for at in range(len(logs())) if fatal_lines(at)]
    served = [at for at in starts if _READY.search(logs()[at], 0, logs()[at].index(fatal_lines(at)[0]))]
    assert len(starts) >= 30
    assert len(served) >= 10


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_get_an_answer(data: Any) -> None:
    pieces = st.sampled_from([line for log in logs()[:12] for line in log.split(b"\n")[:40]]) | st.binary(max_size=60)
    answer(b"\n".join(data.draw(st.lists(pieces, max_size=30))))


def answer(data: bytes) -> Report:
    report = examine(data)
    render(report, verbose=True)
    return report
