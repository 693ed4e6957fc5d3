"""One line that answers "hung or just slow?"."""

from __future__ import annotations

from collections.abc import Mapping

from vdoctor.model import Motion, StallKind

_KINDS: Mapping[StallKind, tuple[str, str]] = {
    "storage": ("storage does not answer", "存储没有响应"),
    "download": ("nothing arrives from the model hub", "模型仓库没有数据传来"),
    "collective": ("the ranks wait for each other", "各 rank 互相等待"),
    "rank-behind": ("behind the other ranks", "落后于其他 rank"),
    "rank-dead": ("dead", "已退出"),
    "stopped": ("stopped", "被暂停"),
    "compile": ("a compiler hangs", "编译器卡住"),
    "lock": ("waits for a lock or a message", "在等锁或消息"),
    "memory": ("host memory is full", "主机内存耗尽"),
    "deaf": ("it no longer answers /health", "它不再响应 /health"),
    "unknown": ("the cause is not seen from outside", "从外部看不出原因"),
}
_DOING: Mapping[str, tuple[str, str]] = {
    "reading": ("reading weights", "正在读取权重"),
    "downloading": ("downloading", "正在下载"),
    "compiling": ("compiling", "正在编译"),
    "capturing": ("capturing graphs", "正在捕获 CUDA graph"),
    "computing": ("computing", "正在计算"),
    "starting": ("starting", "正在启动"),
    "waiting": ("waiting", "等待中"),
    "serving": ("serving", "正在提供服务"),
}
#: A wait that is worth a number, in seconds.
_WORTH_TELLING = 20.0


def motion_line(motion: Motion, lang: str = "en") -> str:
    """`reading weights 61 %, 210 MB/s, about 3 min left; not stuck`, in one line without an end."""
    zh = lang == "zh"
    if motion.state == "stalled":
        return _stalled_zh(motion) if zh else _stalled(motion)
    if motion.state == "slow" and motion.doing in (None, "waiting"):
        return _silent(motion, zh)
    text = _doing(motion, zh)
    if motion.doing == "serving" and motion.state == "progressing":
        return text
    if motion.state == "slow":
        text = ("比平常慢：" if zh else "slower than usual: ") + text
        if motion.kind == "memory":
            text += "；" + _KINDS["memory"][1] if zh else "; " + _KINDS["memory"][0]
    return text + ("；没有卡住" if zh else "; not stuck")


def seconds(value: float, lang: str = "en") -> str:
    """`45 s`, `3 min`, `1 h 10 min`."""
    zh = lang == "zh"
    if value < 99.5:
        return f"{value:.0f} {'秒' if zh else 's'}"
    minutes = round(value / 60)
    if minutes < 100:
        return f"{minutes} {'分钟' if zh else 'min'}"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} {'小时' if zh else 'h'} {minutes} {'分钟' if zh else 'min'}"


def speed(rate: float) -> str:
    """Bytes a second as `210 MB/s`, `1.2 GB/s`, `40 kB/s`."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if rate >= size:
            return f"{rate / size:.1f} {unit}" if rate < 10 * size else f"{rate / size:.0f} {unit}"
    return f"{rate:.0f} B/s"


def _doing(motion: Motion, zh: bool) -> str:
    """What it does, how far it is, how fast, how long still."""
    pair = _DOING.get(motion.doing or "", ("on its way", "正在进行"))
    text = pair[1 if zh else 0]
    if motion.percent is not None:
        text += f" {motion.percent:.0f} %"
    parts = [text]
    if motion.rate:
        parts.append(speed(motion.rate))
    if motion.eta is not None:
        left = seconds(motion.eta, "zh" if zh else "en")
        parts.append(f"约剩 {left}" if zh else f"about {left} left")
    if motion.since >= _WORTH_TELLING:
        quiet = seconds(motion.since, "zh" if zh else "en")
        parts.append(f"静默 {quiet}" if zh else f"quiet for {quiet}")
    return ("，" if zh else ", ").join(parts)


def _silent(motion: Motion, zh: bool) -> str:
    quiet = seconds(motion.since, "zh" if zh else "en")
    where = motion.step or "launch"
    if motion.doing is None:
        return (
            f"{where}：{quiet} 没有新日志；看不到它的进程，无法判断是否卡住"
            if zh
            else f"no news in the log for {quiet} in {where}; its processes are out of sight, so it may work or hang"
        )
    return (
        f"{where}：{quiet} 毫无动静，可能卡住了" if zh else f"nothing has moved for {quiet} in {where}; it may be stuck"
    )


def _stalled(motion: Motion) -> str:
    kind, where = motion.kind or "unknown", motion.step or "launch"
    quiet, why = seconds(motion.since), _KINDS[kind][0]
    if kind == "rank-dead":
        return f"{motion.process or 'a process'} died; nothing has moved for {quiet} in {where}" + _waiting(motion)
    if motion.process is None:
        who = ", ".join(motion.waiting)
        if kind == "rank-behind":
            return f"{who or 'the server'}: waiting for a rank that is not here, for {quiet} in {where}"
        return f"nothing has moved for {quiet} in {where}: {why}" + (f" ({who})" if who else "")
    pid = f" (pid {motion.pid})" if motion.pid is not None else ""
    return f"{motion.process}{pid} has done nothing for {quiet} in {where}: {why}" + _waiting(motion)


def _waiting(motion: Motion) -> str:
    if not motion.waiting:
        return ""
    return f"; {', '.join(motion.waiting)} {'wait' if len(motion.waiting) > 1 else 'waits'} for it"


def _stalled_zh(motion: Motion) -> str:
    kind, where = motion.kind or "unknown", motion.step or "launch"
    quiet, why = seconds(motion.since, "zh"), _KINDS[kind][1]
    who = "、".join(motion.waiting)
    waiting = f"；{who} 在等它" if who else ""
    if kind == "rank-dead":
        return f"{motion.process or '某个进程'} 已退出；{where} 阶段 {quiet} 毫无动静{waiting}"
    if motion.process is None:
        if kind == "rank-behind":
            return f"{who or '服务'}：在 {where} 阶段等待一个不在本机的 rank，已 {quiet}"
        return f"{where} 阶段 {quiet} 毫无动静：{why}" + (f"（{who}）" if who else "")
    pid = f"（pid {motion.pid}）" if motion.pid is not None else ""
    space = "" if pid else " "
    return f"{motion.process}{pid}{space}在 {where} 阶段 {quiet} 没有任何动作：{why}{waiting}"
