"""Every fact that rules may ask for: its name, what it means, how it reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from vdoctor.facts.probed_names import PROBED
from vdoctor.facts.watched_names import WATCHED
from vdoctor.model import FactValue


class Known(NamedTuple):
    """A fact: what it is (with unit) and how its value is shown in a text."""

    meaning: str
    show: Callable[[FactValue], str]


def _plain(value: FactValue) -> str:
    if isinstance(value, tuple):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _capability(value: FactValue) -> str:
    """vLLM prints compute capability 7.5 as 75 and 12.1 as 121."""
    if isinstance(value, int) and value >= 10:
        return f"{value // 10}.{value % 10}"
    return str(value)


def _cuda_version(value: FactValue) -> str:
    """torch prints CUDA 12.4 as 12040."""
    if isinstance(value, int) and value >= 1000:
        return f"{value // 1000}.{value % 1000 // 10}"
    return str(value)


def _size(value: FactValue) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _share(value: FactValue) -> str:
    return f"{value:.0%}" if isinstance(value, int | float) else str(value)


def _whole_up(value: FactValue) -> str:
    return str(math.ceil(value)) if isinstance(value, int | float) else str(value)


_SHOWS = {"plain": _plain, "size": _size, "share": _share}

#: Environment variables that matter at a start: each is the fact env.NAME, a text.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "LD_LIBRARY_PATH",
    "PYTORCH_CUDA_ALLOC_CONF",
    "NCCL_CUMEM_ENABLE",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_ENABLE_CUDA_COMPATIBILITY",
    "VLLM_HOST_IP",
    "VLLM_LOGGING_LEVEL",
    "VLLM_PORT",
    "VLLM_SKIP_P2P_CHECK",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_USE_MODELSCOPE",
    "VLLM_USE_V1",
    "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_WORKER_MULTIPROC_METHOD",
)

_TABLE: dict[str, tuple[str, Callable[[FactValue], str]]] = {
    "vllm.version": ("vLLM release", _plain),
    "vllm.generation": ("v0, v1 or v1-mrv2 (Model Runner V2)", _plain),
    "model.name": ("model as given: repository id or path", _plain),
    "model.path": ("path or repository id that could not be found", _plain),
    "model.architecture": ("architecture class", _plain),
    "model.type": ("model_type of config.json", _plain),
    "model.quantization": ("quantisation method", _plain),
    "model.checkpoint_quantization": ("quant_method of the checkpoint", _plain),
    "model.dtype": ("dtype of the weights", _plain),
    "model.max_len": ("--max-model-len asked for, tokens", _plain),
    "model.derived_max_len": ("longest length that the model's config allows, tokens", _plain),
    "model.heads": ("number of attention heads", _plain),
    "model.kv_heads": ("number of key and value heads", _plain),
    "model.bad_file": ("weight file that cannot be read", _plain),
    "tp.size": ("tensor parallel size", _plain),
    "tp.valid": ("tensor parallel sizes that divide the heads", _plain),
    "tp.suggested": ("largest valid tensor parallel size at or below the one asked for", _plain),
    "pp.size": ("pipeline parallel size", _plain),
    "gpu.name": ("GPU model", _plain),
    "gpu.count": ("GPUs that vLLM sees", _plain),
    "gpu.cc": ("compute capability of the GPU, times ten", _capability),
    "gpu.min_cc": ("compute capability that is needed, times ten", _capability),
    "gpu.total_gib": ("memory of the GPU, GiB", _size),
    "gpu.free_gib": ("free GPU memory at start, GiB", _size),
    "gpu.free_share": ("share of the GPU memory that is free at start", _plain),
    "gpu.used_gib": ("GPU memory that was in use before the start, GiB", _size),
    "mem.utilization": ("--gpu-memory-utilization in force", _plain),
    "mem.utilization_fits_free": ("largest utilisation that the free memory allows", _plain),
    "mem.utilization_lower": ("the next lower utilisation to try", _plain),
    "mem.utilization_higher": ("the next higher utilisation to try", _plain),
    "mem.requested_gib": ("utilisation times total, GiB", _size),
    "mem.weights_gib": ("weights on one GPU, GiB", _size),
    "mem.activation_gib": ("peak activation in the profile run, GiB", _size),
    "mem.kv_available_gib": ("room for the KV cache, GiB", _size),
    "mem.kv_needed_gib": ("KV cache that one request of full length needs, GiB", _size),
    "mem.graph_gib": ("CUDA graphs, GiB", _size),
    "mem.graph_estimated_gib": ("CUDA graphs as vLLM estimates them before the capture, GiB", _size),
    "mem.graph_measured_gib": ("rise of the GPU memory during the capture, GiB", _size),
    "mem.non_torch_gib": ("memory on the GPU that PyTorch does not manage, GiB", _size),
    "mem.tried": ("allocation that failed, as printed", _plain),
    "kv.tokens": ("tokens that fit in the KV cache", _plain),
    "kv.estimated_len": ("longest length that fits, as vLLM estimates it, tokens", _plain),
    "kv.fit_len": ("value to set for --max-model-len, tokens", _plain),
    "seqs.warmup": ("dummy requests of the sampler warm-up", _plain),
    "seqs.max": ("--max-num-seqs in force", _plain),
    "seqs.lower": ("the next lower --max-num-seqs to try", _plain),
    "shm.need_mib": ("shared memory that is needed, MiB", _plain),
    "shm.free_mib": ("shared memory that is free, MiB", _plain),
    "port": ("port", _plain),
    "port.next": ("the port after the one that is taken", _plain),
    "args.unknown": ("options that this vLLM does not know", _plain),
    "args.unknown_flags": ("names of the options that this vLLM does not know", _plain),
    "args.nearest": ("nearest valid option", _plain),
    "args.bad": ("option whose value is refused", _plain),
    "args.value": ("value that is refused", _plain),
    "args.choices": ("values that are allowed", _plain),
    "args.reason": ("why a setting is refused, in vLLM's words", _plain),
    "api.template": ("chat template as given", _plain),
    "api.parser": ("tool or reasoning parser as given", _plain),
    "api.parsers": ("parsers that this vLLM has", _plain),
    "batch.tokens": ("--max-num-batched-tokens in force", _plain),
    "env.variable": ("environment variable", _plain),
    "hub.host": ("host that the model is downloaded from", _plain),
    "hub.wait_s": ("seconds until the next try", _plain),
    "model.file": ("file that the model lacks or that cannot be read", _plain),
    "model.tensor": ("tensor that does not fit", _plain),
    "model.rope_type": ("RoPE scaling type", _plain),
    "model.last_version": ("last vLLM release that had the model", _plain),
    "model.plugin": ("plugin that provides the model", _plain),
    "python.package": ("Python package", _plain),
    "rpc.method": ("method that got no answer", _plain),
    "seqs.running": ("requests that are running", _plain),
    "seqs.waiting": ("requests that are waiting", _plain),
    "kv.usage": ("use of the KV cache, percent", _plain),
    "kv.preemptions": ("requests put back for lack of KV cache, as one line counts them", _plain),
    "serving.lone_s": (
        "seconds for which the same few requests have been generating, nothing else coming or ending",
        _plain,
    ),
    "serving.silent_s": ("seconds without a single token while requests run", _plain),
    "weights.filesystem": ("filesystem of the checkpoint", _plain),
    "weights.checkpoint_gib": ("size of the checkpoint, GiB", _size),
    "weights.read_s": ("seconds that vLLM says it read weights", _plain),
    "weights.download_s": ("seconds that the download of the weights took", _plain),
    "compile.cache": ("the compile cache: hit, miss, stale (found, and compiled anew) or off", _plain),
    "weights.seconds": ("seconds that loading the weights took", _plain),
    "weights.seconds_per_shard": ("seconds per checkpoint shard", _plain),
    "weights.ready_timeout_s": ("seconds that vLLM waits for the engine", _plain),
    "model.field": ("field of config.json", _plain),
    "model.tensor_wanted": ("shape that the model wants", _plain),
    "launch.layer": ("bare, docker, compose or kubernetes", _plain),
    "launch.ipc_host": ("the container shares the host's IPC namespace", _plain),
    "launch.eager": ("--enforce-eager is set", _plain),
    "cuda.home": ("folder of the CUDA toolkit that was tried", _plain),
    "cuda.nvcc": ("path of nvcc that was tried", _plain),
    "cuda.toolkit": ("version of the installed CUDA toolkit", _plain),
    "cuda.torch": ("CUDA version that PyTorch was built for", _plain),
    "cuda.torchvision": ("CUDA version that torchvision was built for", _plain),
    "cuda.option": ("option that nvcc does not know", _plain),
    "driver.cuda": ("CUDA version of the driver, as torch prints it (12040)", _cuda_version),
    "driver.condition": ("what the image demands of the driver", _plain),
    "lib.name": ("shared library that is missing", _plain),
    "lib.symbol": ("symbol that is missing", _plain),
    "lib.file": ("binary that asks for it", _plain),
    "lib.needed": ("version of a system library that is needed", _plain),
    "py.package": ("Python package", _plain),
    "py.needed": ("version of a Python package that is needed", _plain),
    "py.found": ("version of a Python package that is installed", _plain),
    "py.name": ("name that a Python package does not have", _plain),
    "gpu.arch": ("GPU architecture, as compilers name it (sm_90)", _plain),
    "gpu.xid_gpu": ("index of the GPU that reported an Xid", _plain),
    "gpu.lost": ("index of the GPU that stopped answering", _plain),
    "gpu.fault": ("what the driver says about the GPU that stopped answering", _plain),
    "gpu.xid": ("Xid number that the driver or the kernel reported", _plain),
    "gpu.pci": ("PCI address of the GPU", _plain),
    "gpu.visible": ("entry of CUDA_VISIBLE_DEVICES", _plain),
    "quant.partition": ("size of the quantised dimension on one GPU", _plain),
    "quant.tile": ("number by which it must be divisible", _plain),
    "mem.unallocated_gib": ("memory that PyTorch held but could not use when an allocation failed, GiB", _size),
    "mem.own": ("GPU memory that the process itself held when an allocation failed, as printed", _plain),
    "mem.free": ("GPU memory that was free when an allocation failed, as printed", _plain),
    "kv.space_gib": ("KV cache that one request of full length needs, rounded up to whole GiB", _whole_up),
    "kv.mamba_blocks": ("sequences for which the state cache of a hybrid model has room", _plain),
    "host.name": ("name of the machine or pod, as its log shipper writes it", _plain),
    "host.free_gib": ("free host memory, GiB", _size),
    "host.total_gib": ("host memory, GiB", _size),
    "host.needed_gib": ("host memory that was asked for, GiB", _size),
    "host.killed": ("process that the kernel killed for memory", _plain),
    "host.pin_failed": ("a region of host memory could not be page-locked", _plain),
    "oom.place": ("what a failed GPU allocation was for", _plain),
    "mem.foreign_gib": ("GPU memory of other processes that was taken for our own, GiB", _size),
    "launch.device": ("cuda, cpu, rocm, xpu or tpu, as the engine prints it", _plain),
    "smem.needed": ("shared memory that a kernel needs, bytes", _plain),
    "smem.limit": ("shared memory that the GPU gives a kernel, bytes", _plain),
    "step.seconds": ("seconds that the step took", _plain),
    "tp.dividend": ("model dimension that does not divide evenly", _plain),
    "tp.divisor": ("number of parts it should divide into", _plain),
    "dist.port": ("port at which the processes of one server meet", _plain),
    "dist.address": ("host that a process could not reach", _plain),
    "dist.joined": ("processes that reached the meeting point", _plain),
    "dist.expected": ("processes that must reach the meeting point", _plain),
    "dist.interface": ("network interface asked for", _plain),
    "dist.rank": ("rank of a process", _plain),
    "dist.other_rank": ("rank of the other process", _plain),
    "ray.gpus": ("GPUs that Ray must provide", _plain),
    "ray.node": ("address that vLLM asks Ray for", _plain),
    "proc.path": ("path that the process may not use", _plain),
    "proc.uid": ("user id without a passwd entry", _plain),
    "proc.open_files": ("limit of open files", _plain),
    "watch.instrumented": ("settings that vdoctor added to the environment of the child", _plain),
    "watch.stall_after": ("seconds without movement that the user calls a stall", _plain),
    "watch.pid": ("process that vdoctor was attached to", _plain),
    "watch.skipped_bytes": ("bytes of output that came too fast to be examined", _plain),
    "watch.stacks_refused": (
        "why the stacks of a stall were not taken: missing, ptrace_scope=N, no-ptrace, ...",
        _plain,
    ),
    "watch.not_asked": ("why /health and /metrics of the server were not asked", _plain),
    "watch.lost_bytes": ("bytes of output that could not be recorded in time", _plain),
    "process.exit_code": ("exit status of the process that died", _plain),
    "torch.version": ("PyTorch release", _plain),
    "transformers.version": ("transformers release", _plain),
    "flashinfer.version": ("FlashInfer release", _plain),
    "triton.version": ("Triton release", _plain),
    "python.version": ("Python release", _plain),
    "driver.version": ("NVIDIA driver release", _plain),
    "os.name": ("operating system", _plain),
    "os.glibc": ("version of the C library", _plain),
    "os.wsl": ("Linux under Windows (WSL)", _plain),
    "gpu.in_use_gib": ("memory in use on the fullest GPU when nvidia-smi was run, or before the start, GiB", _size),
    "gpu.holders": ("processes that held GPU memory when nvidia-smi was run, or before the start", _plain),
    "gpu.link": ("nvlink when it joins every pair of GPUs, mixed when some, pcie when none", _plain),
    "launch.shm_mib": ("shared memory that the container is given, MiB", _plain),
    "shm.size_mib": ("size of /dev/shm, MiB", _plain),
    "stall.kind": ("what a stall that was watched is made of (storage, download, collective, stopped, ...)", _plain),
    "stall.seconds": ("seconds in which nothing moved", _plain),
    "stall.process": ("process that everything waits for", _plain),
    "stall.pid": ("its process id", _plain),
    "stall.step": ("step in which the start stands still", _plain),
    "stall.waiting": ("processes that wait for it", _plain),
    "stall.frames": ("functions in which the stuck processes are, innermost first, one a line", _plain),
    "stall.lock": ("function in which a stuck process waits for a file lock", _plain),
    "slow.doing": ("what a start that takes long is seen to do (reading, compiling, ...)", _plain),
    "slow.kind": ("what makes it slow, where that is seen (memory)", _plain),
    "slow.step": ("step that takes long", _plain),
    "slow.process": ("process that works", _plain),
    "slow.rate_mb": ("speed of reading or downloading, MB/s", _plain),
    "slow.percent": ("how far the step is, percent", _plain),
    **{name: (meaning, _SHOWS[kind]) for name, (meaning, kind) in WATCHED.items()},
    **{name: (meaning, _SHOWS[kind]) for name, (meaning, kind) in PROBED.items()},
    **{f"env.{name}": (f"environment variable {name}", _plain) for name in VARIABLES},
}

#: name -> what is known about it
FACTS: dict[str, Known] = {name: Known(*entry) for name, entry in _TABLE.items()}


def known(name: str) -> bool:
    """Whether rules may use this name."""
    return name in FACTS


def show(name: str, value: FactValue) -> str:
    """The value as it reads in a sentence."""
    entry = FACTS.get(name)
    return entry.show(value) if entry else _plain(value)
