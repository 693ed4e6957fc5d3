"""What a rank needs besides weights and cache, as ranges: these depend on kernels, driver and card.

The low end of each range is what the tensors alone need, the high end what profile runs printed by vLLM show
("PyTorch activation peak memory", "non_torch_memory", "Graph capturing finished ... took"; docs/estimate.md).
"""

from __future__ import annotations

from vdoctor.budget.batch import Batch
from vdoctor.budget.config import ModelConfig
from vdoctor.budget.layers import model_bytes
from vdoctor.budget.settings import GIB, Settings

Range = tuple[int, int]

#: Elements of the sampler's float32 copies of the logits, in bytes a logit: the logits in the model's type and in
#: float32 are the least; sorting and probabilities add as many again, several times (vllm/v1/sample/sampler.py).
_LOGIT_LOW, _LOGIT_HIGH = 6, 26
#: Buffers of the forward pass that live at the same time, beyond the widest layer's own.
_BUFFERS_HIGH = 1.8
#: A CUDA context without collectives: 0.05 to 0.4 GiB are printed; a margin for cuBLAS workspaces.
_CONTEXT = (0.05, 0.6)
#: NCCL channels, custom all-reduce buffers and their IPC mappings, a rank of several.
_COLLECTIVES = (0.3, 1.4)
#: Captured graphs: 0.17 to 1.4 GiB are printed for batches up to 512; fewer sizes take less, more layers more.
_GRAPHS = (0.1, 1.5)
_GRAPHS_DEEP = (0.2, 2.5)
_DEEP = 64
#: vLLM captures batches up to twice --max-num-seqs, at most 512 (vllm/config/vllm.py).
_LARGEST_GRAPH = 512
#: A worker of the CPU build without weights: 0.7 GiB were measured.
_CPU_PROCESS = (0.5, 1.5)


def activation_range(config: ModelConfig, settings: Settings, batch: Batch) -> Range:
    """Peak of the profile run: the widest layer for a full batch, and the sampler for all requests."""
    width = model_bytes(config, settings)
    forward = batch.tokens * (2 * config.hidden + _widest(config, settings)) * width
    logits = batch.requests * config.vocab
    low = max(forward, logits * _LOGIT_LOW)
    return low, int(forward * _BUFFERS_HIGH) + logits * _LOGIT_HIGH


def _widest(config: ModelConfig, settings: Settings) -> int:
    """Elements a token of the widest layer on one rank: gate, up and their product, or queries, keys and values."""
    tp = settings.tp
    inner = config.number("intermediate_size", "ffn_dim", "n_inner", "d_ff", default=4 * config.hidden)
    attention = (config.heads + 2 * config.kv_heads) * config.head_dim // tp
    routed = 0
    if config.experts:
        chosen = config.number("num_experts_per_tok", "moe_topk", "top_k_experts", default=1)
        expert = config.number("moe_intermediate_size", "ffn_hidden_size", default=inner)
        routed = chosen * (3 * expert // tp + config.hidden)
    return max(3 * inner // tp, attention, routed)


def graph_range(config: ModelConfig, settings: Settings, batch: Batch) -> Range:
    """CUDA graphs; none with --enforce-eager and on the CPU."""
    if settings.eager or settings.platform == "cpu":
        return (0, 0)
    low, high = _GRAPHS_DEEP if config.layers > _DEEP else _GRAPHS
    sizes = min(1.0, 2 * batch.requests / _LARGEST_GRAPH)
    return int(low * GIB), int(high * GIB * (0.25 + 0.75 * sizes))


def other_range(settings: Settings) -> Range:
    """CUDA context and the buffers of collectives; for the CPU what the process holds besides weights."""
    low, high = _CPU_PROCESS if settings.platform == "cpu" else _CONTEXT
    if settings.world > 1 and settings.platform == "cuda":
        low, high = low + _COLLECTIVES[0], high + _COLLECTIVES[1]
    return int(low * GIB), int(high * GIB)
