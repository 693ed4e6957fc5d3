"""What could not be looked at when a start stood still, and what would permit it."""

from __future__ import annotations

from collections.abc import Mapping

from vdoctor.model import Report

_STACKS = ("not seen: the stacks of the stuck processes; ", "没有看到卡住的进程的调用栈；")
#: `watch.stacks_refused` -> how it is permitted.
_PERMIT: Mapping[str, tuple[str, str]] = {
    "missing": ("py-spy is missing: pip install 'vdoctor[stacks]'", "缺少 py-spy：pip install 'vdoctor[stacks]'"),
    "no-ptrace": (
        "CAP_SYS_PTRACE is missing: run vdoctor as root; in a container: docker run --cap-add SYS_PTRACE",
        "缺少 CAP_SYS_PTRACE：请用 root 运行 vdoctor；容器里：docker run --cap-add SYS_PTRACE",
    ),
    # Documentation/admin-guide/LSM/Yama.rst: 1 and 2 do not hold for CAP_SYS_PTRACE, 3 holds until the next boot.
    "ptrace_scope=3": (
        "kernel.yama.ptrace_scope is 3: no process of this machine may be traced until it boots with another value",
        "kernel.yama.ptrace_scope 为 3：重启并改用其他值之前，本机不允许跟踪任何进程",
    ),
}
_YAMA = (
    "kernel.yama.ptrace_scope is {scope}: run vdoctor as root, or sudo sysctl kernel.yama.ptrace_scope=0; in a container: "
    "docker run --cap-add SYS_PTRACE",
    "kernel.yama.ptrace_scope 为 {scope}：请用 root 运行 vdoctor，或 sudo sysctl kernel.yama.ptrace_scope=0；容器里："
    "docker run --cap-add SYS_PTRACE",
)
_NOT_ASKED = ("not asked: /health and /metrics; {reason}", "没有询问 /health 和 /metrics：{reason}")


def unseen_lines(report: Report, lang: str = "en") -> list[str]:
    """Lines without an end for a start that stands still; none for any other."""
    if report.motion is None or report.motion.state != "stalled":
        return []
    zh = 1 if lang == "zh" else 0
    lines = []
    refused = report.facts.get("watch.stacks_refused")
    if refused is not None:
        lines.append(_STACKS[zh] + _permit(str(refused.value))[zh])
    reason = report.facts.get("watch.not_asked")
    if reason is not None and (report.motion.step or "").startswith("runtime."):
        lines.append(_NOT_ASKED[zh].format(reason=reason.value))
    return lines


def _permit(refused: str) -> tuple[str, str]:
    if refused in _PERMIT:
        return _PERMIT[refused]
    name, equal, scope = refused.partition("=")
    if name == "ptrace_scope" and equal:
        return _YAMA[0].format(scope=scope), _YAMA[1].format(scope=scope)
    return refused, refused
