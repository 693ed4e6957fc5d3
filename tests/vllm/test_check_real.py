"""`vdoctor check` finds a fault before the start; the real vLLM then fails with the same one.

The faults that tests/vllm/test_real_vllm.py and tests/vllm/test_confirm.py start are checked there, before the same
start.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.vllm.test_real_vllm import SHORT, serve
from tests.vllm.watched import RealVllm, foreseen, free_port, watching

pytestmark = pytest.mark.vllm

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n"


class Fault(NamedTuple):
    """What is done to a copy of the model, and the finding both must give."""

    id: str
    break_it: Callable[[Path], object] = lambda folder: None
    options: tuple[str, ...] = SHORT
    deep: bool = False


def change(**fields: object) -> Callable[[Path], object]:
    """A change of config.json."""

    def apply(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return apply


def without(pattern: str) -> Callable[[Path], object]:
    """Files that are not there."""

    def apply(folder: Path) -> None:
        for path in list(folder.glob(pattern)):
            path.unlink()

    return apply


FAULTS = {
    "pointer": Fault("model.corrupt-weights", lambda folder: (folder / "model.safetensors").write_text(POINTER)),
    "empty": Fault("model.corrupt-weights", lambda folder: (folder / "model.safetensors").write_text("")),
    "no-weights": Fault("model.not-found", without("*.safetensors")),
    "missing-shard": Fault("model.corrupt-weights", without("model-00003-of-*"), deep=True),
    "bad-json": Fault(
        "model.bad-config", lambda folder: (folder / "config.json").write_text('{"model_type": "llama",}')
    ),
    "no-config": Fault("model.not-found", without("config.json")),
    "no-tokenizer": Fault("model.tokenizer", without("tokenizer*")),
    "architecture": Fault("model.arch-unsupported", change(architectures=["Hyper9ForCausalLM"])),
    "type": Fault("model.arch-unsupported", change(architectures=["Hyper9ForCausalLM"], model_type="hyper9")),
    "kv-too-small": Fault(
        "oom.kv-too-small", change(max_position_embeddings=1_000_000), ("--max-model-len", "500000", "--enforce-eager")
    ),
    "tool-parser": Fault(
        "api.template-or-parser", options=(*SHORT, "--enable-auto-tool-choice", "--tool-call-parser", "hermess")
    ),
    "choice": Fault("args.invalid-value", options=(*SHORT, "--dtype", "int3")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_check_foretells_the_failure(name: str, real: RealVllm, tmp_path: Path) -> None:
    fault = FAULTS[name]
    model = shutil.copytree(real.deep_model if fault.deep else real.model, tmp_path / "model")
    fault.break_it(model)
    argv = serve(real, str(model), free_port(), fault.options)
    assert foreseen(real, argv) == [fault.id]
    with watching(real, tmp_path, argv) as watch:
        watched = watch.finish()
    assert watched.status != 0, watched.log[-3000:]
    assert watched.first["id"] == fault.id, watched.log[-3000:]
