"""A worker of the real vLLM that notes what its rank holds. Loaded by vLLM itself, in its own processes."""

from __future__ import annotations

from typing import Any

from truth import held_bytes
from vllm.model_executor.model_loader import base_loader
from vllm.v1.worker.cpu_worker import CPUWorker


class CountingWorker(CPUWorker):
    """As its base; `held` are the bytes of the model and of its draft when their files are in, and of LoRA slots."""

    held = 0

    def load_model(self, *args: Any, **options: Any) -> None:
        process = base_loader.process_weights_after_loading

        def note(model: Any, *rest: Any, **more: Any) -> Any:
            self.held += held_bytes(model, set())
            return process(model, *rest, **more)

        base_loader.process_weights_after_loading = note
        try:
            super().load_model(*args, **options)
        finally:
            base_loader.process_weights_after_loading = process
        self.held += slot_bytes(self.model_runner.model)

    def tell_held(self) -> int:
        """For collective_rpc."""
        return self.held


def slot_bytes(model: Any) -> int:
    """Bytes of what LoRA layers keep for adapters, each storage once."""
    sizes = {}
    for module in model.modules():
        for name, value in vars(module).items():
            if name in (
                "lora_a_stacked",
                "lora_b_stacked",
                "w13_lora_a_stacked",
                "w13_lora_b_stacked",
                "w2_lora_a_stacked",
                "w2_lora_b_stacked",
            ):
                for one in value if isinstance(value, (list, tuple)) else (value,):
                    storage = one.untyped_storage()
                    sizes[storage.data_ptr()] = storage.size()
    return sum(sizes.values())
