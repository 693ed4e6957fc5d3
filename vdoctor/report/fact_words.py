"""Facts that decide a finding before the start, as sentences in both languages."""

from __future__ import annotations

from vdoctor.facts.registry import FACTS, show
from vdoctor.model import FactValue

#: Facts that say on what kind of launch a rule counts: no proof of anything.
CONTEXT = ("launch.layer", "launch.device", "launch.eager", "mem.shortage_exact")
#: fact -> sentence; {value} is the value as FACTS shows it.
_SENTENCES: dict[str, tuple[str, str]] = {
    "api.reasoning_parser_unknown": (
        "not among the reasoning parsers of this vLLM",
        "该 vLLM 没有这个 reasoning parser",
    ),
    "api.template_missing": ("no such file", "没有这个文件"),
    "api.tool_parser_missing": (
        "--enable-auto-tool-choice without --tool-call-parser",
        "有 --enable-auto-tool-choice，没有 --tool-call-parser",
    ),
    "api.tool_parser_unknown": ("not among the tool parsers of this vLLM", "该 vLLM 没有这个 tool parser"),
    "args.bounds": ("allowed: {value}", "允许的取值：{value}"),
    "args.choices": ("allowed: {value}", "允许的取值：{value}"),
    "args.config_missing": ("no such file", "没有这个文件"),
    "args.not_a_number": ("no number", "不是数字"),
    "args.not_a_share": ("no share between 0 and 1", "不是 0 到 1 之间的比例"),
    "args.unknown_flags": ("not among the options of this vLLM: {value}", "该 vLLM 没有这些参数：{value}"),
    "args.value": ("value given: {value}", "给出的值：{value}"),
    "compiler.c": ("no C compiler found (CC, gcc, clang, cc)", "找不到 C 编译器（CC、gcc、clang、cc）"),
    "compiler.cxx": ("no C++ compiler found (CXX, g++, clang++, c++)", "找不到 C++ 编译器（CXX、g++、clang++、c++）"),
    "disk.cache_free_gib": ("{value} GiB free", "剩余 {value} GiB"),
    "disk.noexec": ("mounted noexec: {value}", "以 noexec 挂载：{value}"),
    "disk.tmp_free_gib": ("{value} GiB free", "剩余 {value} GiB"),
    "disk.unwritable": ("no right to write here", "没有写权限"),
    "driver.cuda_major": ("the driver knows CUDA {value}", "驱动支持 CUDA {value}"),
    "cuda.torch_major": ("PyTorch was built for CUDA {value}", "PyTorch 为 CUDA {value} 编译"),
    "driver.missing": ("{value} not found", "找不到 {value}"),
    "env.CUDA_VISIBLE_DEVICES": ('CUDA_VISIBLE_DEVICES is "{value}"', "CUDA_VISIBLE_DEVICES 为“{value}”"),
    "env.VLLM_PORT": ("VLLM_PORT is {value}", "VLLM_PORT 为 {value}"),
    "env.unknown": ("set, known to no vLLM: {value}", "已设置，但没有 vLLM 认识：{value}"),
    "gpu.cc": ("compute capability {value}", "计算能力 {value}"),
    "gpu.acs": ("a PCIe bridge above a GPU redirects (ACS)", "GPU 上级 PCIe 桥开启了 ACS 重定向"),
    "gpu.iommu": ("the IOMMU translates for the GPUs: {value}", "IOMMU 对 GPU 做地址转换：{value}"),
    "gpu.link": ("links between the GPUs: {value}", "GPU 之间的连接：{value}"),
    "gpu.count": ("GPUs seen: {value}", "可见 GPU：{value} 块"),
    "gpu.fabric": ("fabric state: {value}", "fabric 状态：{value}"),
    "gpu.free_share": ("free share of the GPU's memory: {value}", "空闲显存比例：{value}"),
    "gpu.visible_wrong": ("names no GPU of this machine: {value}", "本机没有这块 GPU：{value}"),
    "hub.cached": ("the model is not in the Hugging Face cache", "Hugging Face 缓存里没有该模型"),
    "hub.offline": ("offline mode is on", "离线模式已开启"),
    "lib.cuda_compat": ("the loader takes {value} first", "加载器优先使用 {value}"),
    "mem.cpu_short": ("less memory is free than the share asks for", "空闲内存少于所要求的比例"),
    "mem.shortage": ("by the budget that vdoctor estimate shows", "按 vdoctor estimate 的显存预算"),
    "mem.utilization": ("share of the memory asked for: {value}", "要求的显存比例：{value}"),
    "model.architecture_unknown": (
        "the class is neither in vLLM's registry nor in transformers",
        "vLLM 的注册表和 transformers 里都没有这个类",
    ),
    "model.derived_max_len": ("config.json allows {value} tokens", "config.json 允许 {value} 个 token"),
    "model.dtype": ("--dtype {value}", "--dtype {value}"),
    "model.max_len": ("length asked for: {value} tokens", "要求的长度：{value} 个 token"),
    "model.needs_code": (
        "the type of the model comes with its own code, --trust-remote-code is not given",
        "模型类型由其自带代码提供，命令里没有 --trust-remote-code",
    ),
    "model.path_missing": ("no such folder", "没有这个目录"),
    "model.quantization": ("quantisation: {value}", "量化方法：{value}"),
    "model.type_unknown": ("the type is not known to the installed transformers", "已安装的 transformers 不认识该类型"),
    "port.taken": ("somebody listens on it", "已有进程在监听"),
    "port.holder": ("held by {value}", "占用者：{value}"),
    "proc.path": ("no right to write: {value}", "没有写权限：{value}"),
    "proc.uid": ("user id {value} has no name", "用户 id {value} 没有用户名"),
    "python.headers": ("Python.h is not there", "没有 Python.h"),
    "quant.block_cut": ("the part for one GPU is no multiple of the block", "每张 GPU 分到的部分不是块大小的整数倍"),
    "quant.conflict": ("config.json names another method", "config.json 里是另一种方法"),
    "quant.cut": ("the part for one GPU is no multiple of the group", "每张 GPU 分到的部分不是分组大小的整数倍"),
    "quant.not_in_checkpoint": ("no description of the quantisation in the folder", "目录里没有量化描述"),
    "shm.size_mib": ("/dev/shm holds {value} MiB", "/dev/shm 大小 {value} MiB"),
    "torch.needed": ("this vLLM needs {value}", "该 vLLM 需要 {value}"),
    "torch.version": ("installed: torch {value}", "已安装：torch {value}"),
    "tp.remainder": ("heads left over after an even share: {value}", "平均分配后余下的注意力头：{value}"),
    "tp.size": ("--tensor-parallel-size {value}", "--tensor-parallel-size {value}"),
    "tp.world": ("GPUs asked for: {value}", "要求的 GPU：{value} 张"),
    "tp.uneven": ("does not divide evenly", "无法整除"),
}
_FAULTS: dict[str, tuple[str, str]] = {
    "pointer": ("text where weights should be", "应为权重，实为文本"),
    "cut-off": ("not as long as its header says", "长度与文件头不符"),
    "bad-header": ("the header cannot be read", "文件头无法读取"),
    "empty": ("empty", "空文件"),
    "missing-shards": ("named by the index, not there", "索引里有，目录里没有"),
    "no-weights": ("no weight files", "没有权重文件"),
    "bad-json": ("no valid JSON", "不是有效的 JSON"),
    "no-config": ("no config.json", "没有 config.json"),
    "no-type": ("no model_type in config.json", "config.json 里没有 model_type"),
    "no-tokenizer": ("no tokenizer files", "没有分词器文件"),
}
_SOURCES = {"argv": ("command", "命令"), "estimate": ("estimate", "估算"), "nvml": ("NVML", "NVML"),
            "environment": ("environment", "环境变量"), "derived": ("computed", "计算")}  # fmt: skip


def has_words(name: str) -> bool:
    """Whether the fact has a sentence of its own, or is one that needs none."""
    return name in _SENTENCES or name in CONTEXT or name == "model.faults"


def sentence(name: str, value: FactValue, lang: str) -> str:
    """The fact as a sentence; what has no words is shown with its meaning."""
    at = 1 if lang == "zh" else 0
    if name == "model.faults" and isinstance(value, tuple):
        return ("；" if at else "; ").join(_FAULTS[str(one)][at] if str(one) in _FAULTS else str(one) for one in value)
    pair = _SENTENCES.get(name)
    if pair is not None:
        return pair[at].replace("{value}", show(name, value))
    return f"{FACTS[name].meaning if name in FACTS else name}: {show(name, value)}"


def place(source: str, lang: str) -> str:
    """Where a fact is from, for readers: `probe:/models/a` is /models/a, `argv` is the command."""
    pair = _SOURCES.get(source)
    return pair[1 if lang == "zh" else 0] if pair else source.removeprefix("probe:")
