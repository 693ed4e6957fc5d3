"""What a launch loads beside the model: LoRA slots and a draft model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vdoctor.budget.blueprint import blueprint
from vdoctor.budget.config import DTYPE_BYTES, ModelConfig
from vdoctor.budget.layers import model_bytes, pages_of
from vdoctor.budget.pages import Page
from vdoctor.budget.weights import EMBEDDING, HEAD, Part, Weights, linear_on_rank, rank_weights, spread

if TYPE_CHECKING:
    from vdoctor.budget.settings import Settings
    from vdoctor.budget.tensors import Tensor

#: Model types whose class lets adapters change embedding and head (embedding_modules in vllm/model_executor/models).
_EMBEDS = (
    "llama", "mixtral", "qwen3", "qwen3_moe", "granite", "granitemoe", "granitemoehybrid", "exaone", "exaone4",
    "minicpm", "nemotron", "nemotron_h", "jamba", "falcon_h1", "lfm2", "lfm2_moe",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lora:
    """Slots for adapters (--enable-lora): --max-loras of --max-lora-rank, of `dtype` ("auto": that of the model)."""

    slots: int = 1
    rank: int = 16
    dtype: str = "auto"
    sharded: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft model for speculative decoding. `parts` as in `estimate`; `tp`: ranks that share it, None: those of the model."""

    config: ModelConfig
    parts: tuple[Part, ...] | int
    tp: int | None = None


def lora_bytes(parts: Sequence[Part] | int, config: ModelConfig, settings: Settings) -> tuple[int, ...] | None:
    """Bytes of the slots on one rank of each stage: for every linear layer A of rank x inputs and B of outputs x rank
    (create_lora_weights in vllm/lora/layers); None when the layers of the model are not known."""
    lora = settings.lora
    assert lora is not None
    if isinstance(parts, int) or config.quantization is not None:
        # Packed numbers do not tell the shape of their layer.
        parts = blueprint(replace(config, quantization=None)) or ()
    if not parts:
        return None
    width = DTYPE_BYTES.get(lora.dtype) or model_bytes(config, settings)
    each = lora.slots * width

    def size(tensor: Tensor) -> float:
        if len(tensor.shape) == 2 and (EMBEDDING.search(tensor.name) or HEAD.search(tensor.name)):
            return sum(tensor.shape) * lora.rank * each if config.type in _EMBEDS else 0
        cut = linear_on_rank(tensor, config, settings)
        if cut is None:
            return 0
        rows, columns, by_rows = cut
        rank_in = lora.rank / settings.tp if lora.sharded and by_rows else lora.rank
        rows_out = rows / settings.tp if lora.sharded and not by_rows else rows
        return (rank_in * columns + rows_out * lora.rank) * each

    sizes = spread(parts, config, settings, size)
    if config.tied and config.type in _EMBEDS:
        # The head has slots of its own, though no weights.
        sizes[-1] += (config.vocab + config.hidden) * lora.rank * each
    return tuple(round(one) for one in sizes)


def draft_settings(config: ModelConfig, settings: Settings, draft: Draft) -> Settings:
    """How the draft model runs: on the last stage, in the type of the model."""
    dtype = settings.dtype if settings.dtype not in (None, "auto") else config.dtype
    return replace(
        settings, tp=draft.tp or settings.tp, pp=1, dp=1, dtype=dtype, quantization=None, lora=None, draft=None
    )


def draft_weights(config: ModelConfig, settings: Settings) -> int:
    """Bytes of the draft model on each rank of the last stage."""
    draft = settings.draft
    assert draft is not None
    own = draft_settings(config, settings, draft)
    if isinstance(draft.parts, int):
        return draft.parts // own.tp
    return rank_weights(draft.parts, draft.config, own).stages[0]


def draft_pages(config: ModelConfig, settings: Settings) -> list[Page | None]:
    """The cache of each layer of the draft model; none without one."""
    draft = settings.draft
    if draft is None:
        return []
    return pages_of(draft.config, draft_settings(config, settings, draft))


def with_extras(
    weights: Weights, parts: Sequence[Part] | int, config: ModelConfig, settings: Settings
) -> tuple[Weights, tuple[str, ...]]:
    """The weights with what comes beside them, and keys of the doubts that this leaves."""
    sizes, doubts = list(weights.stages), []
    if settings.draft is not None:
        sizes[-1] += draft_weights(config, settings)
        doubts.append("draft_counted")
    elif settings.drafts:
        doubts.append("draft")
    if settings.lora is not None:
        slots = lora_bytes(parts, config, settings)
        doubts.append("lora" if slots is None else "lora_counted")
        sizes = [size + slot for size, slot in zip(sizes, slots or [0] * len(sizes), strict=True)]
    return Weights(tuple(sizes), weights.guessed), tuple(doubts)
