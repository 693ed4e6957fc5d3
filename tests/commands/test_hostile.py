"""Logs that were made to break a reader: the answer may be poor, but it is an answer."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import examine
from tests.commands.conftest import FAILED, HEALTHY, Cli
from vdoctor.report.json import to_dict
from vdoctor.report.text import render

NINES = "9" * 5000
HEAD = "(EngineCore_DP0 pid=12) INFO 12-01 00:00:05 [core.py:9] "
LINES = {
    "pid of 5000 digits": f"(EngineCore_DP0 pid={NINES}) INFO 12-01 00:00:05 [core.py:9] x",
    "rank of 5000 digits": f"(VllmWorker rank={NINES} pid=1) INFO 12-01 00:00:05 [core.py:9] x",
    "torch rank of 5000 digits": f"[rank{NINES}]: Traceback (most recent call last):",
    "TP rank of 5000 digits": f"(Worker_TP{NINES} pid=1) INFO 12-01 00:00:05 [core.py:9] x",
    "seconds with two points": f"{HEAD}Loading weights took 1.2.3 seconds",
    "seconds of points": f"{HEAD}Loading weights took ... seconds",
    "seconds of 5000 digits": f"{HEAD}Graph capturing finished in {NINES} secs, took {NINES} GiB",
    "download of points": f"{HEAD}Time spent downloading weights for m: ..... seconds",
    "profiling of points": f"{HEAD}Initial profiling/warmup run took .. s",
    "KV tokens of 5000 digits": f"{HEAD}GPU KV cache size: {NINES} tokens",
    "KV tokens of commas": f"{HEAD}GPU KV cache size: ,,, tokens",
    "memory of 5000 digits": f"{HEAD}Available KV cache memory: {NINES} GiB",
    "memory of 400 digits": f"{HEAD}Available KV cache memory: {'9' * 400} GiB",
    "max length of 5000 digits": f"{HEAD}Using max model len {NINES}",
    "bar of 5000 digits": f"Loading safetensors checkpoint shards: 50% Completed | {NINES}/{NINES} [00:01<00:01, 1.0it/s]",
    "bar of nothing": "Loading safetensors checkpoint shards: 0% Completed | 0/0 [00:00<?, ?it/s]",
    "bar with a rate of points": "Capturing CUDA graphs: 50%|#| 1/2 [00:01<00:01, ...it/s]",
    "bar with a rate of 0": "Capturing CUDA graphs: 50%|#| 1/2 [00:01<00:01, 0.00s/it]",
    "bar with a long clock": f"Capturing CUDA graphs: 50%|#| 1/2 [{'9:' * 500}9<0:01, 1it/s]",
    "date that is none": "INFO 99-99 99:99:99 [core.py:9] x",
    "29 February": "INFO 02-29 00:00:00 [core.py:9] x",
    "year that is none": "0000-00-00T00:00:00Z INFO 12-01 00:00:05 [core.py:9] x",
    "year 9999 with a zone": "9999-12-31T23:59:59-23:59 INFO 12-01 00:00:05 [core.py:9] x",
    "year 1 with a zone": "0001-01-01T00:00:00+23:59 INFO 12-01 00:00:05 [core.py:9] x",
    "half a surrogate in JSON": '{"log":"RuntimeError: \\ud800 is half a character\\n","stream":"stderr","time":"2025-01-01T00:00:00Z"}',
    "JSON that nests": "[" * 3000 + '{"log":"x"}',
    "JSON that nests in an object": '{"log":' * 3000 + "1" + "}" * 3000,
    "JSON number of 5000 digits": f'{{"message":"x","process":{NINES}}}',
    "JSON of wrong types": '{"log":5,"message":["x"],"levelname":{},"asctime":1}',
    "arguments that nest": f"{HEAD}non-default args: {{'a': {'[' * 3000}{']' * 3000}}}",
    "arguments that are a program": f"{HEAD}non-default args: {{'model': __import__('os').system('true')}}",
    "arguments of 5000 digits": f"{HEAD}non-default args: {{'model': 'm', 'port': {NINES}}}",
    "arguments of strange types": f"{HEAD}non-default args: {{'model': 1, 'port': [], 'max_model_len': {{}}, 5: 6}}",
    "arguments of infinity": f"{HEAD}non-default args: {{'model': 'm', 'gpu_memory_utilization': 1e999, 'max_model_len': -1}}",
    "options of 5000 digits": f"vllm: error: unrecognized arguments: --max-model-len {NINES} --",
    "command with an open quote": "$ vllm serve 'm --port 8000",
    "command of numbers": f"$ vllm serve m --port {NINES} --max-model-len nan --gpu-memory-utilization inf",
    "command that goes on for ever": "$ vllm serve m \\\n" + "  --port 1 \\\n" * 200,
    "heads of 5000 digits": f"ValueError: Total number of attention heads ({NINES}) must be divisible by tensor parallel size ({NINES}).",
    "heads of zero": "ValueError: Total number of attention heads (0) must be divisible by tensor parallel size (0).",
    "lengths of 5000 digits": f"ValueError: To serve at least one request with the models's max seq len ({NINES}), ({NINES} GiB KV cache is needed, which is larger than the available KV cache memory ({NINES} GiB). Based on the available memory, the estimated maximum model length is {NINES}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
    "lengths of zero": "ValueError: To serve at least one request with the models's max seq len (0), (0.00 GiB KV cache is needed, which is larger than the available KV cache memory (0.00 GiB). Based on the available memory, the estimated maximum model length is 0.",
    "memory of zero": "ValueError: Free memory on device (0.0/0.0 GiB) on startup is less than desired GPU memory utilization (0.0, 0.0 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    "traceback without an end": 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n' * 300,
    "traceback of one line": "Traceback (most recent call last):",
    "exception without a message": "Traceback (most recent call last):\n  File \"vllm/x.py\", line 1, in f\nE",
    "markup": f"{HEAD}[bold red]x[/bold red] [/] [link=file:///etc/passwd]y[/link] [[{{gpu.cc}}]] {{0}} %s",
    "control sequences": f"{HEAD}\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m \x9b31m \x1bPq#0;2;0;0;0\x1b\\ \x08\x08\x7f\u202e",
    "64 KiB without a blank": "x" * 70_000,
    "64 KiB of brackets": "(" * 70_000,
    "64 KiB of tags": "(A pid=1) " * 7_000,
    "64 KiB of prefixes": "> " * 35_000,
    "64 KiB of percent signs": "%| " * 20_000,
    "64 KiB of blanks": " " * 70_000 + "x",
    "null bytes": "INFO 12-01 00:00:05 [core.py:9] a\x00b\x00c" + " " * 5000,
    "no line end": "\r" * 10_000,
}  # fmt: skip


def shown(data: bytes) -> str:
    """The verbose report as text; it, and the report as JSON, can be printed."""
    report = examine(data)
    json.dumps(to_dict(report), ensure_ascii=False, allow_nan=False).encode()
    text = render(report, verbose=True)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    text.encode()
    return text


@pytest.mark.parametrize("name", LINES)
def test_strange_line_in_a_failed_start_is_survived(name: str) -> None:
    before, after = HEALTHY.splitlines(keepends=True)[:3], FAILED.splitlines(keepends=True)[3:]
    data = "".join([*before, LINES[name] + "\n", *after]).encode("utf-8", "surrogatepass")
    assert shown(data).startswith("✗ failed")


@settings(max_examples=30, deadline=None)
@given(data=st.lists(st.sampled_from(list(LINES.values())) | st.text(max_size=80), max_size=4).map("\n".join))
def test_any_mixture_is_survived(data: str) -> None:
    shown(data.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("seed", range(6))
def test_log_with_flipped_bits_is_survived(seed: int) -> None:
    dice = random.Random(seed)
    data = bytearray(((HEALTHY + FAILED) * 3).encode())
    for _ in range(len(data) // 40):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(7)
    shown(bytes(data))


def test_log_cut_off_anywhere_is_survived() -> None:
    for size in range(1, len(FAILED), 37):
        shown(FAILED.encode()[:size])


def test_whole_command_survives_a_hostile_log(cli: Cli) -> None:
    chosen = [
        text for name, text in LINES.items() if "64 KiB" not in name and name not in ("null bytes", "no line end")
    ]
    data = (HEALTHY + "\n".join(chosen) + "\n").encode("utf-8", "surrogatepass")
    answer = cli("analyze", "-", "--format", "json", stdin=data)
    assert (answer.status, answer.err) == (1, "")
    assert answer.data["schema"] == "vdoctor.report/1"


def test_command_of_a_foreign_session_cannot_write_on_the_screen(cli: Cli, tmp_path: Path) -> None:
    """A session folder that somebody sends: its command is text, too."""
    session = {"command": ["vllm", "serve", "\x1b]0;title\x07m\x1b[2J", "--port", "8000"], "env": {}, "facts": {}}
    (tmp_path / "session.json").write_text(json.dumps(session))
    (tmp_path / "log.txt").write_text(FAILED)
    (tmp_path / "samples.jsonl").write_text(
        '{"t":1,"gpus":[{"index":0,"name":"\\u001b[2Jx","memory_total":1,"memory_used":1}]}\n'
    )
    answer = cli("analyze", tmp_path, "-v")
    assert answer.status == 1
    assert "\x1b" not in answer.out
    assert "\x07" not in answer.out
