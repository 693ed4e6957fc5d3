"""What a start command says about memory, and what the release makes of what it leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.version import InvalidVersion, Version

from vdoctor.errors import UserError

if TYPE_CHECKING:
    from vdoctor.budget.extras import Draft, Lora

GIB = 1 << 30
#: The release that is counted when nothing says which one runs.
NEWEST = "0.33.0"
#: The oldest release with the accounting of V1 (vllm/v1/core/kv_cache_utils.py).
OLDEST = Version("0.8.0")

Platform = Literal["cuda", "cpu"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that matter, None where the command leaves them to vLLM.

    `gpu_bytes`: memory of one GPU (or, for `cpu`, of the node). `cpu_space_gib`: VLLM_CPU_KVCACHE_SPACE.
    `cpu_flags`: what the processor can do, as /proc/cpuinfo spells it: the CPU build chooses by that.
    `max_len` -1 asks vLLM for the longest that fits. `drafts`: the launch loads a draft model; `draft`: which, if known.
    """

    version: str = NEWEST
    platform: Platform = "cuda"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    expert_parallel: bool = False
    max_len: int | None = None
    block_size: int | None = None
    kv_dtype: str = "auto"
    dtype: str | None = None
    quantization: str | None = None
    utilization: float | None = None
    kv_bytes: int | None = None
    blocks: int | None = None
    seqs: int | None = None
    batched: int | None = None
    eager: bool = False
    gpu_bytes: int | None = None
    gpu_name: str = ""
    prefix_caching: bool | None = None
    hybrid_manager: bool | None = None
    state_dtype: str = "auto"
    speculative_tokens: int = 0
    async_scheduling: bool | None = None
    cpu_space_gib: int | None = None
    cpu_flags: frozenset[str] = frozenset()
    graph_estimate: bool | None = None
    drafts: bool = False
    draft: Draft | None = None
    lora: Lora | None = None

    @property
    def release(self) -> Release:
        """What this version counts."""
        return Release.of(self.version)

    @property
    def world(self) -> int:
        """Number of ranks of one replica."""
        return self.tp * self.pp


@dataclass(frozen=True, slots=True)
class Release:
    """How a release counts. Each field was read in the wheels of the releases between which it changes."""

    version: Version

    @staticmethod
    def of(text: str) -> Release:
        """UserError for what is no version, or one before V1."""
        try:
            version = Version(text)
        except InvalidVersion:
            raise UserError(f"{text}: not a vLLM version", "write it as in: --vllm-version 0.11.0") from None
        base = Version(version.base_version)
        if base < OLDEST:
            raise UserError(
                f"vLLM {text}: releases before {OLDEST} count blocks of the old engine (V0)",
                f"vdoctor counts {OLDEST} and later: --vllm-version 0.8.0 is the nearest",
            )
        return Release(base)

    def _from(self, text: str) -> bool:
        return self.version >= Version(text)

    @property
    def utilization(self) -> float:
        """Default of --gpu-memory-utilization: 0.9 to 0.19, 0.92 from 0.20 (vllm/config/cache.py)."""
        return 0.92 if self._from("0.20") else 0.9

    @property
    def counts_graphs(self) -> bool:
        """From 0.20 the profile run measures CUDA graphs, too, and takes them off the cache
        (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS in vllm/envs.py); before, they came on top of the utilisation."""
        return self._from("0.20")

    @property
    def tokens_rule(self) -> Literal["blocks", "groups", "requests"]:
        """What "KV cache size: N tokens" means: blocks times block size (0.8), the same divided by the number of
        groups (0.9 to 0.20), requests of the longest length that fit times that length (from 0.21)."""
        return "requests" if self._from("0.21") else "groups" if self._from("0.9") else "blocks"

    @property
    def group_slack(self) -> float:
        """Kinds of layers whose counts differ by less than this factor are padded to the larger count
        instead of being cut into groups of the smaller one: from 0.12 1.25, from 0.18 1.5."""
        return 1.5 if self._from("0.18") else 1.25 if self._from("0.12") else 0.0

    @property
    def scales_blocks(self) -> bool:
        """From 0.12 layers with smaller pages get larger blocks; before, such models were refused."""
        return self._from("0.12")

    @property
    def pads_pages(self) -> bool:
        """From 0.25 a page that does not divide the largest one is padded to it."""
        return self._from("0.25")

    @property
    def keeps_null_block(self) -> bool:
        """From 0.29 the check of the longest length leaves out the block that the pool holds back."""
        return self._from("0.29")

    @property
    def counts_steps_in_flight(self) -> bool:
        """From 0.26 windows reserve room for the batches of all steps in flight, not of one."""
        return self._from("0.26")

    @property
    def state_checkpoints(self) -> bool:
        """From 0.29 Mamba-2 layers keep one more state per request for the prefix cache."""
        return self._from("0.29")

    @property
    def states_cached(self) -> bool:
        """From 0.26 hybrid models have the prefix cache on by default, with states aligned to blocks."""
        return self._from("0.26")

    @property
    def aligns_to_block(self) -> bool:
        """From 0.20 the block of a hybrid model is a multiple of the plain block, before of 16 tokens."""
        return self._from("0.20")

    @property
    def wide_nemotron(self) -> bool:
        """From 0.13 the states of Nemotron-H are kept in float32 (vllm/model_executor/models/config.py)."""
        return self._from("0.13")

    @property
    def fixed_cpu_space(self) -> bool:
        """Before 0.13 the CPU build takes 4 GiB when VLLM_CPU_KVCACHE_SPACE is not set, then a share of the memory."""
        return not self._from("0.13")

    @property
    def cpu_mla(self) -> Literal["none", "reference", "amx"]:
        """From 0.28 the CPU build runs MLA, with blocks of 16 tokens only; from 0.29 with AMX any block."""
        return "amx" if self._from("0.29") else "reference" if self._from("0.28") else "none"

    @property
    def wide_cpu_states(self) -> bool:
        """From 0.26 the CPU build on AVX512-BF16 keeps recurrent states in float32 (vllm/platforms/cpu.py)."""
        return self._from("0.26")

    @property
    def stretches_yarn(self) -> bool:
        """Before 0.30 the longest length of a YaRN model is its original one times the factor; from then on what
        max_position_embeddings says (_get_and_verify_max_len in vllm/config/model.py)."""
        return not self._from("0.30")

    @property
    def huge_batch(self) -> bool:
        """From 0.28 cards of 160 GiB and more take batches of 16384 tokens."""
        return self._from("0.28")
