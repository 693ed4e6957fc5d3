"""Facts that a log states: versions, sizes, arguments. Each keeps the line it was read from."""

from __future__ import annotations

import functools
import math
from typing import Any

from vdoctor.facts.arguments import parse_arguments
from vdoctor.facts.prompt import PromptReader
from vdoctor.facts.spots import Spot, SpotSet
from vdoctor.model import Event, Fact, FactValue


def _int(text: str) -> int:
    return int(text.replace(",", ""))


def _generation(text: str) -> str:
    """`an`, `a V0`, `a V1`: before 0.7.3 there was only V0, and the line did not say so."""
    return "v1" if "V1" in text else "v0"


def _read_from_cache(text: str) -> str:
    return "hit"


def _compiled(text: str) -> str:
    return "miss"


def _compiled_again(text: str) -> str:
    return "stale"


def _not_cached(text: str) -> str:
    return "off"


# Anchored: the line is long, and a search from every place in it would be slow.
_CONFIG = r"^.{0,120}?LLM engine \(v[^)]{1,80}\) with config: "
_NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?"

_SPOTS: tuple[Spot, ...] = (
    Spot(r"vLLM API server version (?P<a>\d+\.\d[\w.+\-]*)", {"a": ("vllm.version", str)}),
    Spot(r"█ ▀▄▀ █  version (?P<a>\d+\.\d[\w.+\-]*)", {"a": ("vllm.version", str)}),
    Spot(r"Initializing an? (?:V[01] )?LLM engine \(v(?P<a>\d+\.\d[\w.+\-]*)\)", {"a": ("vllm.version", str)}),
    Spot(r"Initializing (?P<a>an?(?: V[01])?) LLM engine \(v", {"a": ("vllm.generation", _generation)}),
    Spot(_CONFIG + r"model='(?P<a>[^']+)'", {"a": ("model.name", str)}),
    Spot(_CONFIG + r".*?\btensor_parallel_size=(?P<a>\d+)", {"a": ("tp.size", int)}),
    Spot(_CONFIG + r".*?[ ,]quantization=(?P<a>[a-z]\w+)", {"a": ("model.quantization", str)}),
    Spot(r"^.{0,120}?LLM engine .*device_config=(?P<a>[a-z]+)", {"a": ("launch.device", str)}),
    Spot(r"Starting to load model (?P<a>\S+?)\.\.\.", {"a": ("model.name", str)}),
    Spot(
        r"Filesystem type for checkpoints: (?P<a>[\w.\-]+)\. Checkpoint size: (?P<b>[\d.]+) GiB\. "
        r"Available RAM: (?P<c>[\d.]+) GiB",
        {"a": ("weights.filesystem", str), "b": ("weights.checkpoint_gib", float), "c": ("host.free_gib", float)},
    ),
    Spot(r"Resolved architecture: (?P<a>\w+)", {"a": ("model.architecture", str)}),
    Spot(r"(?:Using max model len) (?P<a>\d+)", {"a": ("model.max_len", int)}),
    Spot(rf"(?:Loading model weights|Model loading) took (?P<a>{_NUMBER}) Gi?B", {"a": ("mem.weights_gib", float)}),
    Spot(rf"model weights take (?P<a>{_NUMBER})GiB", {"a": ("mem.weights_gib", float)}),
    Spot(rf"PyTorch activation peak memory takes (?P<a>{_NUMBER})GiB", {"a": ("mem.activation_gib", float)}),
    # 0.6.6 to 0.10.2 (V0); 0.9.2 on (V1): the profiler's result at DEBUG, the summary behind the capture
    Spot(rf"non_torch_memory takes (?P<a>{_NUMBER})GiB", {"a": ("mem.non_torch_gib", float)}),
    Spot(rf"non-torch forward increase memory: (?P<a>{_NUMBER})GiB", {"a": ("mem.non_torch_gib", float)}),
    Spot(rf"peak memory increase: (?P<a>{_NUMBER})GiB", {"a": ("mem.activation_gib", float)}),
    Spot(
        rf"(?P<a>{_NUMBER}) GiB for peak activation, (?P<b>{_NUMBER}) GiB for non-torch memory",
        {"a": ("mem.activation_gib", float), "b": ("mem.non_torch_gib", float)},
    ),
    Spot(rf"(?P<a>{_NUMBER}) GiB for peak activation, and", {"a": ("mem.activation_gib", float)}),
    Spot(rf"Estimated CUDA graph memory: (?P<a>{_NUMBER}) GiB total", {"a": ("mem.graph_estimated_gib", float)}),
    Spot(rf"CUDA graph pool memory: (?P<a>{_NUMBER}) GiB \(actual\)", {"a": ("mem.graph_gib", float)}),
    Spot(rf"reserved (?P<a>{_NUMBER}) ?GiB memory for KV Cache as specified", {"a": ("mem.kv_available_gib", float)}),
    Spot(rf"reserved for KV Cache is (?P<a>{_NUMBER})GiB", {"a": ("mem.kv_available_gib", float)}),
    Spot(
        rf"total_gpu_memory \((?P<a>{_NUMBER})GiB\) x gpu_memory_utilization \((?P<b>{_NUMBER})\) = (?P<c>{_NUMBER})GiB",
        {"a": ("gpu.total_gib", float), "b": ("mem.utilization", float), "c": ("mem.requested_gib", float)},
    ),
    Spot(rf"Available KV cache memory: (?P<a>{_NUMBER}) Gi?B", {"a": ("mem.kv_available_gib", float)}),
    Spot(r"(?:GPU|CPU|XPU|TPU|HPU) KV cache size: (?P<a>[\d,]+) tokens", {"a": ("kv.tokens", _int)}),
    Spot(rf"Graph capturing finished in \d+ secs, took (?P<a>{_NUMBER}) GiB", {"a": ("mem.graph_gib", float)}),
    Spot(
        rf"Free memory on device[^(]{{0,40}}\((?P<a>{_NUMBER})/(?P<b>{_NUMBER}) GiB\) on startup",
        {"a": ("gpu.free_gib", float), "b": ("gpu.total_gib", float)},
    ),
    Spot(
        rf"[Dd]esired GPU memory utilization (?:is )?\((?P<a>{_NUMBER}), (?P<b>{_NUMBER}) GiB\)",
        {"a": ("mem.utilization", float), "b": ("mem.requested_gib", float)},
    ),
    Spot(rf"has a total capacity of (?P<a>{_NUMBER}) GiB", {"a": ("gpu.total_gib", float)}),
    # The first of them tells: a cache that was read may still be written to afterwards.
    Spot(r"(?P<a>Directly load) (?:the compiled graph|AOT compilation)", {"a": ("compile.cache", _read_from_cache)}),
    Spot(r"(?P<a>Compiling a graph|Cache the graph|saved AOT compiled)", {"a": ("compile.cache", _compiled)}),
    Spot(r"(?P<a>Compiling model again) due to a load failure", {"a": ("compile.cache", _compiled_again)}),
    Spot(r"(?P<a>torch\.compile cache is disabled)", {"a": ("compile.cache", _not_cached)}),
    Spot(r"Time spent downloading weights for .{1,200}?: (?P<a>[\d.]+) s", {"a": ("weights.download_s", float)}),
    Spot(r"Loading weights took (?P<a>[\d.]+) s", {"a": ("weights.read_s", float)}),
    Spot(r"with (?P<a>\d+) dummy requests", {"a": ("seqs.warmup", int)}),
    Spot(r"as (?P<a>WSL) is detected", {"a": ("os.wsl", bool)}),
)

#: Model Runner V2 captures once while it profiles, and says so in the same words: the last figure is the true one.
_LAST = frozenset(("mem.graph_gib",))

#: What holds for every start in a log: it belongs to the machine or to the installation.
_LASTING = ("vllm.", "gpu.total_gib", "os.")

#: printed argument -> fact
_ARGUMENTS: dict[str, str] = {
    "model": "model.name",
    "model_tag": "model.name",
    "tensor_parallel_size": "tp.size",
    "pipeline_parallel_size": "pp.size",
    "max_model_len": "model.max_len",
    "max_num_seqs": "seqs.max",
    "gpu_memory_utilization": "mem.utilization",
    "quantization": "model.quantization",
    "dtype": "model.dtype",
    "enforce_eager": "launch.eager",
    "port": "port",
}


def patterns() -> list[str]:
    """All patterns that state a fact of a record."""
    return [spot.pattern for spot in _SPOTS]


@functools.cache
def _spots() -> SpotSet:
    return SpotSet(_SPOTS)


class LogFacts:
    """Collects facts from events; the first value of a fact stays, later ones do not replace it."""

    def __init__(self) -> None:
        self._spots = _spots()
        self.facts: dict[str, Fact] = {}
        self.arguments: dict[str, Any] | None = None
        self._prompt = PromptReader()
        self._outdated: set[str] = set()

    @property
    def command(self) -> str | None:
        """The start command as typed in the log or ticket, continuation lines joined."""
        return self._prompt.command

    def feed(self, event: Event) -> None:
        """Look for facts in the next event."""
        if event.bar is not None:
            return
        text = event.text
        if event.kind != "record":
            # In a ticket the command may follow right behind a traceback.
            self._prompt.feed(event.text)
        elif "args: " in text and self.arguments is None:
            self._read_arguments(text, event.line)
        for name, value in self._spots.read(text):
            if name in _LAST:
                self._outdated.add(name)
            self._state(name, value, event.line)

    def restart(self) -> None:
        """The server starts again: what it states now replaces what it stated before."""
        self._outdated = set(self.facts)
        self.arguments = None

    @property
    def current(self) -> dict[str, Fact]:
        """What the last start stated. The start before may have been another server: its sizes are not this one's."""
        gone = {name for name in self._outdated if not name.startswith(_LASTING)}
        return {name: fact for name, fact in self.facts.items() if name not in gone}

    def _state(self, name: str, value: FactValue, line: int) -> None:
        if name not in self.facts or name in self._outdated:
            self._outdated.discard(name)
            self.facts[name] = Fact(value, f"log:{line}")

    def _read_arguments(self, text: str, line: int) -> None:
        arguments = parse_arguments(text)
        if arguments is None:
            return
        self.arguments = arguments if text.startswith("non-default") else None
        for name, fact in _ARGUMENTS.items():
            value = arguments.get(name)
            if isinstance(value, float) and not math.isfinite(value):
                continue
            if isinstance(value, str | int | float) and value != "":
                self._state(fact, value, line)
