"""A worker of the real vLLM that notes what its rank holds. Loaded by vLLM itself, in its own processes."""

from __future__ import annotations

from typing import Any

from truth import held_bytes
from vllm.model_executor.model_loader import base_loader
from vllm.v1.worker.cpu_worker import CPUWorker


class CountingWorker(CPUWorker):
    """As its base; `held` are the bytes of the model when its files are in."""

    held = 0

    def load_model(self, *args: Any, **options: Any) -> None:
        process = base_loader.process_weights_after_loading

        def note(model: Any, *rest: Any, **more: Any) -> Any:
            self.held = self.held or held_bytes(model, set())
            return process(model, *rest, **more)

        base_loader.process_weights_after_loading = note
        try:
            super().load_model(*args, **options)
        finally:
            base_loader.process_weights_after_loading = process

    def tell_held(self) -> int:
        """For collective_rpc."""
        return self.held
