"""Facts from the start command."""

from __future__ import annotations

import math
import re

from vdoctor.facts.snippets import image_release
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import given, model_of
from vdoctor.model import Fact, FactValue, Launch

#: option -> (fact, type)
_OPTIONS: dict[str, tuple[str, type]] = {
    "--tensor-parallel-size": ("tp.size", int),
    "--pipeline-parallel-size": ("pp.size", int),
    "--max-model-len": ("model.max_len", int),
    "--max-num-seqs": ("seqs.max", int),
    "--gpu-memory-utilization": ("mem.utilization", float),
    "--quantization": ("model.quantization", str),
    "--dtype": ("model.dtype", str),
    "--port": ("port", int),
}
# vLLM takes "16k" for 16000 and "16K" for 16384.
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])$")


def launch_facts(launch: Launch, options: OptionTable, source: str = "argv") -> dict[str, Fact]:
    """What the command says. Values that do not parse are left out: vLLM refuses them by itself."""
    facts: dict[str, Fact] = {}
    layer = "docker" if launch.container else "bare"
    facts["launch.layer"] = Fact(layer, source)
    if launch.container:
        words = " ".join(launch.container)
        facts["launch.ipc_host"] = Fact("--ipc=host" in words or "--ipc host" in words, source)
        if release := image_release(launch.container[-1]):
            facts["vllm.version"] = Fact(release, source)
    if (model := model_of(launch, options)) is not None:
        facts["model.name"] = Fact(model, source)
    for one in given(launch, options):
        if one.key:
            continue
        if one.name == "--enforce-eager":
            facts["launch.eager"] = Fact(one.on, source)
        if one.name in _OPTIONS:
            fact, kind = _OPTIONS[one.name]
            converted = _convert(one.value or "", kind)
            if converted is not None:
                facts[fact] = Fact(converted, source)
    return facts


def _convert(text: str, kind: type) -> FactValue | None:
    if not text:
        return None
    try:
        value = _human(text) if kind is int else kind(text)
    except ValueError:
        return None
    # -1 and "auto" leave the value to vLLM.
    unset = isinstance(value, int | float) and not 0 < value < math.inf
    return value if isinstance(value, str | int | float) and not unset else None


def _human(text: str) -> int:
    found = _HUMAN.match(text)
    if found is None:
        return int(text)
    base = 1000 if found[2].islower() else 1024
    return int(float(found[1]) * base ** ("kmgt".index(found[2].lower()) + 1))
