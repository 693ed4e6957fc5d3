"""A simulated `vllm serve`: the lines, the order and the arithmetic of vLLM 0.11.2 on a 24 GB card.

No GPU, no model, no vLLM. Its memory model decides what happens: weights and activation come first,
the KV cache takes the rest of total * utilisation, CUDA graphs must fit in what is left outside.
VDOCTOR_DEMO_SPEED divides all waiting times.
"""

from __future__ import annotations

import argparse
import http.server
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

from vdoctor.demo.api import Handler
from vdoctor.demo.troubles import Troubles

VERSION = "0.11.2"
TOTAL, CONTEXT, WEIGHTS, ACTIVATION = 23.64, 0.46, 15.27, 1.21
#: GiB of one captured graph; the pool and the first capture cost more than the others.
GRAPH_FIRST, GRAPH_EACH = 0.31, 0.0125
KV_BYTES_PER_TOKEN = 131_072
BLOCK = 16
#: Where it dies: file below vllm/, line, function.
_CAPTURE = (
    ("v1/worker/gpu_worker.py", 431, "compile_or_warm_up_model"),
    ("v1/worker/gpu_model_runner.py", 4122, "capture_model"),
)
_PROFILE = (
    ("v1/worker/gpu_worker.py", 301, "determine_available_memory"),
    ("v1/worker/gpu_model_runner.py", 3702, "profile_run"),
)


def capture_sizes(largest: int) -> list[int]:
    """0.11.2: 1, 2, 4, then every 8 to 255, every 16 from 256 on."""
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)]
    return [size for size in sizes if size <= largest]


class Simulation:
    """Prints a start-up and ends it as the arithmetic says."""

    def __init__(self, options: argparse.Namespace, speed: float) -> None:
        self.options = options
        self._speed = speed
        self._pids = (os.getpid(), os.getpid() + 72)
        self._troubles = Troubles(os.environ)

    def run(self) -> int:
        """The exit status of the server."""
        self._troubles.begin()
        self._launch()
        self._load()
        if "oom-always" in self._troubles:
            self._die("torch.OutOfMemoryError: " + self._oom_text(), _PROFILE)
            return 1
        tokens = self._kv_cache()
        if tokens < self.options.max_model_len:
            self._die(self._too_small(tokens))
            return 1
        if not self.options.enforce_eager and not self._capture():
            self._die("torch.OutOfMemoryError: " + self._oom_text(), _CAPTURE)
            return 1
        return self._serve()

    # ------------------------------------------------------------------ phases

    def _launch(self) -> None:
        o = self.options
        self.wait(1.0)
        self._api("api_server.py:1977", f"vLLM API server version {VERSION}")
        given = {"model_tag": o.model, "port": o.port, "model": o.model, "max_model_len": o.max_model_len}
        given |= {"gpu_memory_utilization": o.gpu_memory_utilization, "max_num_seqs": o.max_num_seqs}
        self._api("utils.py:253", f"non-default args: {given}")
        self.wait(1.2)
        self._api("model.py:631", "Resolved architecture: LlamaForCausalLM")
        self._api("model.py:1745", f"Using max model len {o.max_model_len}")
        self._api("scheduler.py:216", "Chunked prefill is enabled with max_num_batched_tokens=2048.")
        self.wait(0.8)
        self._core(
            "core.py:93",
            f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{o.model}', tensor_parallel_size=1, dtype=torch.bfloat16",
        )
        self._core(
            "parallel_state.py:1208",
            "world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:41235 backend=nccl",
        )
        self.wait(0.4)
        self._core(
            "parallel_state.py:1394", "rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, TP rank 0, EP rank 0"
        )

    def _load(self) -> None:
        self._core("gpu_model_runner.py:2843", f"Starting to load model {self.options.model}...")
        self.wait(0.4)
        self._core("cuda.py:418", "Using FLASH_ATTN backend.")
        for shard in range(5):
            self._bar(
                f"Loading safetensors checkpoint shards: {shard * 25:3d}% Completed | {shard}/4 [00:{shard * 2:02d}<00:{8 - shard * 2:02d},  2.05s/it]\n"
            )
            self.wait(0.7 if shard < 4 else 0)
        self._core("default_loader.py:314", "Loading weights took 8.21 seconds")
        self._core("gpu_model_runner.py:2918", f"Model loading took {WEIGHTS:.4f} GiB memory and 9.134410 seconds")

    def _kv_cache(self) -> int:
        self.wait(0.5)
        self._core(
            "backends.py:618",
            "Using cache directory: /root/.cache/vllm/torch_compile_cache/5a1c0ffee0/rank_0_0/backbone for vLLM's torch.compile",
        )
        self._core("backends.py:634", "Dynamo bytecode transform time: 5.42 s")
        self.wait(1.2)
        self._core("backends.py:248", "Cache the graph for dynamic shape for later use")
        self.wait(0.8)
        self._core("monitor.py:34", "torch.compile takes 21.07 s in total")
        free = TOTAL * self.options.gpu_memory_utilization - WEIGHTS - ACTIVATION - CONTEXT
        self.wait(0.6)
        self._core("gpu_worker.py:359", f"Available KV cache memory: {free:.2f} GiB")
        tokens = max(0, int(free * 2**30 / KV_BYTES_PER_TOKEN) // BLOCK * BLOCK)
        if tokens >= self.options.max_model_len:
            self._core("kv_cache_utils.py:1229", f"GPU KV cache size: {tokens:,} tokens")
            self._core(
                "kv_cache_utils.py:1234",
                f"Maximum concurrency for {self.options.max_model_len:,} tokens per request: {tokens / self.options.max_model_len:.2f}x",
            )
        return tokens

    def _capture(self) -> bool:
        """Two passes over all sizes (FULL_AND_PIECEWISE); False when the memory outside the budget runs out."""
        largest = self.options.max_cudagraph_capture_size or min(self.options.max_num_seqs * 2, 512)
        sizes = capture_sizes(largest)
        room = TOTAL * (1 - self.options.gpu_memory_utilization) - 0.08
        used = GRAPH_FIRST
        for name in ("mixed prefill-decode, PIECEWISE", "decode, FULL"):
            for done in range(len(sizes) + 1):
                if done:
                    used += GRAPH_EACH
                if used > room:
                    self._bar("\n")
                    return False
                self._bar(
                    f"\rCapturing CUDA graphs ({name}): {100 * done // len(sizes):3d}%|{'█' * (10 * done // len(sizes)):<10}| {done}/{len(sizes)} [00:{done // 12:02d}<00:{(len(sizes) - done) // 12:02d}, 12.10it/s]"
                )
                self.wait(0.02)
            self._bar("\n")
        self._core("gpu_model_runner.py:4166", f"Graph capturing finished in 6 secs, took {used:.2f} GiB")
        return True

    def _serve(self) -> int:
        self._core("core.py:250", "init engine (profile, create kv cache, warmup model) took 31.83 seconds")
        stop = threading.Event()
        for signum in self._troubles.stop_signals():
            signal.signal(signum, lambda signum, frame: stop.set())
        Handler.model, Handler.troubles, Handler.key = self.options.model, self._troubles, self.options.api_key
        try:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", self.options.port), Handler)
        except OSError as error:
            self._raw(f"(APIServer pid={self._pids[0]}) OSError: [Errno 98] {error.strerror}")
            return 1
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self._api("api_server.py:2052", f"Starting vLLM API server 0 on http://127.0.0.1:{self.options.port}")
        self._api("launcher.py:38", "Available routes are:")
        for text in (
            f"Started server process [{self._pids[0]}]",
            "Waiting for application startup.",
            "Application startup complete.",
        ):
            self._raw(f"(APIServer pid={self._pids[0]}) INFO:     {text}")
        stop.wait()
        self._api("launcher.py:110", "Shutting down FastAPI HTTP server.")
        self._raw(f"(APIServer pid={self._pids[0]}) INFO:     Application shutdown complete.")
        server.server_close()
        return 0

    # ------------------------------------------------------------------ ends

    def _oom_text(self) -> str:
        return (
            f"CUDA out of memory. Tried to allocate 26.00 MiB. GPU 0 has a total capacity of {TOTAL:.2f} GiB of which 11.81 MiB is free. "
            f"Including non-PyTorch memory, this process has {TOTAL - 0.02:.2f} GiB memory in use. Of the allocated memory 21.70 GiB is allocated by PyTorch, "
            "with 412.00 MiB allocated in private pools (e.g., CUDA Graphs), and 88.12 MiB is reserved by PyTorch but unallocated."
        )

    def _too_small(self, tokens: int) -> str:
        need = self.options.max_model_len * KV_BYTES_PER_TOKEN / 2**30
        have = tokens * KV_BYTES_PER_TOKEN / 2**30
        return (
            f"ValueError: To serve at least one request with the models's max seq len ({self.options.max_model_len}), ({need:.2f} GiB KV cache is needed, "
            f"which is larger than the available KV cache memory ({have:.2f} GiB). Based on the available memory, the estimated maximum model length is {tokens}. "
            "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
        )

    def _die(self, error: str, place: Sequence[tuple[str, int, str]] = ()) -> None:
        stack = [("v1/engine/core.py", 708, "run_engine_core"), ("v1/engine/core.py", 203, "_initialize_kv_caches")]
        stack += place or [("v1/core/kv_cache_utils.py", 1118, "get_kv_cache_configs")]
        lines = ["EngineCore failed to start.", "Traceback (most recent call last):"]
        for file, number, name in stack:
            lines.append(f'  File "/usr/local/lib/python3.12/dist-packages/vllm/{file}", line {number}, in {name}')
        for line in [*lines, error]:
            self._record("ERROR", "EngineCore_DP0", self._pids[1], "core.py:842", line)
        self.wait(0.2)
        head = f"(APIServer pid={self._pids[0]}) "
        self._raw(head + "Traceback (most recent call last):")
        self._raw(
            head
            + '  File "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/utils.py", line 786, in wait_for_engine_startup'
        )
        self._raw(
            head + "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        )

    # ------------------------------------------------------------------ printing

    def wait(self, seconds: float) -> None:
        """Sleep, as fast as asked."""
        time.sleep(seconds / self._speed)

    def _api(self, place: str, text: str) -> None:
        self._record("INFO", "APIServer", self._pids[0], place, text)

    def _core(self, place: str, text: str) -> None:
        self._record("INFO", "EngineCore_DP0", self._pids[1], place, text)

    def _record(self, level: str, process: str, pid: int, place: str, text: str) -> None:
        self._raw(f"({process} pid={pid}) {level} {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}")

    def _raw(self, text: str) -> None:
        print(text, flush=True)

    def _bar(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def parser() -> argparse.ArgumentParser:
    """The options of `vllm serve` that the simulation knows."""
    found = argparse.ArgumentParser(prog="vllm serve")
    found.add_argument("model")
    found.add_argument("--port", type=int, default=8000)
    found.add_argument("--max-model-len", type=int, default=8192)
    found.add_argument("--max-num-seqs", type=int, default=256)
    found.add_argument("--gpu-memory-utilization", type=float, default=0.9)
    found.add_argument("--max-cudagraph-capture-size", type=int)
    found.add_argument("--enforce-eager", action="store_true")
    found.add_argument("--api-key")
    # Taken, and without effect on the arithmetic.
    for name in ("--config", "--max-num-batched-tokens", "--compilation-config", "--attention-backend", "--host"):
        found.add_argument(name)
    for name in ("--disable-custom-all-reduce", "--trust-remote-code"):
        found.add_argument(name, action="store_true")
    return found


def main(argv: list[str]) -> int:
    """`server.py serve MODEL ...`"""
    options = parser().parse_args(argv[1:] if argv[:1] == ["serve"] else argv)
    return Simulation(options, float(os.environ.get("VDOCTOR_DEMO_SPEED", "1"))).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
