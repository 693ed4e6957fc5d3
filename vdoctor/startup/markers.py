"""The lines that tell which step a process is in: one table for V0, V1 and Model Runner V2.

Wordings and their version ranges were read in the sources of vLLM 0.5.5 to 0.33.0. A marker matches
the stable middle of a message, because numbers, units and tails changed between releases.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from vdoctor.intake.patterns import PatternSet

#: Which kind of thing a marker does besides moving a process to its step.
Role = Literal["step", "banner", "kv_sized", "captured", "engine_ready", "ready", "serving", "shutdown"]


@dataclass(frozen=True, slots=True)
class Marker:
    """After a line that matches `pattern` the process is in `step`.

    `took` names the group with the seconds that the step just ended took by vLLM's own clock;
    `ended` is that step. `role` marks the lines on which the whole server turns.
    """

    pattern: str
    step: str
    role: Role = "step"
    ended: str | None = None


def _mark(pattern: str, step: str, role: Role = "step", ended: str | None = None) -> Marker:
    return Marker(pattern, step, role, ended)


# Order matters only between markers that could match the same line: the first one wins.
MARKERS: tuple[Marker, ...] = (
    # --- launch: the API server reads its arguments (0.16+ prints a banner as well)
    _mark(r"vLLM API server version \S+", "launch.config", "banner"),
    _mark(r"▄▄ ▄█ █     █     █ ▀▄▀ █  version \S+", "launch.config", "banner"),
    _mark(r"^(?:non-default )?args: (?:Namespace\(|\{)", "launch.config"),
    _mark(r"Started engine process with PID \d+", "launch.engine_start"),
    _mark(r"Initializing an? (?:V[01] )?LLM engine \(v\S+\) with config", "launch.engine_start"),
    # --- workers find each other
    _mark(r"world_size=\d+ rank=\d+ local_rank=\d+ distributed_init_method=", "launch.distributed_init"),
    _mark(r"vLLM is using nccl==", "launch.distributed_init"),
    _mark(r"(?:generating|reading) GPU P2P access cache", "launch.distributed_init"),
    _mark(r"rank \d+ in world size \d+ is assigned as DP rank", "launch.distributed_init"),
    _mark(r"Waiting for creating a placement group of specs", "launch.distributed_init"),
    # --- weights
    _mark(r"Starting to load model ", "weight_load.init"),
    _mark(r"Loading model from scratch\.\.\.|Loading weights inplace\.\.\.", "weight_load.init"),
    _mark(r"Initializing model took [\d.]+ seconds", "weight_load.read", ended="weight_load.init"),
    _mark(
        r"Time spent downloading weights for .{0,300}: (?P<took>[\d.]+) seconds",
        "weight_load.read",
        ended="weight_load.download",
    ),
    _mark(r"Filesystem type for checkpoints:", "weight_load.read"),
    _mark(r"Using model weights format ", "weight_load.read"),
    _mark(r"Prefetching checkpoint files", "weight_load.read"),
    _mark(r"Loading weights with BitsAndBytes", "weight_load.read"),
    _mark(r"Loading weights took (?P<took>[\d.]+) seconds", "weight_load.process", ended="weight_load.read"),
    _mark(r"Loading drafter model\.\.\.", "weight_load.process"),
    # V0 to 0.7.3 says "Loading model weights took 1.2 GB", V1 "Model loading took 1.2 GiB (memory) and 3.4 seconds"
    _mark(r"Loading model weights took (?:in total )?[\d.]+ Gi?B", "kv_init.profile", ended="weight_load.process"),
    _mark(r"Model loading took [\d.]+ Gi?B", "kv_init.profile", ended="weight_load.process"),
    # --- torch.compile, inside the profile run
    _mark(r"Using cache directory: .{0,400} for vLLM's torch\.compile", "kv_init.compile"),
    _mark(r"vLLM's torch\.compile cache is disabled", "kv_init.compile"),
    _mark(r"Starting torch\.compile$", "kv_init.compile"),
    _mark(r"Dynamo bytecode transform time:", "kv_init.compile"),
    _mark(r"Compiling a graph for ", "kv_init.compile"),
    _mark(r"Cache the graph (?:of|for) ", "kv_init.compile"),
    _mark(r"Directly load (?:the compiled graph|AOT compilation)", "kv_init.compile"),
    _mark(r"Warming up model for the compilation\.\.\.", "kv_init.compile"),
    _mark(r"torch\.compile t(?:akes|ook) [\d.]+ s in total", "kv_init.profile", ended="kv_init.compile"),
    _mark(r"saved AOT compiled function to", "kv_init.profile", ended="kv_init.compile"),
    _mark(r"Initial profiling/warmup run took (?P<took>[\d.]+) s", "kv_init.profile", ended="kv_init.profile"),
    # The CPU worker warms up in one go, after the cache is sized (to 0.11) or before (later).
    _mark(r"Warming up done\.", "kv_init.allocate", ended="kv_init.compile"),
    # --- memory profiling and KV cache
    _mark(r"Encoder cache will be initialized with a budget of", "kv_init.profile"),
    _mark(r"Profiling CUDA graph memory:", "kv_init.profile"),
    _mark(r"Memory profiling takes [\d.]+ seconds", "kv_init.allocate", ended="kv_init.profile"),
    _mark(r"Memory profiling results: ", "kv_init.allocate", ended="kv_init.profile"),
    _mark(r"Available KV cache memory: -?[\d.]+ Gi?B", "kv_init.allocate", "kv_sized", ended="kv_init.profile"),
    _mark(r"Applying persisted startup plan", "kv_init.allocate"),
    _mark(r"as specified by kv_cache_memory_bytes config and skipped memory profiling", "kv_init.allocate", "kv_sized"),
    _mark(r"Explicitly set \([\d.]+/[\d.]+\) GiB for KV cache", "kv_init.allocate", "kv_sized"),
    _mark(r"(?:GPU|CPU|XPU|TPU|HPU) KV cache size: [\d,]+ tokens", "kv_init.allocate", "kv_sized"),
    _mark(r"# \w+ blocks: \d+", "kv_init.allocate", "kv_sized"),
    # --- kernel warm-up and CUDA graphs
    _mark(r"Warming up [\w ]{1,80} (?:attention|kernels|compile_units)", "graph_capture.warmup"),
    _mark(r"FlashInfer (?:managed )?autotune (?:with \d|cache)", "graph_capture.warmup"),
    _mark(r"Compile and warming up model for size \d+", "graph_capture.warmup"),
    _mark(r"JIT kernel warmup starting", "graph_capture.warmup"),
    _mark(r"Capturing (?:the model for CUDA graphs|cudagraphs for decoding)", "graph_capture.capture"),
    _mark(r"Capturing CUDA graph", "graph_capture.capture"),
    _mark(
        r"Graph capturing finished in (?P<took>\d+) secs",
        "graph_capture.sampler",
        "captured",
        ended="graph_capture.capture",
    ),
    # --- ready
    _mark(r"init engine \(profile, create kv cache, warmup model\) took [\d.]+ s", "runtime.startup", "engine_ready"),
    _mark(r"Starting vLLM (?:API )?server", "runtime.startup", "engine_ready"),
    _mark(r"Available routes are:", "runtime.startup", "engine_ready"),
    _mark(r"^Uvicorn running on ", "runtime.ready", "ready"),
    _mark(r"^Application startup complete\.", "runtime.ready", "ready"),
    _mark(r"Avg prompt throughput: [\d.]+ tokens/s", "runtime.serving", "serving"),
    _mark(r'^\S+:\d+ - "(?:GET|POST|HEAD) /\S* HTTP/1\.[01]" \d+', "runtime.serving", "serving"),
    _mark(r"^Received request \S+:|^Added request ", "runtime.serving", "serving"),
    # --- an orderly end
    _mark(r"^Shutting down$|^Application shutdown complete\.|^Finished server process", "runtime.serving", "shutdown"),
    _mark(r"\[shutdown\] API server: shutdown triggered", "runtime.serving", "shutdown"),
    _mark(r"Shutting down FastAPI HTTP server", "runtime.serving", "shutdown"),
)

#: Progress bars say the step as well; their description is matched.
BARS: tuple[Marker, ...] = (
    _mark(r"Loading \w+ checkpoint shards|Loading safetensors using|Multi-thread loading", "weight_load.read"),
    _mark(r"Fetching \d+ files|\.safetensors$|\.bin$|^Downloading", "weight_load.download"),
    _mark(r"Capturing CUDA graph", "graph_capture.capture"),
    _mark(r"DeepGemm|DeepGEMM|JIT kernel warmup|CuTeDSL", "graph_capture.warmup"),
)

#: A function in the stack tells the step better than the last line printed. The first row of which
#: any name is in the stack decides: profiling captures graphs too, so it stands above capture.
FRAMES: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(names.split()), step)
    for names, step in (
        (
            "create_engine_config create_model_config parse_args make_arg_parser validate_parsed_serve_args",
            "launch.config",
        ),
        (
            "profile_run determine_available_memory determine_num_available_blocks profile_cudagraph_memory",
            "kv_init.profile",
        ),
        ("_dummy_sampler_run _dummy_pooler_run", "graph_capture.sampler"),
        ("capture_model _capture_cudagraphs capture_graph capture_graphs capture_end", "graph_capture.capture"),
        ("kernel_warmup warmup_kernels", "graph_capture.warmup"),
        # Inductor under compile_or_warm_up_model: the CPU worker compiles there, the GPU worker in the profile run.
        ("compile_fx compile_fx_inner call_user_compiler _call_user_compiler codegen_and_compile", "kv_init.compile"),
        ("compile_or_warm_up_model warm_up_model", "graph_capture.warmup"),
        (
            "get_kv_cache_configs get_kv_cache_config initialize_kv_cache _allocate_kv_cache initialize_cache "
            "_check_enough_kv_cache_memory check_enough_kv_cache_memory",
            "kv_init.allocate",
        ),
        ("load_model load_weights _load_model", "weight_load.read"),
        (
            "init_device init_worker_distributed_environment init_distributed_environment initialize_model_parallel",
            "launch.distributed_init",
        ),
        ("execute_model run_busy_loop step_with_batch_queue run_engine_loop engine_step", "runtime.serving"),
    )
)


def step_of_stack(frames: tuple[str, ...]) -> str | None:
    """The step in which a traceback happened; None when no known function is in it."""
    names = set(frames)
    for known, step in FRAMES:
        if names & known:
            return step
    return None


_METHOD = re.compile(r"(?:processing|executing|Invocation of) (?:method )?(\w+)")


def step_of_method(text: str) -> str | None:
    """The step of a remote call that a message names (`Exception in worker ... while processing method load_model`)."""
    found = _METHOD.search(text) if "method" in text else None
    return step_of_stack((found[1],)) if found else None


@functools.lru_cache(maxsize=1)
def _line_patterns() -> PatternSet:
    return PatternSet([marker.pattern for marker in MARKERS])


@functools.lru_cache(maxsize=1)
def _bar_patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(marker.pattern) for marker in BARS)


def find(text: str) -> tuple[Marker, re.Match[str]] | None:
    """The marker of a message, or None."""
    for index, found in _line_patterns().hits(text):
        return MARKERS[index], found
    return None


def find_bar(description: str) -> tuple[Marker, re.Match[str]] | None:
    """The marker of a progress bar, or None."""
    for marker, pattern in zip(BARS, _bar_patterns(), strict=True):
        if found := pattern.search(description):
            return marker, found
    return None
