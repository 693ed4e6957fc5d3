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
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


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


def watch_loading(loaded: list[int]) -> None:
    """Note what each model holds when its files are in: the CPU build packs and frees weights after that."""
    from vllm.model_executor.model_loader import base_loader

    process = getattr(base_loader, "_process", base_loader.process_weights_after_loading)

    def note(model: Any, *args: Any, **options: Any) -> Any:
        loaded.append(held_bytes(model, set()))
        return process(model, *args, **options)

    base_loader._process, base_loader.process_weights_after_loading = process, note


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Start one engine, read its figures, end it."""
    from vllm import LLM
    from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity

    loaded: list[int] = []
    watch_loading(loaded)

    options = {"enforce_eager": True, "skip_tokenizer_init": True, "disable_log_stats": True} | case["options"]
    llm = LLM(model=case["model"], **options)
    try:
        core = llm.llm_engine.engine_core.engine_core
        config = core.vllm_config
        cache = config.cache_config
        kv = core.scheduler.kv_cache_manager.kv_cache_config
        tokens, concurrency = get_kv_cache_capacity(config, kv)
        return {
            "name": case["name"],
            "tokens": tokens,
            "printed_tokens": cache.kv_cache_size_tokens,
            "concurrency": concurrency,
            "blocks": kv.num_blocks,
            "block_size": cache.block_size,
            "weights_bytes": loaded[0],
            "budget": cache.kv_cache_memory_bytes,
            "batched": config.scheduler_config.max_num_batched_tokens,
            "groups": [[type(group.kv_cache_spec).__name__, len(group.layer_names), group.kv_cache_spec.block_size,
                        group.kv_cache_spec.page_size_bytes] for group in kv.kv_cache_groups],
        }  # fmt: skip
    finally:
        del llm


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
