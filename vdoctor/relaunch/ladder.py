"""Steps for failures that no rule explains, or whose fixes did not help. Pure.

Each rung says which failures it may cure, by finding or by phase; what keeps most comes first, no graphs and no
compilation at all (--enforce-eager) come last. Rungs whose options the release lacks are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from packaging.version import Version

from vdoctor.launch.options import OptionTable, parse_version
from vdoctor.model import Change, Safety, phase_of
from vdoctor.relaunch.fresh import FRESH
from vdoctor.relaunch.steps import Outcome, Step, hypotheses

#: Failures that no change of options cures: files, rights, hardware, spelling (the rules have the fixes there).
_HOPELESS = ("model.", "args.", "api.", "proc.", "env.", "oom.disk-full", "oom.host", "oom.weights", "oom.gpu-busy")
_BUT = ("env.host-compiler-missing", "env.triton-gcc-failed", "env.nvcc-missing", "env.attention")


class _Rung(NamedTuple):
    id: str
    change: Change
    safety: Safety
    serves: Callable[[Outcome], bool]
    en: str
    zh: str
    since: str = "0"
    until: str = "99"


def _id(*beginnings: str) -> Callable[[Outcome], bool]:
    return lambda outcome: bool(outcome.finding) and str(outcome.finding).startswith(beginnings)


def _phase(*phases: str) -> Callable[[Outcome], bool]:
    """The failure is one that no rule knows, or a stall, in one of the phases."""

    def serves(outcome: Outcome) -> bool:
        unexplained = outcome.finding is None or outcome.finding.startswith("unknown") or outcome.verdict == "timed out"
        return unexplained and outcome.step is not None and phase_of(outcome.step) in phases

    return serves


def _any(*tests: Callable[[Outcome], bool]) -> Callable[[Outcome], bool]:
    return lambda outcome: any(test(outcome) for test in tests)


def _flags(**flags: str | bool) -> Change:
    return Change(flags={"--" + name.replace("_", "-"): value for name, value in flags.items()})


_GRAPH = _any(_id("oom.graph-capture", "graph."), _phase("graph_capture"))
_GRAPH_OOM = _id("oom.graph-capture", "oom.kv-none", "oom.unplaced")
_COMPILE = _any(_id("compile.", "env.host-compiler", "env.triton-gcc"), _phase("kv_init"))
_TALK = _any(_id("dist.", "graph.capture"), _phase("launch"))
_KERNEL = _any(_id("kernel.", "env.nvcc-missing", "env.attention"), _phase("weight_load", "kv_init", "graph_capture"))
_ACTIVATION = _id("oom.profile", "oom.sampler-warmup", "oom.warmup", "oom.kv-none", "oom.runtime", "oom.unplaced")
_CACHE = _id("oom.kv-none", "oom.kv-too-small")
_TIGHT = _id("oom.graph-capture", "oom.sampler-warmup", "oom.warmup", "oom.runtime", "oom.profile", "oom.unplaced")


def _ranks(outcome: Outcome) -> bool:
    """Several GPUs that talk to each other."""
    device = outcome.facts.get("launch.device")
    size = outcome.facts.get("tp.size")
    return _TALK(outcome) and not (device and device.value == "cpu") and not (size and size.value == 1)


#: In the order in which they are tried.
_RUNGS: tuple[_Rung, ...] = (
    _Rung(
        "cache-aside",
        Change(env={"VLLM_CACHE_ROOT": FRESH}),
        "safe",
        # A compiler that is not there is missed with any cache.
        _any(_id("compile."), _phase("kv_init")),
        "The first start compiles anew; the old cache stays where it is.",
        "首次启动会重新编译；旧缓存原样保留。",
    ),
    *(
        _Rung(
            f"graphs-to-{size}",
            _flags(max_cudagraph_capture_size=str(size)),
            "lossy",
            _any(_GRAPH, _GRAPH_OOM),
            f"Batches of more than {size} sequences run without a graph and decode more slowly.",
            f"超过 {size} 条序列的批次不走 graph，解码变慢。",
        )
        for size in (64, 16, 4)
    ),
    *(
        _Rung(
            f"graphs-to-{size}",
            _flags(cuda_graph_sizes=str(size)),
            "lossy",
            _any(_GRAPH, _GRAPH_OOM),
            f"Batches of more than {size} sequences run without a graph and decode more slowly.",
            f"超过 {size} 条序列的批次不走 graph，解码变慢。",
            until="0.11",
        )
        for size in (64, 16, 4)
    ),
    _Rung(
        "piecewise",
        _flags(compilation_config='{"cudagraph_mode": "PIECEWISE"}'),
        "lossy",
        _GRAPH,
        "Attention runs outside the graphs: small batches decode more slowly.",
        "attention 不在 graph 内执行：小批次解码变慢。",
        since="0.11",
    ),
    _Rung(
        "fewer-batched-tokens",
        _flags(max_num_batched_tokens="1024"),
        "lossy",
        _ACTIVATION,
        "Long prompts take more steps, the first token comes later.",
        "长提示词要分更多步处理，首 token 延迟变长。",
        since="0.8.5",
    ),
    *(
        _Rung(
            f"fewer-seqs-{count}",
            _flags(max_num_seqs=str(count)),
            "lossy",
            _any(_ACTIVATION, _GRAPH_OOM),
            f"At most {count} requests run at once, others wait.",
            f"最多同时处理 {count} 个请求，其余排队。",
        )
        for count in (64, 16)
    ),
    _Rung(
        "no-custom-all-reduce",
        _flags(disable_custom_all_reduce=True),
        "lossy",
        _ranks,
        "NCCL does the small all-reduces, too: decoding becomes a little slower.",
        "小的 all-reduce 也由 NCCL 完成：解码略慢。",
    ),
    _Rung(
        "no-p2p",
        Change(env={"NCCL_P2P_DISABLE": "1"}),
        "lossy",
        _ranks,
        "The GPUs talk through host memory: slower with tensor parallelism.",
        "GPU 之间经主机内存通信：张量并行时变慢。",
    ),
    *(
        _Rung(
            f"attention-{backend.lower().replace('_', '-')}",
            change,
            "lossy",
            _KERNEL,
            "Another attention kernel: speed may differ.",
            "换用另一种 attention kernel：速度可能不同。",
            since,
            until,
        )
        # Until 0.10 the Triton one had another name.
        for backend, named in (("FLASH_ATTN", "0.10"), ("TRITON_ATTN", "0.11"))
        for change, since, until in (
            (_flags(attention_backend=backend), "0.13", "99"),
            (Change(env={"VLLM_ATTENTION_BACKEND": backend}), named, "0.13"),
        )
    ),
    _Rung(
        "v1-runner",
        Change(env={"VLLM_USE_V2_MODEL_RUNNER": "0"}),
        "lossy",
        _any(_KERNEL, _GRAPH),
        "The older model runner: speed may differ.",
        "使用旧的 model runner：速度可能不同。",
        since="0.23",
    ),
    _Rung(
        "eager",
        _flags(enforce_eager=True),
        "lossy",
        _any(_GRAPH, _COMPILE, _KERNEL, _GRAPH_OOM),
        "No CUDA graphs and no torch.compile: decoding becomes clearly slower, small models and batches the most.",
        "没有 CUDA graph 和 torch.compile：解码明显变慢，小模型、小批次尤其明显。",
    ),
)


def rungs(outcome: Outcome, options: OptionTable, version: str | None) -> Iterator[Step]:
    """The steps for a failure, in order."""
    finding = outcome.finding or ""
    if finding.startswith(_HOPELESS) and not finding.startswith(_BUT):
        return
    if _TIGHT(outcome):
        yield from _lower_utilization(outcome)
    if _CACHE(outcome):
        yield from _higher_utilization(outcome)
        yield from _shorter(outcome)
    for rung in _RUNGS:
        if not rung.serves(outcome) or not _within(rung, version):
            continue
        if any(options.exists(flag, version) is not True for flag in rung.change.flags):
            # Whether an unknown release has it is not known: what every release has is tried alone.
            if version is not None or any(options.exists(flag, version) is False for flag in rung.change.flags):
                continue
        yield Step(rung.id, rung.change, rung.safety, {}, {"en": rung.en, "zh": rung.zh})


def _lower_utilization(outcome: Outcome) -> Iterator[Step]:
    """Five and ten points less than the value in force: what is outside the budget gets room."""
    now = _number(outcome, "mem.utilization")
    if now is None:
        return
    for less in (0.05, 0.1):
        if now - less >= 0.3:
            yield Step(
                f"utilization-{now - less:.2f}",
                _flags(gpu_memory_utilization=f"{now - less:.2f}"),
                "lossy",
                {},
                {"en": "The KV cache shrinks: fewer requests at once.", "zh": "KV cache 变小，并发减少。"},
            )


def _higher_utilization(outcome: Outcome) -> Iterator[Step]:
    """The KV cache gets what is left of the budget: more budget, more cache. On the CPU another variable sizes it."""
    now, device = _number(outcome, "mem.utilization"), outcome.facts.get("launch.device")
    if now is None or (device is not None and device.value == "cpu"):
        return
    for value in (0.95, 0.97):
        if value > now + 0.005:
            yield Step(
                f"utilization-{value:.2f}",
                _flags(gpu_memory_utilization=f"{value:.2f}"),
                "lossy",
                {},
                {
                    "en": "Less GPU memory is left for what vLLM does not count: graphs, other processes.",
                    "zh": "留给 vLLM 未计入部分（graph、其他进程）的显存变少。",
                },
            )


def _shorter(outcome: Outcome) -> Iterator[Step]:
    """Halves of the length, where the log does not say how much fits."""
    length = _number(outcome, "model.max_len")
    told = any("--max-model-len" in step.change.flags for step in hypotheses(outcome))
    if length is None or told or outcome.finding != "oom.kv-too-small":
        return
    for part in (2, 4, 8, 16):
        if length // part >= 256:
            fits = str(int(length // part))
            yield Step(
                f"length-1/{part}",
                _flags(max_model_len=fits),
                "lossy",
                {},
                {
                    "en": f"Requests of more than {fits} tokens are refused.",
                    "zh": f"超过 {fits} 个 token 的请求会被拒绝。",
                },
            )


def _number(outcome: Outcome, name: str) -> float | None:
    fact = outcome.facts.get(name)
    return float(fact.value) if fact is not None and isinstance(fact.value, int | float) else None


def _within(rung: _Rung, version: str | None) -> bool:
    """Whether the release is one for which the rung is meant; of an unknown one, only timeless rungs are."""
    release = parse_version(version)
    if release is None:
        return (rung.since, rung.until) == ("0", "99")
    return Version(rung.since) <= release < Version(rung.until)
