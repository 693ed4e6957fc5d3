"""Facts from the start command."""

from __future__ import annotations

import math

from vdoctor.launch.options import OptionTable
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
    "--model": ("model.name", str),
}


def launch_facts(launch: Launch, options: OptionTable, source: str = "argv") -> dict[str, Fact]:
    """What the command says. Values that do not parse are left out: vLLM refuses them by itself."""
    facts: dict[str, Fact] = {}
    layer = "docker" if launch.container else "bare"
    facts["launch.layer"] = Fact(layer, source)
    if launch.container:
        words = " ".join(launch.container)
        facts["launch.ipc_host"] = Fact("--ipc=host" in words or "--ipc host" in words, source)
    args = list(launch.args)
    if args and not args[0].startswith("-"):
        facts["model.name"] = Fact(args[0], source)
    for at, word in enumerate(args):
        name, equal, value = word.partition("=")
        option = options.lookup(name, None) if name.startswith("-") else None
        if option is None:
            continue
        if option.name == "--enforce-eager":
            facts["launch.eager"] = Fact(True, source)
        if option.name in _OPTIONS:
            fact, kind = _OPTIONS[option.name]
            text = value if equal else args[at + 1] if at + 1 < len(args) else ""
            converted = _convert(text, kind)
            if converted is not None:
                facts[fact] = Fact(converted, source)
    return facts


def _convert(text: str, kind: type) -> FactValue | None:
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float) else None
