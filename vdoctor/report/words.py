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
    "logs": ("logs", "份日志"),
    "by_cause": ("by cause", "按原因"),
    "by_version": ("by vLLM version", "按 vLLM 版本"),
    "by_host": ("by host", "按主机"),
    "others": ("others", "其他"),
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
    "interrupt_kills": (
        "still running; Ctrl-C once more kills it (SIGKILL), with all its processes",
        "仍在运行；再按一次 Ctrl-C 将强制结束（SIGKILL）它和它的所有进程",
    ),
    "killed_now": ("killed", "已强制结束"),
    "stdout": ("standard output", "标准输出"),
    "stderr": ("standard error", "标准错误"),
    "unwritten": (
        "{name} cannot be written ({reason}): from here on output is lost there, the server goes on",
        "{name}无法写入（{reason}）：此后的输出在那里丢失，服务继续运行",
    ),
    "kept": ("; the session has it", "；会话里有记录"),
    "left_behind": (
        "the command has ended but {count} of its processes had not; they are being ended"
        " (to watch a server that runs in the background: vdoctor watch --pid PID, or --follow LOG)",
        "命令已结束，但还有 {count} 个进程在运行，正在结束它们（后台运行的服务请用 vdoctor watch --pid PID 或 --follow LOG 观察）",
    ),
    "process_ended": (
        "process {pid} has ended; its exit status is known to its parent alone",
        "进程 {pid} 已结束；其退出状态只有父进程知道",
    ),
    "no_output_file": (
        "process {pid} writes to no file that can be read here: it is only measured; with its log: --follow FILE --pid {pid}",
        "进程 {pid} 的输出不在可读的文件中，只做测量；若有日志：--follow FILE --pid {pid}",
    ),
    "session": ("session", "会话"),
    "forward": ("a step forward", "前进了一步"),
    "sideways": ("no further", "没有更进一步"),
    "not_measured": ("not measured", "未测"),
    "proof_title": ("proven: this command starts and answers", "已证实：以下命令可以启动并应答"),
    "proof_minimal": ("every change in it was left out once, and was needed", "其中每项改动都单独去掉验证过，缺一不可"),
    "before": ("before", "之前"),
    "after": ("after", "之后"),
    "trial_begins": ("vdoctor: trial {number}: {change}", "vdoctor：第 {number} 次验证：{change}"),
    "trial_container": (
        "trials run the container in the foreground, as vdoctor-trial-..., without {options}; it is removed after each",
        "验证时容器在前台以 vdoctor-trial-... 为名运行，不带 {options}；每次结束后删除该容器",
    ),
    "trial_known": ("trial {number} was tried before: {verdict}", "第 {number} 次之前已试过：{verdict}"),
    "withheld": (
        "not tried (needs --confirm auto, or your word on a terminal)",
        "未尝试（需 --confirm auto，或在终端上同意）",
    ),
    "by_hand": ("by hand", "需手动"),
    "none_proven": ("no change was proven in {trials} trials", "{trials} 次验证中没有一项改动被证实"),
    "found_early": (
        "it works; whether less would do, or a larger value, was not tried to the end: {why}",
        "可以运行；但改动能否更小、数值能否更大，没有验证到底：{why}",
    ),
    "in_file": (
        "not tried, for options cannot be taken out of {file} from here; take out by hand: {options}",
        "未尝试（无法从这里删掉 {file} 中的选项）；请手动删掉：{options}",
    ),
    "end_max-trials": ("the limit of --max-trials was reached", "已达到 --max-trials 上限"),
    "end_budget": ("the time of --budget is over", "--budget 的时间已用完"),
    "end_exhausted": ("nothing else is left to try", "没有其他可尝试的改动"),
    "unchanged": ("the unchanged command, to see whether it still fails", "原命令，以确认它是否仍然失败"),
    "gone": (
        "the unchanged command gets ready now: what it died of has gone, or takes longer to come; no change is proven",
        "原命令现在可以就绪：之前的原因已消失，或要更久才出现；没有改动被证实",
    ),
    "lead": ("best lead: came to {step} with", "最好的线索：到达 {step}，改动为"),
    "no_lead": (
        "none came further than {step}; the leading finding above is the best lead",
        "没有一次越过 {step}；最好的线索是上面的首个结论",
    ),
    "plan": (
        "plan: at most {trials} trials; each starts the server, asks for one completion, stops it",
        "计划：最多 {trials} 次验证；每次启动服务、请求一次补全、再停止",
    ),
    "plan_asks": ("needs consent", "需同意"),
    "price_context": ("context: {before} -> {after} tokens a request", "上下文：每个请求 {before} -> {after} 个 token"),
    "price_seqs": ("concurrency: {before} -> {after} requests at once", "并发：{before} -> {after} 个请求"),
    "load": (
        "{requests} answers of {tokens} tokens, {together} at once",
        "{requests} 个回答，各 {tokens} token，{together} 个并发",
    ),
    "price_cache": ("KV cache: {tokens} tokens", "KV cache：{tokens} 个 token"),
    "price_speed": (
        "speed: {before} -> {rate} tokens/s; median time of a request: {before_latency} -> {latency} s ({load})",
        "速度：{before} -> {rate} token/s；单个请求耗时中位数：{before_latency} -> {latency} 秒（{load}）",
    ),
    "price_speed_new": (
        "speed: {rate} tokens/s, {latency} s a request, median ({load}); before: none, it did not serve",
        "速度：{rate} token/s，单个请求耗时中位数 {latency} 秒（{load}）；之前：无，未能提供服务",
    ),
    "price_speed_alone": (
        "speed: {rate} tokens/s, {latency} s a request, median ({load}); before: not measured",
        "速度：{rate} token/s，单个请求耗时中位数 {latency} 秒（{load}）；之前：未测",
    ),
    "compare_slower": (
        "{phase} got {delta} s slower ({before} -> {after} s).",
        "{phase} 慢了 {delta} 秒（{before} -> {after} 秒）。",
    ),
    "compare_verdict": ("Before: {before}; after: {after}.", "之前：{before}；之后：{after}。"),
    "compare_bigger": ("{name} grew from {before} to {after} GiB.", "{name} 从 {before} 增加到 {after} GiB。"),
    "compare_smaller": (
        "The KV cache shrank from {before} to {after} GiB.",
        "KV cache 从 {before} 减少到 {after} GiB。",
    ),
    "compare_later": (
        "Ready {delta} s later ({before} -> {after} s).",
        "就绪晚了 {delta} 秒（{before} -> {after} 秒）。",
    ),
    "compare_broken": (
        "The first start got ready, the second did not: {verdict}.",
        "第一次启动已就绪，第二次没有：{verdict}。",
    ),
    "compare_same": ("No phase got slower, nothing got bigger.", "没有阶段变慢，也没有变大。"),
    "compare_time": ("seconds: before, after, difference", "秒：之前、之后、差值"),
    "compare_memory": ("memory, GiB: before, after, difference", "内存 (GiB)：之前、之后、差值"),
    "compare_versions": ("versions and hardware", "版本与硬件"),
    "compare_caches": ("caches and files", "缓存与文件"),
    "compare_command": ("command", "命令"),
    "manifest_no_fix": ("no fix that code can apply was found", "没有可自动应用的修复"),
    "manifest_no_server": (
        "{file}: no vLLM container whose command can be edited in place; the change is:",
        "{file}：没有找到可直接修改命令的 vLLM 容器；改动为：",
    ),
    "manifest_left": (
        "has no place in the file, set it yourself: {change}",
        "文件中没有对应位置，请自行设置：{change}",
    ),
    "manifest_worked": ("What worked in a trial: {change}", "在验证中有效的改动：{change}"),
    "manifest_price": ("as told by {command}", "见 {command} 的输出"),
    "manifest_not_run": (
        "the edit itself is not tried: vdoctor starts nothing from such a file; apply it with: patch -p1 < DIFF",
        "该文件的改动本身未验证：vdoctor 不会从这类文件启动服务；应用方法：patch -p1 < DIFF",
    ),
    "refused": ("cannot relaunch: {reason}", "无法重新启动：{reason}"),
    "ask": ("vdoctor: try {change}?  price: {cost}  [y/N] ", "vdoctor：尝试 {change}？代价：{cost} [y/N] "),
    "fix_ids": ("ids for --fix here: {ids}", "此处 --fix 可用的 id：{ids}"),
    "price_not_measured": (
        "speed: not measured, a request of the load failed or gave no count of tokens",
        "速度：未测出，负载中有请求失败或未返回 token 数",
    ),
    "resume": ("go on with: {command}", "继续：{command}"),
    "cwd": (
        "trials run in {folder}, as the recorded start did; run the printed command there, too",
        "验证在 {folder} 中进行，与录制时相同；打印的命令也请在那里运行",
    ),
    "cwd_gone": (
        "{folder}, where the recorded start ran, cannot be entered; trials run here",
        "无法进入录制时的目录 {folder}；验证在当前目录进行",
    ),
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
