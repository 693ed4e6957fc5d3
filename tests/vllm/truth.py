"""What the real vLLM counts. Runs in its interpreter, not in vdoctor's.

Reads one JSON object a line, ``{"name", "model", "options": {...}, "env": {...}}``, builds the whole engine in this
process (configuration, model from its files, cache layout, cache itself) and writes what vLLM itself computed for its
"KV cache size: N tokens" line, and the bytes that the loaded model holds.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Workers are spawned: they find the counting worker beside this file.
os.environ["PYTHONPATH"] = str(Path(__file__).parent)


def tensors_of(model: Any) -> Iterator[Any]:
    """Every tensor that a module holds: parameters, buffers and plain attributes, also those in tuples and lists."""
    import torch

    for module in model.modules():
        for value in [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]:
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(one, torch.Tensor):
                    yield one


def held_bytes(model: Any, but: set[int]) -> int:
    """Bytes of all storages, each once, but those of the cache: what an allocator would have given."""
    sizes = {}
    for tensor in tensors_of(model):
        storage = tensor.untyped_storage()
        if storage.size() and storage.data_ptr() not in but:
            sizes[storage.data_ptr()] = storage.size()
    return sum(sizes.values())


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Start one engine, read its figures, end it."""
    from vllm import LLM
    from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity

    options = {"enforce_eager": True, "skip_tokenizer_init": True, "disable_log_stats": True} | case["options"]
    llm = LLM(model=case["model"], worker_cls="counting_worker.CountingWorker", **options)
    try:
        core = llm.llm_engine.engine_core.engine_core
        config = core.vllm_config
        kv = core.scheduler.kv_cache_manager.kv_cache_config
        tokens, concurrency = get_kv_cache_capacity(config, kv)
        return {
            "name": case["name"],
            "tokens": tokens,
            "printed_tokens": config.cache_config.kv_cache_size_tokens,
            "concurrency": concurrency,
            "blocks": kv.num_blocks,
            "block_size": config.cache_config.block_size,
            "weights_bytes": llm.collective_rpc("tell_held"),
            "batched": config.scheduler_config.max_num_batched_tokens,
        }
    finally:
        if config_is_parallel(options):
            llm.llm_engine.engine_core.shutdown()
        del llm


def config_is_parallel(options: dict[str, Any]) -> bool:
    """Whether workers are processes of their own, that must be ended."""
    return any(options.get(name, 1) > 1 for name in ("tensor_parallel_size", "pipeline_parallel_size"))


def clean_up() -> None:
    """Leave nothing of an engine, also of one that failed half way."""
    from vllm.distributed import cleanup_dist_env_and_memory

    cleanup_dist_env_and_memory()
    gc.collect()


def main() -> None:
    """One answer a line, in the order of the cases; a case that vLLM refuses says why."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    for line in sys.stdin:
        case = json.loads(line)
        os.environ.update(case.get("env", {}))
        try:
            answer = measure(case)
        except Exception as error:
            answer = {"name": case["name"], "error": f"{type(error).__name__}: {error}"[:1500]}
        clean_up()
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
