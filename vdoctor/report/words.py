"""Words of the product's own texts in both languages."""

from __future__ import annotations

from collections.abc import Mapping

_WORDS: dict[str, tuple[str, str]] = {
    "failed": ("failed", "失败"),
    "stalled": ("stalled", "卡住"),
    "degraded": ("serves, with a problem", "已提供服务，但有问题"),
    "healthy": ("healthy", "正常"),
    "incomplete": ("incomplete: the log ends before the server is ready", "不完整：日志在服务就绪前结束"),
    "not_vllm": ("this is not the output of a vLLM server", "这不是 vLLM 服务的输出"),
    "check_failed": ("this launch would fail", "这样启动会失败"),
    "check_likely": ("this launch would probably fail", "这样启动很可能失败"),
    "check_degraded": ("possible problems", "可能有问题"),
    "check_healthy": ("nothing that would stop the launch", "没有会阻止启动的问题"),
    "check_partly": ("nothing found in what could be looked at", "能检查的部分没有发现问题"),
    "not_looked_at": ("not looked at", "未检查"),
    "in": ("in", "阶段"),
    "looks_like": ("It looks like: {what}.", "看起来是：{what}。"),
    "confirmed": ("confirmed", "已证实"),
    "certain": ("certain", "确定"),
    "likely": ("likely", "很可能"),
    "possible": ("possible", "可能"),
    "line": ("line", "第"),
    "proof": ("proof", "证据"),
    "explains": ("explains", "由此引起"),
    "fix": ("fix", "修复"),
    "safe": ("keeps results and model", "不改变模型与结果"),
    "lossy": ("gives something up", "有代价"),
    "manual": ("by hand", "需手动"),
    "price": ("price", "代价"),
    "without": ("without", "去掉"),
    "change": ("change", "改动"),
    "also": ("also found", "其他发现"),
    "timeline": ("timeline", "时间线"),
    "total": ("to ready", "到就绪"),
    "so_far": ("so far", "至今"),
    "memory": ("memory, GiB", "内存 (GiB)"),
    "ledger_log": ("log", "日志"),
    "ledger_before_start": ("in use before the start", "启动前已占用"),
    "ledger_context_other": ("CUDA context, NCCL, other", "CUDA 上下文、NCCL 等"),
    "ledger_weights": ("weights", "权重"),
    "ledger_kv_cache": ("KV cache", "KV 缓存"),
    "ledger_cuda_graphs": ("CUDA graphs", "CUDA graph 占用"),
    "ledger_unexplained": ("not explained", "未能解释"),
    "ledger_reserved": ("kept by the driver", "驱动保留"),
    "ledger_free": ("free", "空闲"),
    "ledger_total": ("total", "总量"),
    "ledger_activation_peak": ("peak of the profile run", "profile 阶段峰值"),
    "ledger_more": ("{count} more: see gpus in the JSON report", "另有 {count} 块：见 JSON 报告的 gpus"),
    "ledger_holder": (
        "GPU {gpu} before the start: {name} held {gib} GiB",
        "GPU {gpu} 启动前：{name} 占用 {gib} GiB",
    ),
    "ledger_lost": ("GPU {gpu} stopped answering", "GPU {gpu} 不再响应"),
    "ledger_unified": (
        "GPU {gpu} has no memory of its own: the figures are those of the system's memory",
        "GPU {gpu} 没有独立显存：数字为系统内存",
    ),
    "ledger_peak": ("not ready: the state when the most was in use", "未就绪：显存占用最高时的状态"),
    "gpu_row": ("{name}: used {used}, peak {peak} of {total}", "{name}：已用 {used}，峰值 {peak}，共 {total}"),
    "host_row": (
        "host: peak {peak:.2f} (resident, whole process tree)",
        "主机：峰值 {peak:.2f}（整个进程树的常驻内存）",
    ),
    "no_rule": (
        'No known cause in this log. What would tell: the lines above the first "Traceback", from every process.',
        "日志中没有已知原因。需要的是：第一个 “Traceback” 之前、来自所有进程的日志行。",
    ),
    "sigkill": (
        "SIGKILL comes from outside, and the log cannot say from whom. What would tell: dmesg -T | grep -i 'killed process'"
        " (the kernel ran out of memory), kubectl describe pod (OOMKilled, a failed probe).",
        "SIGKILL 来自外部，日志里看不出是谁发的。可以这样查：dmesg -T | grep -i 'killed process'（内核内存不足），"
        "kubectl describe pod（OOMKilled 或探针失败）。",
    ),
    "nothing_wrong": ("Nothing wrong found.", "没有发现问题。"),
    "missing_facts": (
        "{count} rules could not be decided; missing: {facts}.",
        "有 {count} 条规则无法判断，缺少：{facts}。",
    ),
    "exit": ("exit status {status}", "退出状态 {status}"),
    "killed_by": ("killed by {signal}", "被信号 {signal} 终止"),
    "trials": ("trials", "验证"),
    "same failure": ("same failure", "同样失败"),
    "other failure": ("other failure", "另一种失败"),
    "timed out": ("timed out", "超时"),
    "ready_after": ("ready after {seconds:.1f} s", "{seconds:.1f} 秒后就绪"),
    "session": ("session", "会话"),
    "more": ("more: vdoctor explain {rule}", "详情：vdoctor explain {rule}"),
}


def word(key: str, lang: str) -> str:
    """The word in the language; the key itself when nobody translated it."""
    pair = _WORDS.get(key)
    return key if pair is None else pair[1 if lang == "zh" else 0]


def language(environ: Mapping[str, str]) -> str:
    """`zh` for a Chinese locale, else `en` (LC_ALL, LC_MESSAGES, LANG, as POSIX orders them)."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
