"""Texts of `vdoctor estimate` in both languages."""

from __future__ import annotations

_TEXTS: dict[str, tuple[str, str]] = {
    "fits": ("fits", "放得下"),
    "fits_not": ("does not fit", "放不下"),
    "fits_maybe": (
        "may fit: the needs lie between what is there at best and at worst",
        "可能放得下：需求介于最好与最坏情况之间",
    ),
    "fits_unknown": ("no GPU memory given: what it needs", "未给出显存大小：以下为所需"),
    "gpu": ("GPU", "GPU"),
    "rank": ("rank", "进程"),
    "weights": ("weights", "权重"),
    "kv": ("KV cache", "KV 缓存"),
    "activation": ("activation", "激活"),
    "graphs": ("graphs", "CUDA 图"),
    "other": ("context, NCCL", "上下文、NCCL"),
    "gib": ("GiB for each rank; a-b are ranges", "单位 GiB，按进程；a-b 为范围"),
    "token": ("one token takes {kib:.2f} KiB of cache on each rank", "每个 token 在每个进程上占 {kib:.2f} KiB 缓存"),
    "tokens": ("KV cache size: {tokens:,} tokens", "KV 缓存可容纳 {tokens:,} 个 token"),
    "tokens_range": (
        "KV cache size: about {tokens:,} tokens ({low:,} to {high:,})",
        "KV 缓存约可容纳 {tokens:,} 个 token（{low:,} 到 {high:,}）",
    ),
    "exact": (
        "as vLLM prints it, for the cache size that the command gives",
        "与 vLLM 打印的一致（缓存大小由命令给定）",
    ),
    "concurrency": (
        "{concurrency:.2f} requests of {length:,} tokens at a time",
        "可同时处理 {concurrency:.2f} 个 {length:,} token 的请求",
    ),
    "longest": ("longest request that fits: {longest:,} tokens", "可容纳的最长请求：{longest:,} 个 token"),
    "longest_range": (
        "longest request that fits: {low:,} to {high:,} tokens",
        "可容纳的最长请求：{low:,} 到 {high:,} 个 token",
    ),
    "needed": (
        "{length:,} tokens need {gib:.2f} GiB of KV cache on each rank",
        "{length:,} 个 token 在每个进程上需要 {gib:.2f} GiB KV 缓存",
    ),
    "changes": ("what makes it fit, cheapest first", "让它放得下的改动（代价从小到大）"),
    "no_changes": ("No change of flags makes it fit on this card.", "在这张卡上改参数放不下。"),
    "no_plan": ("No start command of this machine holds the model.", "这台机器上没有能放下该模型的启动命令。"),
    "cards": ("fits for certain on", "确定放得下的配置"),
    "card": ("{gpus} x {gib} GB", "{gpus} 张 {gib} GB"),
    "no_card": ("no card of up to 180 GB, with up to 16 of them", "16 张以内、180 GB 以内的卡都放不下"),
    "then": ("then {tokens:,} tokens, longest {longest:,}", "改后 {tokens:,} 个 token，最长 {longest:,}"),
    "price": ("price", "代价"),
    "unsure": ("not sure", "不确定之处"),
    "reasons": ("why", "理由"),
    "missing": ("files", "文件"),
    # remedies
    "tp": ("Cut the model over more GPUs.", "把模型切到更多 GPU 上。"),
    "share": ("Give vLLM a larger share of the memory.", "让 vLLM 使用更大比例的显存。"),
    "seqs": (
        "Serve fewer requests at a time: less for logits and sampling.",
        "减少同时处理的请求数：logits 与采样占用更少。",
    ),
    "batched": ("Smaller batches in prefill: less for activation.", "减小 prefill 批：激活占用更少。"),
    "fp8": ("Keep the cache in fp8: half the bytes a token.", "KV 缓存用 fp8：每个 token 减半。"),
    "length": ("Serve shorter requests.", "限制请求长度。"),
    "eager": ("Capture no CUDA graphs.", "不捕获 CUDA 图。"),
    "quantization": ("Quantise the weights to fp8 at start.", "启动时把权重量化为 fp8。"),
    "together": ("No single change is enough; these together are.", "单个改动不够，需要合在一起。"),
    "cost_tp": ("more GPUs in use, and traffic between them", "占用更多 GPU，且有卡间通信"),
    "cost_share": ("no room for other programs on the card", "卡上不再有其他程序的余地"),
    "cost_seqs": ("more requests wait", "更多请求排队"),
    "cost_batched": ("long prompts take more steps", "长提示需要更多步"),
    "cost_fp8": ("slightly other answers; the attention backend must support it", "输出略有差异；注意力后端必须支持"),
    "cost_length": ("longer requests are refused", "更长的请求被拒绝"),
    "cost_eager": ("slower decoding, most at few requests", "解码变慢，请求少时最明显"),
    "cost_quantization": (
        "slightly other answers; below compute capability 8.9 weights alone are fp8",
        "输出略有差异；计算能力低于 8.9 时仅权重为 fp8",
    ),
    # doubts
    "architecture": (
        "Model type {type} is not among those checked against vLLM; it is counted by its shapes.",
        "模型类型 {type} 未与 vLLM 核对过，按形状计算。",
    ),
    "too_long": (
        "The model's configuration allows {longest:,} tokens: vLLM refuses more.",
        "模型配置最多允许 {longest:,} 个 token，超出时 vLLM 拒绝启动。",
    ),
    "towers": ("Images or sound: the encoder's own activation is not counted.", "多模态：编码器的激活未计入。"),
    "draft": (
        "Not counted: the draft model's weights and cache. More memory is needed than shown.",
        "未计入：草稿模型的权重与缓存，实际需要更多。",
    ),
    "draft_missing": ("The draft model cannot be read: {why}.", "读不到草稿模型：{why}。"),
    "draft_counted": (
        "The draft model's weights and cache are counted; its activation is not.",
        "草稿模型的权重与缓存已计入，其激活未计入。",
    ),
    "lora": (
        "Not counted: the LoRA slots, for the layers of this model are not known. More memory is needed than shown.",
        "未计入：LoRA 槽位（不清楚该模型各层的形状），实际需要更多。",
    ),
    "lora_counted": (
        "LoRA slots are counted with the weights (--max-loras x --max-lora-rank for each linear layer); their part of activation and graphs is not.",
        "LoRA 槽位已计入权重（每个线性层 --max-loras x --max-lora-rank），其激活与 CUDA 图未计入。",
    ),
    "beyond_less": (
        "Not counted: {flag}. Less GPU memory is needed than shown.",
        "未计入：{flag}，实际需要的显存更少。",
    ),
    "beyond_more": (
        "Not counted: {flag}. More GPU memory may be needed than shown.",
        "未计入：{flag}，实际可能需要更多显存。",
    ),
    "beyond_either": ("Not counted: {flag}. It may change every figure.", "未计入：{flag}，可能改变所有数值。"),
    "mla_block": (
        "MLA on CUDA: the backend chooses blocks of 16 to 128 tokens by the GPU; 64 is counted.",
        "CUDA 上的 MLA：后端按 GPU 选择 16 到 128 token 的块，此处按 64 计算。",
    ),
    "towers_weights": (
        "The weights of its encoder are not counted: they come on top, often 0.5 to 2 GiB.",
        "编码器的权重也未计入：需另加，通常 0.5 到 2 GiB。",
    ),
    "kv_asked": (
        "The checkpoint asks for a cache in fp8, and this release follows it: counted so.",
        "检查点要求 fp8 缓存，该版本会照做：已按此计算。",
    ),
    "kv_ignored": (
        "The checkpoint asks for a cache in fp8; this release takes it only with --kv-cache-dtype fp8.",
        "检查点要求 fp8 缓存；该版本需加 --kv-cache-dtype fp8 才会采用。",
    ),
    "cpu_share": (
        "On the CPU the cache gets a share of the node's memory less what the process holds: set VLLM_CPU_KVCACHE_SPACE for an exact figure.",
        "CPU 上缓存取内存的一定比例并减去进程占用；设置 VLLM_CPU_KVCACHE_SPACE 才有精确值。",
    ),
    "version": (
        "No vLLM version given: counted as {version} (--vllm-version).",
        "未给出 vLLM 版本：按 {version} 计算（--vllm-version）。",
    ),
    "by_config": (
        "The weights are not here: their sizes follow from the configuration.",
        "本地没有权重文件：大小由配置推算。",
    ),
    "by_size": (
        "The weights are known by their total size alone: shared out evenly over the ranks.",
        "只知道权重总大小：按进程平均分摊。",
    ),
    "table": (
        "{model} is not on this disk: counted from vdoctor's table of known models.",
        "{model} 不在本机：按 vdoctor 内置的模型表计算。",
    ),
    "online": (
        "{model} is not on this disk: configuration and headers of the weights were read from {endpoint}.",
        "{model} 不在本机：配置与权重文件头取自 {endpoint}。",
    ),
    "guessed": (
        "Counted on every rank, for its name tells nothing: {names}.",
        "名称无法判断，按每个进程都持有计算：{names}。",
    ),
    "gpu_memory": (
        "{gib:g} GiB as given; cards report some percent less than their nominal size.",
        "按给定的 {gib:g} GiB；显卡报告的值比标称小百分之几。",
    ),
    # presets
    "why_tp": (
        "{gpus} GPUs share the weights: {weights:.1f} GiB each",
        "{gpus} 张 GPU 分担权重：每张 {weights:.1f} GiB",
    ),
    "why_ep": ("experts stay whole, each GPU holds some of them", "专家不切分，每张 GPU 持有一部分"),
    "why_dp": ("the other GPUs run further copies", "其余 GPU 运行更多副本"),
    "why_custom_all_reduce": (
        "without NVLink the custom all-reduce does not work between these cards",
        "没有 NVLink 时自定义 all-reduce 在这些卡之间不可用",
    ),
    "why_max_len": ("the longest that fits for certain, rounded", "确定放得下的最长长度（取整）"),
    "why_kv_dtype": (
        "half the bytes a token; without it the wanted length does not fit",
        "每个 token 减半；否则放不下",
    ),
    "why_seqs": (
        "logits and sampling of more requests would take memory from the cache",
        "更多请求的 logits 与采样会挤占缓存",
    ),
    "why_share": ("as asked", "按要求"),
    "why_unified": ("the processor's programs live in the same memory", "CPU 程序也在同一块内存里"),
    "why_p2p": (
        "these cards have no peer-to-peer over PCIe; NCCL may hang in trying",
        "这些卡没有 PCIe 点对点传输，NCCL 尝试时可能卡住",
    ),
}


def say(key: str, lang: str, **values: object) -> str:
    """The text in the language, values filled in."""
    text = _TEXTS[key][1 if lang == "zh" else 0]
    return text.format(**values) if values else text
