"""vdoctor called as from a shell: in this process for speed, as a process of its own where that matters."""

from __future__ import annotations

import functools
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.processes import IMPATIENT, VDOCTOR, Mark, run
from vdoctor.cli import _run
from vdoctor.rulebase.schema import RuleBase
from vdoctor.store import load_rules

#: A start that gets ready, in the format of 0.11: nothing is wrong with it.
HEALTHY = """\
(APIServer pid=11) INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.11.0
(EngineCore_DP0 pid=12) INFO 12-01 00:00:03 [core.py:9] Initializing a V1 LLM engine (v0.11.0) with config: model='org/m', tensor_parallel_size=1
(EngineCore_DP0 pid=12) INFO 12-01 00:00:05 [gpu_model_runner.py:2] Starting to load model org/m...
(EngineCore_DP0 pid=12) INFO 12-01 00:00:09 [gpu_model_runner.py:3] Model loading took 1.5000 GiB and 3.900000 seconds
(EngineCore_DP0 pid=12) INFO 12-01 00:00:12 [gpu_worker.py:4] Available KV cache memory: 5.00 GiB
(EngineCore_DP0 pid=12) INFO 12-01 00:00:12 [kv_cache_utils.py:5] GPU KV cache size: 40,960 tokens
(EngineCore_DP0 pid=12) INFO 12-01 00:00:15 [core.py:6] init engine (profile, create kv cache, warmup model) took 6.00 seconds
(APIServer pid=11) INFO 12-01 00:00:16 [api_server.py:7] Starting vLLM API server 0 on http://0.0.0.0:8000
(APIServer pid=11) INFO:     Application startup complete.
"""
#: The same start dies while it loads, of a message that only the rule below knows.
FAILED = (
    "\n".join(HEALTHY.splitlines()[:3])
    + """
(EngineCore_DP0 pid=12) ERROR 12-01 00:00:07 [core.py:9] Traceback (most recent call last):
(EngineCore_DP0 pid=12) ERROR 12-01 00:00:07 [core.py:9]   File "/x/vllm/v1/worker/gpu_worker.py", line 2, in load_model
(EngineCore_DP0 pid=12) ERROR 12-01 00:00:07 [core.py:9] RuntimeError: the frobnicator has only 3 of 4 gears
"""
)
RULE = """\
schema = 1
id = "model.frobnicator"
cause = "model.bad-config"
status = "test"
references = ["https://example.org/frobnicator"]

[[signal]]
regex = 'the frobnicator has only (?P<have>\\d+) of \\d+ gears'
gives = { "kv.fit_len" = "have" }

[[fix]]
id = "shorter"
safety = "safe"
changes = { flags = { "--max-model-len" = "{kv.fit_len}" } }

[text.en]
title = "The frobnicator has {kv.fit_len} gears"
cause = "It lost one."
fix.shorter = "Shift down."
[text.zh]
title = "变速器只有 {kv.fit_len} 个齿轮"
cause = "丢了一个。"
fix.shorter = "降一档。"

[[example]]
match = true
log = 'RuntimeError: the frobnicator has only 3 of 4 gears'
[[example]]
match = false
why = "all gears are there"
log = 'the frobnicator has 4 gears'
"""


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Cli:
    """Calls vdoctor in this process. The descriptors 0, 1 and 2 stay those of the test."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *argv: str | Path, stdin: bytes = b"") -> Answer:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self._capsys.readouterr()
        status = _run([str(word) for word in argv])
        out, err = self._capsys.readouterr()
        assert "Traceback (most recent call last)" not in err
        return Answer(status, out, err)


def _rules(folders: Sequence[Path] = (), **options: bool) -> RuleBase:
    return load_rules(folders, **options) if folders or options else _shipped()


_shipped = functools.cache(load_rules)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    for name in ("NO_COLOR", "COLUMNS", "LC_ALL", "LC_MESSAGES", "VDOCTOR_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    # Read once for all tests of this process; processes of their own read them each time.
    for command in ("analyze", "bundle", "explain", "rules"):
        monkeypatch.setattr(f"vdoctor.commands.{command}.load_rules", _rules)
    monkeypatch.setattr("vdoctor.commands.watch.read_rules", _rules)
    return Cli(capsys, monkeypatch)


Vdoctor = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def vdoctor(mark: Mark) -> Vdoctor:
    """Calls vdoctor as a process of its own."""

    def call(*argv: str | Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
        program = IMPATIENT if "--stall-after" in argv else VDOCTOR
        done = run([*program, *(str(word) for word in argv)], env=mark.env | env, stdin=stdin)
        assert b"Traceback (most recent call last)" not in done.stderr
        return done

    return call


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    path = tmp_path / "healthy.log"
    path.write_text(HEALTHY)
    return path


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    path = tmp_path / "failed.log"
    path.write_text(FAILED)
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A folder with one more rule."""
    path = tmp_path / "rules" / "model" / "frobnicator.toml"
    path.parent.mkdir(parents=True)
    path.write_text(RULE)
    return path.parent.parent
