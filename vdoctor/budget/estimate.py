"""The budget of a launch: what each rank holds, how many tokens fit, which length is the longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vdoctor.budget.batch import Batch, batch_of
from vdoctor.budget.cache_type import asked_by, cache_type
from vdoctor.budget.config import ModelConfig, has_towers
from vdoctor.budget.extras import draft_pages, with_extras
from vdoctor.budget.groups import Pool, group_pages, stages_of
from vdoctor.budget.layers import pages_of
from vdoctor.budget.overhead import Range, activation_range, graph_range, other_range
from vdoctor.budget.settings import GIB, Settings
from vdoctor.budget.weights import Part, Weights, rank_weights
from vdoctor.errors import UserError


@dataclass(frozen=True, slots=True)
class Rank:
    """One GPU (for `cpu`: one worker). All sizes in bytes; `kv_cache` is what is left for the cache, at best what the
    middle of the ranges leaves; `kv_range` what their ends leave."""

    rank: int
    weights: int
    kv_per_token: int
    kv_cache: int
    kv_range: Range
    activation: Range
    graphs: Range
    other: Range


@dataclass(frozen=True, slots=True)
class Estimate:
    """The answer. `exact`: the cache's bytes are given by the command, so that its tokens are no estimate.

    `fits`: True and False are certain within the ranges, None lies between. `longest`: the longest request that
    fits, in tokens, at most what the model allows. `doubts`: keys of what makes the figures less sure.
    """

    config: ModelConfig
    settings: Settings
    ranks: tuple[Rank, ...]
    length: int
    batch: Batch
    blocks: int
    tokens: int
    token_range: Range
    concurrency: float
    longest: int
    longest_range: Range
    fits: bool | None
    exact: bool
    needed_kv: int
    doubts: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()


def estimate(
    config: ModelConfig, parts: Sequence[Part] | int, settings: Settings, doubts: Sequence[str] = ()
) -> Estimate:
    """The budget of one launch. `parts`: those of the checkpoint, or its size in bytes where no more is known.

    UserError for a launch that vLLM refuses by its numbers, or an architecture that cannot be counted.
    """
    if config.yarn_len and settings.release.stretches_yarn:
        config = replace(config, max_len=config.yarn_len)
    pool = pool_of(config, settings)
    length = settings.max_len if settings.max_len and settings.max_len > 0 else config.max_len
    batch = batch_of(settings, length)
    pool = replace(pool, batched=batch.tokens)
    weights, beside = with_extras(_weights(parts, config, settings), parts, config, settings)
    ranks = tuple(_rank(at, pool, config, settings, weights, batch) for at in range(settings.pp * settings.tp))
    worst, middle, best = (
        pool.block_count([_left(rank, which) for rank in _first_of_stages(ranks, settings)]) for which in (0, 1, 2)
    )
    longest = [_longest(pool, blocks, config.max_len) for blocks in (worst, middle, best)]
    length = longest[1] if settings.max_len == -1 and longest[1] else length
    counts = [_tokens(pool, blocks, length) for blocks in (worst, middle, best)]
    known = bool(settings.gpu_bytes) or _given(settings) is not None or settings.blocks is not None
    return Estimate(
        config=config,
        settings=settings,
        ranks=ranks,
        length=length,
        batch=batch,
        blocks=middle,
        tokens=counts[1],
        token_range=(counts[0], counts[2]),
        concurrency=pool.concurrency(middle, length) if pool.groups and middle else 0.0,
        longest=longest[1],
        longest_range=(longest[0], longest[2]),
        fits=_fits(pool, ranks, settings, length, (worst, best)) if known else None,
        exact=_given(settings) is not None or settings.blocks is not None,
        needed_kv=_needed(pool, length),
        doubts=(*doubts, *beside, *(_doubts(config, settings))),
        guessed=weights.guessed,
    )


def pool_of(config: ModelConfig, settings: Settings) -> Pool:
    """The groups of the model's layers and the layers of each stage; the batch is still open."""
    pages = pages_of(config, settings)
    own = len(pages)
    pages += draft_pages(config, settings)
    index = [at for at, page in enumerate(pages) if page is not None]
    groups = group_pages([page for page in pages if page is not None], settings)
    named = tuple(replace(group, layers=tuple(index[at] for at in group.layers)) for group in groups)
    if config.layers < settings.pp:
        raise UserError(
            f"{config.name}: {config.layers} layers on {settings.pp} stages", "take a smaller --pipeline-parallel-size"
        )
    stages = stages_of(config.layers, settings.pp)
    # A layer with attention and a state has its second cache behind all layers, those of a draft come last.
    both = [frozenset(stage | {at + config.layers for at in stage if at + config.layers < own}) for stage in stages]
    both[-1] |= frozenset(range(own, len(pages)))
    return Pool(named, tuple(both), settings, batched=0)


def _weights(parts: Sequence[Part] | int, config: ModelConfig, settings: Settings) -> Weights:
    if isinstance(parts, int):
        return Weights((parts // settings.world,) * settings.pp)
    return rank_weights(parts, config, settings)


def _given(settings: Settings) -> int | None:
    """Bytes of the cache that the command itself fixes: --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE (which wins)
    and, on the CPU before 0.14, 4 GiB when neither is there (vllm/platforms/cpu.py)."""
    if settings.platform == "cpu" and settings.cpu_space_gib:
        return settings.cpu_space_gib * GIB
    if settings.kv_bytes is not None:
        return settings.kv_bytes
    if settings.platform == "cpu" and settings.release.fixed_cpu_space:
        return 4 * GIB
    return None


def _rank(at: int, pool: Pool, config: ModelConfig, settings: Settings, weights: Weights, batch: Batch) -> Rank:
    stage = at // settings.tp
    activation = activation_range(config, settings, batch)
    graphs, other = graph_range(config, settings, batch), other_range(settings)
    low, high = _rest(settings, weights.stages[stage], activation, graphs, other)
    return Rank(
        rank=at,
        weights=weights.stages[stage],
        kv_per_token=pool.growth_bytes[stage],
        kv_cache=(low + high) // 2,
        kv_range=(low, high),
        activation=activation,
        graphs=graphs,
        other=other,
    )


def _rest(settings: Settings, weights: int, activation: Range, graphs: Range, other: Range) -> Range:
    """What is left for the cache at the two ends of the ranges; never below zero.

    The utilisation is a share of the card's whole memory; weights, activation and what is not torch's come off it,
    graphs from 0.20 on (determine_available_memory in vllm/v1/worker/gpu_worker.py). On the CPU the share is of
    the node's memory and what the process holds comes off.
    """
    fixed = _given(settings)
    if fixed is not None:
        return fixed, fixed
    share = settings.utilization if settings.utilization is not None else settings.release.utilization
    total = int((settings.gpu_bytes or 0) * share)
    counted = settings.graph_estimate if settings.graph_estimate is not None else settings.release.counts_graphs
    taken = [weights + activation[end] + other[end] + (graphs[end] if counted else 0) for end in (1, 0)]
    return max(total - taken[0], 0), max(total - taken[1], 0)


def _left(rank: Rank, which: int) -> int:
    return (rank.kv_range[0], rank.kv_cache, rank.kv_range[1])[which]


def _first_of_stages(ranks: Sequence[Rank], settings: Settings) -> list[Rank]:
    return [ranks[stage * settings.tp] for stage in range(settings.pp)]


def _tokens(pool: Pool, blocks: int, length: int) -> int:
    return pool.tokens(blocks, length) if pool.groups else 0


def _longest(pool: Pool, blocks: int, limit: int) -> int:
    return pool.longest(blocks, limit) if pool.groups else limit


def _needed(pool: Pool, length: int) -> int:
    """Bytes of cache on the fullest rank without which vLLM does not start."""
    blocks = pool.needed_blocks(length) if pool.groups else 0
    return max((blocks * pool.block_bytes(stage) for stage in range(len(pool.stages))), default=0)


def _fits(pool: Pool, ranks: Sequence[Rank], settings: Settings, length: int, blocks: tuple[int, int]) -> bool | None:
    """Whether one request of the wanted length fits, and everything on the card."""
    if settings.max_len == -1:
        length = 1
    verdicts = [not pool.groups or pool.needed_blocks(length) <= count for count in blocks]
    if settings.gpu_bytes and settings.platform == "cuda":
        for at, end in enumerate((1, 0)):
            full = max(_all_of(rank, end) for rank in ranks)
            verdicts[at] = verdicts[at] and full <= settings.gpu_bytes
    if verdicts[0]:
        return True
    return None if verdicts[1] else False


def _all_of(rank: Rank, end: int) -> int:
    """All that a rank will hold at the high (1) or low (0) end. A release that does not count graphs puts them on
    top of the utilisation: a high share then ends in "out of memory" while graphs are captured."""
    cache = rank.kv_range[1 - end]
    return rank.weights + cache + rank.activation[end] + rank.graphs[end] + rank.other[end]


def _doubts(config: ModelConfig, settings: Settings) -> list[str]:
    """Keys of the texts that say what is less sure (report/estimate_words.py)."""
    doubts = []
    if settings.max_len is not None and settings.max_len > config.max_len:
        doubts.append("too_long")
    if config.type not in KNOWN:
        doubts.append("architecture")
    if has_towers(config):
        doubts.append("towers")
    if settings.kv_dtype == "auto" and asked_by(config):
        doubts.append("kv_asked" if cache_type(config, settings) != "auto" else "kv_ignored")
    if config.type.startswith(("deepseek", "kimi")) and settings.platform == "cuda" and not settings.block_size:
        doubts.append("mla_block")
    if settings.platform == "cpu" and _given(settings) is None:
        doubts.append("cpu_share")
    return doubts


#: Model types whose cache and weights are counted by rules checked against vLLM itself, or built like one of them.
KNOWN = frozenset(
    [
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "qwen2_moe",
        "qwen3_moe",
        "mixtral",
        "phi",
        "phi3",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "gpt2",
        "opt",
        "granite",
        "granitemoe",
        "granitemoehybrid",
        "falcon_h1",
        "jamba",
        "nemotron_h",
        "nemotron",
        "qwen3_next",
        "deepseek_v2",
        "deepseek_v3",
        "kimi_k2",
        "gpt_oss",
        "olmo",
        "olmo2",
        "stablelm",
        "starcoder2",
        "internlm2",
        "glm",
        "glm4",
        "baichuan",
        "bloom",
        "gpt_neox",
        "falcon",
        "mpt",
        "gpt_bigcode",
        "cohere",
        "cohere2",
        "exaone",
        "exaone4",
        "minicpm",
        "seed_oss",
        "mistral3",
        "smollm3",
        "yi",
        "qwen",
    ]
)
