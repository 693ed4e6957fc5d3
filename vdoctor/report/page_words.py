"""Words of the Markdown and HTML reports in both languages."""

from __future__ import annotations

from vdoctor.report.words import word

_WORDS: dict[str, tuple[str, str]] = {
    "report": ("vdoctor report", "vdoctor 报告"),
    "cause": ("Cause", "原因"),
    "proof_line": ("Proof, line {line}", "证据，第 {line} 行"),
    "of_process": ("{place} ({process})", "{place}（{process}）"),
    "more_proof": ("More evidence", "更多证据"),
    "fix_n": ("Fix {number} ({safety})", "修复 {number}（{safety}）"),
    "price": ("Price", "代价"),
    "other_fixes": ("Other fixes ({count})", "其他修复（{count}）"),
    "other_findings": ("Other findings ({count})", "其他发现（{count}）"),
    "explains": ("Explains", "由此引起"),
    "references": ("References", "参考"),
    "timeline": ("Timeline", "时间线"),
    "timeline_note": (
        "One row a process and step; seconds from the first line.",
        "每行一个进程的一个步骤；从第一行起的秒数。",
    ),
    "phase": ("Phase", "阶段"),
    "step": ("Step", "步骤"),
    "process": ("Process", "进程"),
    "start": ("Start, s", "开始 (s)"),
    "end": ("End, s", "结束 (s)"),
    "took": ("Took, s", "用时 (s)"),
    "lines": ("Lines", "行"),
    "line_count": ("{count} lines", "{count} 行"),
    "open_end": ("not left", "未结束"),
    "no_times": ("The log has no times: only the order is known.", "日志没有时间：只知道顺序。"),
    "memory": ("Memory", "内存"),
    "curve": ("Memory over time", "内存随时间变化"),
    "curve_of": ("{name}: highest {peak} GiB{total}", "{name}：最高 {peak} GiB{total}"),
    "curve_total": (" of {total} GiB", "，共 {total} GiB"),
    "seconds": ("seconds from the launch", "启动后的秒数"),
    "ledger": ("Where the memory of one GPU went, as vLLM stated it", "一张 GPU 的显存去向（vLLM 的数据）"),
    "size": ("GiB", "GiB"),
    "rest": ("not accounted for", "未说明"),
    "over": ("Together {sum} GiB, more than the {total} GiB of the GPU.", "合计 {sum} GiB，超过 GPU 的 {total} GiB。"),
    "total": ("total", "总量"),
    "free_at_start": ("free at start", "启动时空闲"),
    "requested": ("requested by vLLM", "vLLM 申请"),
    "weights": ("weights", "权重"),
    "activation_peak": ("activations, peak", "激活峰值"),
    "kv_cache": ("KV cache", "KV 缓存"),
    "cuda_graphs": ("CUDA graphs", "CUDA 图"),
    "non_torch": ("outside PyTorch", "PyTorch 之外"),
    "used_at_start": ("used at start", "启动时已用"),
    "used": ("used", "已用"),
    "used_peak": ("peak", "峰值"),
    "rss_peak": ("resident, whole process tree, peak", "常驻内存，整个进程树，峰值"),
    "host": ("host", "主机"),
    "host_curve": ("host, resident memory of the process tree", "主机，进程树的常驻内存"),
    "trials": ("Trials", "验证"),
    "change": ("Change", "改动"),
    "result": ("Result", "结果"),
    "before": ("Before", "之前"),
    "after": ("After", "之后"),
    "facts": ("Facts", "已知事实"),
    "fact": ("Fact", "事实"),
    "value": ("Value", "值"),
    "source": ("Source", "来源"),
    "command": ("Command", "命令"),
    "context": ("The log around it", "附近的日志"),
    "left_out": ("Left out, too long for one ticket: {parts}.", "内容过长，已省略：{parts}。"),
    "made_by": (
        "Made by vdoctor {version}. The log is shown as text; it was not run.",
        "由 vdoctor {version} 生成。日志仅作为文本显示。",
    ),
    "log": ("log", "日志"),
    "verdict": ("Verdict", "结论"),
    "logs": ("{count} logs", "{count} 份日志"),
    "as_table": ("The same as a table", "以表格显示"),
    "kind": ("kind", "种类"),
    "values": ("values", "个数"),
    "places": ("places", "处数"),
    "nothing_private": ("Nothing private found.", "没有发现私有内容。"),
    "hidden": ("hidden: {kinds} (--no-redact shows them)", "已隐藏：{kinds}（--no-redact 可显示）"),
    "packed": (
        "hidden: {kinds}. Read it before you send it: tar -xOzf {file} session/log.txt",
        "已隐藏：{kinds}。发送前请先看一遍：tar -xOzf {file} session/log.txt",
    ),
    "skip": ("Skip to the findings", "跳到结论"),
}  # fmt: skip


def say(key: str, lang: str, **values: object) -> str:
    """The words for a key in the language, values filled in; words of the terminal report are known, too."""
    pair = _WORDS.get(key)
    text = word(key, lang) if pair is None else pair[1 if lang == "zh" else 0]
    return text.format(**values) if values else text
