from __future__ import annotations

import pytest

from vdoctor.intake.bars import bars
from vdoctor.intake.reader import EventReader
from vdoctor.model import PHASES, STEPS, Line, phase_of
from vdoctor.startup.markers import BARS, FRAMES, MARKERS, find, find_bar, step_of_stack

#: Messages as vLLM words them, oldest first, by the step in which the process is after them.
SAMPLES = {
    "launch.config": [
        "vLLM API server version 0.5.5",
        "vLLM API server version 0.20.2",
        " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0",
        "args: Namespace(host=None, port=8000, model='facebook/opt-125m')",
        "non-default args: {'model_tag': 'facebook/opt-125m', 'port': 9101}",
    ],
    "launch.engine_start": [
        "Started engine process with PID 4711",
        "Initializing an LLM engine (v0.5.5) with config: model='m', speculative_config=None, tokenizer='m'",
        "Initializing an LLM engine (v0.6.6.post1) with config: model='m', speculative_config=None, use_cached_outputs=True,",
        "Initializing a V0 LLM engine (v0.8.5) with config: model='m', use_cached_outputs=True,",
        "Initializing a V1 LLM engine (v0.7.3) with config: model='m'",
        "Initializing a V1 LLM engine (v0.33.0rc1.dev5+g1234567) with config: model='m'",
    ],
    "launch.distributed_init": [
        "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://127.0.0.1:47773 backend=nccl",
        "vLLM is using nccl==2.20.5",
        "generating GPU P2P access cache in /root/.cache/vllm/gpu_p2p_access_cache_for_0,1.json",
        "reading GPU P2P access cache from /root/.cache/vllm/gpu_p2p_access_cache_for_0,1.json",
        "rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, TP rank 0",
        "rank 1 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 1, EP rank 1",
        "rank 1 in world size 2 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 1, ETP rank 0, EP rank N/A, EPLB rank N/A",
        "Waiting for creating a placement group of specs for 10 seconds. specs=[{'GPU': 1.0}]",
    ],
    "weight_load.init": [
        "Starting to load model facebook/opt-125m...",
        "Loading model from scratch...",
        "Model was already initialized. Loading weights inplace...",
    ],
    "weight_load.read": [
        "Initializing model took 0.126074 seconds",
        "Time spent downloading weights for facebook/opt-125m: 12.345678 seconds",
        "Filesystem type for checkpoints: EXT4. Checkpoint size: 0.01 GiB. Available RAM: 21.43 GiB.",
        "Using model weights format ['*.safetensors']",
        "Prefetching checkpoint files into page cache started (in background)",
        "Prefetching checkpoint files: 40% (2/5)",
        "Loading weights with BitsAndBytes quantization. May take a while ...",
    ],
    "weight_load.process": [
        "Loading weights took 0.04 seconds",
        "Loading weights took 1234.56 seconds",
        "Loading drafter model...",
    ],
    "kv_init.profile": [
        "Loading model weights took 0.2389 GB",
        "Loading model weights took 14.2487 GiB",
        "Model loading took 14.2487 GiB and 12.345678 seconds",
        "Model loading took 14.2487 GiB memory and 12.345678 seconds",
        "Model loading took 0.24 GiB and 1.234567 seconds",
        "torch.compile takes 22.27 s in total",
        "torch.compile took 22.27 s in total",
        "saved AOT compiled function to /root/.cache/vllm/torch_compile_cache/torch_aot_compile/adb5/rank_0_0/model",
        "[backbone] saved AOT compiled function to /cache/x",
        "Initial profiling/warmup run took 0.07 s",
        "[backbone] Initial profiling/warmup run took 3.21 s",
        "Encoder cache will be initialized with a budget of 16384 tokens, and profiled with 1 image items of the maximum feature size.",
        "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 (largest=256)",
    ],
    "kv_init.compile": [
        "Using cache directory: /root/.cache/vllm/torch_compile_cache/0a1b/rank_0_0 for vLLM's torch.compile",
        "[backbone] Using cache directory: /root/.cache/vllm/x for vLLM's torch.compile",
        "vLLM's torch.compile cache is disabled.",
        "Starting torch.compile",
        "[backbone] Starting torch.compile",
        "Dynamo bytecode transform time: 4.94 s",
        "[eagle_head] Dynamo bytecode transform time: 0.94 s",
        "Compiling a graph for general shapes",
        "Compiling a graph for general shape takes 17.33 s",
        "Compiling a graph for dynamic shape takes 17.33 s",
        "Compiling a graph for shape 8 takes 1.33 s",
        "Compiling a graph for compile range (1, 2048) takes 17.33 s",
        "Cache the graph of shape None for later use",
        "Cache the graph for dynamic shape for later use",
        "Cache the graph of compile range (1, 2048) for later use",
        "Directly load the compiled graph for shape None from the cache",
        "Directly load the compiled graph(s) for shape None from the cache, took 3.456 s",
        "Directly load the compiled graph(s) for dynamic shape from the cache, took 3.456 s",
        "[backbone] Directly load the compiled graph(s) for compile range (1, 2048) from the cache, took 3.456 s",
        "Directly load AOT compilation from path /root/.cache/vllm/x/model",
        "Warming up model for the compilation...",
    ],
    "kv_init.allocate": [
        "Warming up done.",
        "Memory profiling takes 3.44 seconds",
        "Memory profiling results: duration=3.44 seconds, total_gpu_memory=79.25GiB",
        "Available KV cache memory: 51.19 GiB",
        "Available KV cache memory: -3.5 GiB",
        "Applying persisted startup plan (fingerprint 0a1b): kv_cache_memory_bytes=1073741824 (1.00 GiB), recorded free-memory baseline 70.00 GiB",
        "Initial free memory 78.6 GiB, reserved 10.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling.",
        "Explicitly set (1.0/14.59) GiB for KV cache on node 0.",
        "GPU KV cache size: 447,280 tokens",
        "GPU KV cache size: 447,280 tokens, Maximum concurrency for 40,960 tokens per request: 10.92x",
        "CPU KV cache size: 262,144 tokens, Maximum concurrency for 512 tokens per request: 512.00x",
        "XPU KV cache size: 262,144 tokens, Maximum concurrency for 512 tokens per request: 512.00x",
        "# GPU blocks: 27955, # CPU blocks: 2048",
        "# CPU blocks: 2048",
        "# GPU blocks: 27955",
        "# cuda blocks: 27955, # CPU blocks: 2048",
    ],
    "graph_capture.warmup": [
        "Warming up FlashInfer attention.",
        "Running FlashInfer autotune with 8192 tokens.",
        "Running FlashInfer autotune with 8192 tokens and token buckets [1, 2].",
        "Using FlashInfer autotune cache file: /x/y",
        "FlashInfer autotune cache loaded on rank 0 from /x/y.",
        "Using FlashInfer managed autotune cache (root=/x). Pass --disable-flashinfer-autotune to skip autotuning.",
        "Compile and warming up model for size 8",
        "JIT kernel warmup starting.",
        "Warming up ll_bf16 router GEMM kernels.",
        "Warming up DeepSeek V4 mHC TileLang kernels for token sizes: [1, 2]",
        "Warming up Qwen Triton kernels for model_type=qwen3_next.",
        "Warming up DeepSeek V4 sparse MLA attention for mixed tokens=[1].",
        "Warming up CuTeDSL compile_units=3 names=['a'].",
    ],
    "graph_capture.capture": [
        "Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static.",
        # a bar that the log cuts off
        "Capturing CUDA graphs (decode, FULL):   0%|          | 0/35 [00:00<",
        "Capturing cudagraphs for decoding. This may lead to unexpected consequences if the model is not static.",
    ],
    "graph_capture.sampler": [
        "Graph capturing finished in 23 secs.",
        "Graph capturing finished in 23 secs, took 0.55 GiB",
    ],
    "runtime.startup": [
        "init engine (profile, create kv cache, warmup model) took 81.25 seconds",
        "init engine (profile, create kv cache, warmup model) took 32.95 s (compilation: 12.00 s)",
        "init engine (profile, create kv cache, warmup model) took 32.95 s (compilation: 12.00 s — language_model: 10.00 s, encoder: 2.00 s)",
        "init engine (profile, create kv cache, warmup model) took 32.95 s",
        "Starting vLLM API server on http://0.0.0.0:8000",
        "Starting vLLM API server 0 on http://127.0.0.1:9501",
        "Starting vLLM server on http://127.0.0.1:9101",
        "Available routes are:",
    ],
    "runtime.ready": [
        "Application startup complete.",
        "Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
    ],
    "runtime.serving": [
        "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%.",
        "Engine 000: Avg prompt throughput: 12.3 tokens/s, Avg generation throughput: 4.5 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%",
        '127.0.0.1:41520 - "GET /health HTTP/1.1" 200 OK',
        '10.0.0.7:5 - "POST /v1/chat/completions HTTP/1.0" 500 Internal Server Error',
        "Received request cmpl-12: prompt: 'Hello', params: SamplingParams(n=1)",
        "Received request chatcmpl-12: params: SamplingParams(n=1), lora_request: None.",
        "Added request cmpl-12.",
        "Shutting down",
        "Application shutdown complete.",
        "Finished server process [7]",
        "[shutdown] API server: shutdown triggered",
        "Shutting down FastAPI HTTP server.",
    ],
}  # fmt: skip

#: Bars as tqdm draws them, on standard error.
BAR_SAMPLES = {
    "weight_load.download": [
        "Fetching 12 files:  25%|██▌       | 3/12 [00:03<00:09,  1.00it/s]",
        "model-00001-of-00002.safetensors:  10%|█         | 512M/4.98G [00:10<01:29, 49.8MB/s]",
        "pytorch_model.bin: 100%|██████████| 251M/251M [00:01<00:00, 180MB/s]",
        "Downloading shards:  50%|█████     | 1/2 [00:10<00:10, 10.00s/it]",
    ],
    "weight_load.read": [
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "Loading pt checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "Loading np_cache checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "Multi-thread loading shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "Multi-thread loading pt checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "Loading safetensors using Runai Model Streamer:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "Loading safetensors using Fastsafetensor loader:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "Loading safetensors using InstantTensor loader:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
    ],
    "graph_capture.capture": [
        "Capturing CUDA graph shapes:   3%|▎         | 2/67 [00:00<00:23,  2.77it/s]",
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 67/67 [00:03<00:00, 18.51it/s]",
        "Capturing CUDA graphs (decode, FULL):   3%|▎         | 1/35 [00:00<00:12,  2.81it/s]",
        "Capturing CUDA graphs (FULL):   3%|▎         | 1/35 [00:00<00:12,  2.81it/s]",
        "Capturing CUDA graphs (PIECEWISE):   3%|▎         | 1/35 [00:00<00:12,  2.81it/s]",
    ],
    "graph_capture.warmup": [
        "DeepGemm(fp8_gemm_nt) warmup (W=torch.Size([4096, 7168])):  50%|█████     | 1/2 [00:00<00:00, 1.00it/s]",
        "DeepGemmExperts GEMM warmup (MAX_M=8192):  50%|█████     | 1/2 [00:00<00:00, 1.00it/s]",
        "DeepGEMM warmup:  50%|█████     | 512/1024 [00:00<00:00, 100.00it/s]",
        "JIT kernel warmup (12 compile keys):  50%|█████     | 6/12 [00:00<00:00, 1.00it/s]",
        "Compiling CuTeDSL kernels:  50%|█████     | 1/2 [00:00<00:00, 1.00it/s]",
    ],
}  # fmt: skip

ALL = [(step, text) for step, texts in SAMPLES.items() for text in texts]
ALL_BARS = [(step, text) for step, texts in BAR_SAMPLES.items() for text in texts]


@pytest.mark.parametrize(("step", "text"), ALL)
def test_every_wording_leads_to_its_step(step: str, text: str) -> None:
    found = find(text)
    assert found is not None
    assert found[0].step == step


@pytest.mark.parametrize(
    "header",
    [
        "INFO 08-30 12:34:56 model_runner.py:184] ",
        "INFO 12-01 02:03:04 [gpu_model_runner.py:184] ",
        "(EngineCore_DP0 pid=7) INFO 12-01 02:03:04 [core.py:97] ",
        "vllm-1  | (Worker_TP0 pid=7) DEBUG 12-01 02:03:04 [v1/worker/gpu_worker.py:97] ",
    ],
)
def test_headers_and_prefixes_do_not_hide_a_marker(header: str) -> None:
    for step, text in ALL:
        (event,) = EventReader().read([Line(1, header + text)])
        found = find(event.text)
        assert found is not None
        assert found[0].step == step


@pytest.mark.parametrize(("step", "line"), ALL_BARS)
def test_every_bar_leads_to_its_step(step: str, line: str) -> None:
    (bar,) = bars(line)
    found = find_bar(bar.desc)
    assert found is not None
    assert found[0].step == step


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Automatically detected platform cuda.",
        "Using Flash Attention backend on V1 engine.",
        "Using max model len 40960",
        "Chunked prefill is enabled with max_num_batched_tokens=2048.",
        "Skipping CUDA graph capture. To turn on CUDA graph capture, set -O 3",
        "Skipping FlashInfer autotune because it is disabled.",
        "Cudagraph is disabled under eager mode",
        "Route: /health, Methods: GET",
        "Maximum concurrency for 40,960 tokens per request: 10.92x",
        "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging",
        "Warming up chat template processing...",
        "Started server process [7]",
        "Waiting for application startup.",
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",
        "ValueError: No available memory for the cache blocks.",
        "Using V2 Model Runner",
        "the user asked: Application startup complete. What does it mean?",
        "Supported tasks: ['generate']",
    ],
)
def test_other_lines_of_a_start_are_no_markers(text: str) -> None:
    assert find(text) is None


@pytest.mark.parametrize("text", ["", "Processed prompts", "Generating train split", "Capturing video"])
def test_other_bars_are_no_markers(text: str) -> None:
    assert find_bar(text) is None


def test_every_marker_has_a_sample_here() -> None:
    found = [find(text) for _, text in ALL]
    used = {match[0] for match in found if match}
    assert [marker.pattern for marker in MARKERS if marker not in used] == []
    assert {match[0] for _, line in ALL_BARS if (match := find_bar(bars(line)[0].desc))} == set(BARS)


def test_markers_name_known_steps_and_stay_in_order_of_the_start() -> None:
    for marker in (*MARKERS, *BARS):
        assert marker.step in STEPS
        assert marker.ended is None or marker.ended in STEPS
        if marker.ended:
            assert STEPS.index(marker.ended) <= STEPS.index(marker.step)
        assert phase_of(marker.step) in PHASES


@pytest.mark.parametrize(
    ("text", "took"),
    [
        ("Loading weights took 0.04 seconds", "0.04"),
        ("Time spent downloading weights for Qwen/Qwen3-8B: 12.345678 seconds", "12.345678"),
        ("Graph capturing finished in 23 secs, took 0.55 GiB", "23"),
        ("Initial profiling/warmup run took 3.21 s", "3.21"),
    ],
)
def test_durations_by_vllms_own_clock_are_read(text: str, took: str) -> None:
    found = find(text)
    assert found is not None
    assert found[1]["took"] == took


@pytest.mark.parametrize(
    ("frames", "step"),
    [
        (("run_engine_core", "_initialize_kv_caches", "determine_available_memory", "profile_run"), "kv_init.profile"),
        # profiling captures graphs with Model Runner V2 and with the estimate of V1
        (("determine_available_memory", "profile_cudagraph_memory", "capture_model"), "kv_init.profile"),
        (("determine_num_available_blocks", "execute_model"), "kv_init.profile"),
        (("compile_or_warm_up_model", "capture_model", "_capture_cudagraphs"), "graph_capture.capture"),
        (("compile_or_warm_up_model", "_dummy_sampler_run"), "graph_capture.sampler"),
        (("compile_or_warm_up_model", "kernel_warmup"), "graph_capture.warmup"),
        (("compile_or_warm_up_model", "_dummy_run"), "graph_capture.warmup"),
        (("_initialize_kv_caches", "get_kv_cache_configs", "check_enough_kv_cache_memory"), "kv_init.allocate"),
        (("initialize_from_config", "initialize_kv_cache", "_allocate_kv_cache_tensors"), "kv_init.allocate"),
        (("worker_main", "load_model", "get_model", "load_weights"), "weight_load.read"),
        (("worker_main", "init_device", "init_distributed_environment"), "launch.distributed_init"),
        (("run_busy_loop", "step", "execute_model"), "runtime.serving"),
        (("run_server", "build_async_engine_client", "create_engine_config"), "launch.config"),
        (("main", "parse_args", "error"), "launch.config"),
        (("main", "somewhere"), None),
        ((), None),
    ],
)
def test_the_stack_tells_the_step(frames: tuple[str, ...], step: str | None) -> None:
    assert step_of_stack(frames) == step


def test_frames_name_known_steps() -> None:
    assert {step for _, step in FRAMES} <= set(STEPS)
