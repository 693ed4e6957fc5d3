"""Errors of users in Chinese: each English sentence as a pattern with named gaps, and the same in Chinese.

Rooms that know no language raise errors in English; whoever prints them translates. What is not here stays English.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

#: (English, Chinese); what stands in a gap is kept, or translated where it is a reason of the system.
_SENTENCES: tuple[tuple[str, str], ...] = (
    # files and logs
    ("{path}: no such file or folder", "{path}：没有这个文件或文件夹"),
    ("check the path; a log can also be piped in: ... | vdoctor analyze -", "请检查路径；也可以用管道输入日志：... | vdoctor analyze -"),
    ("{path}: cannot be read: {reason}", "{path}：无法读取：{reason}"),
    ("{path}: cannot be written: {reason}", "{path}：无法写入：{reason}"),
    ("{path}: cannot be packed: {reason}", "{path}：无法打包：{reason}"),
    ("{path}: cannot be unpacked: {reason}", "{path}：无法解压：{reason}"),
    ("give --output another path", "请用 --output 指定另一个路径"),
    ("{path}: is a device or socket, not a log", "{path}：是设备或套接字，不是日志"),
    ("give a file, a folder or - for standard input", "请给出文件、文件夹，或用 - 表示标准输入"),
    ("{path}: is no plain file", "{path}：不是普通文件"),
    ("give a file", "请给出文件"),
    ("give a smaller file", "请给出更小的文件"),
    ("{path}: is empty", "{path}：是空的"),
    ("give a log with output in it", "请给出有内容的日志"),
    ("{path}: is a binary file, not a log", "{path}：是二进制文件，不是日志"),
    ("give the text that the server printed", "请给出服务打印的文本"),
    ("{path}: more than {count} logs", "{path}：日志超过 {count} 份"),
    ("analyse its subfolders one by one", "请逐个分析其子文件夹"),
    ("{path}: no logs in this folder", "{path}：文件夹中没有日志"),
    ("looked for: {names}", "查找的文件名：{names}"),
    ("no log given", "没有给出日志"),
    ("vdoctor analyze FILE, or pipe one in: kubectl logs POD | vdoctor analyze", "vdoctor analyze FILE，或用管道输入：kubectl logs POD | vdoctor analyze"),
    ("{path}: holds {count} logs, one is needed", "{path}：包含 {count} 份日志，只需要一份"),
    ("name one of them", "请指定其中一份"),
    ("{path}: the process that read it died", "{path}：读取它的进程已终止"),
    ("analyse it alone, on a machine with more memory", "请在内存更大的机器上单独分析它"),
    # archives
    ("{path}: is damaged: {reason}", "{path}：已损坏：{reason}"),
    ("{path}: unpacks to far more than a log of its size", "{path}：解压后的大小远超正常日志"),
    ("unpack it yourself and give the text", "请自行解压后给出文本"),
    ("{path}: unpacks to far more than a session of its size", "{path}：解压后的大小远超正常会话"),
    ("unpack it yourself and give the folder", "请自行解压后给出文件夹"),
    ("{path}: no logs in this archive", "{path}：压缩包中没有日志"),
    ("{path}: more than {count} logs in this archive", "{path}：压缩包中的日志超过 {count} 份"),
    ("{path}: is an archive", "{path}：是压缩包"),
    ("unpack it beside its logs", "请把它解压到日志旁边"),
    ("{path}: is damaged or cut off: only its first {count} bytes could be read", "{path}：已损坏或被截断：只能读取前 {count} 字节"),
    # recordings of GPUs
    ("--gpu-log goes with one log, not {count}", "--gpu-log 只能配一份日志，不是 {count} 份"),
    ("{path}: is no recording of nvidia-smi: no line names its columns", "{path}：不是 nvidia-smi 的记录：没有列名行"),
    ("{path}: holds no GPU memory (memory.used, or fb of dmon -s m)", "{path}：没有显存数据（memory.used，或 dmon -s m 的 fb）"),
    ("{path}: is larger than {count} MiB", "{path}：大于 {count} MiB"),
    ("cut out the time of the start", "请只截取启动期间的部分"),
    ("--gpu-log takes a recording of nvidia-smi", "--gpu-log 需要 nvidia-smi 的记录"),
    ("record one with: {command}", "录制方法：{command}"),
    # sessions and trials
    ("{path}: is no recorded session", "{path}：不是已录制的会话"),
    ("give a folder that vdoctor watch recorded", "请给出由 vdoctor watch 录制的文件夹"),
    ("{path}: is no session", "{path}：不是会话"),
    ("vdoctor watch -- COMMAND records one", "用 vdoctor watch -- COMMAND 录制"),
    ("{path}: is a packed session: what its command needs is hidden in it", "{path}：是打包的会话：其命令所需的内容已被隐藏"),
    ("confirm the folder that vdoctor watch recorded", "请对 vdoctor watch 录制的文件夹运行 confirm"),
    ("{path}: is no session description: {reason}", "{path}：不是会话描述：{reason}"),
    ("{path}: shows no failing start of vLLM ({verdict})", "{path}：没有失败的 vLLM 启动（{verdict}）"),
    ("{path}: holds a {name} already", "{path}：已有 {name}"),
    ("give --session another folder", "请用 --session 指定另一个文件夹"),
    ("give --session another folder, or --no-session", "请用 --session 指定另一个文件夹，或使用 --no-session"),
    ("run confirm where the command can be run", "请在能运行该命令的地方运行 confirm"),
    ("not started: port {port} is held by {who}, which is left alone", "未启动：端口 {port} 被 {who} 占用，vdoctor 不会动它"),
    ("end it yourself, or let --confirm auto take another port", "请自行结束它，或用 --confirm auto 换一个端口"),
    ("no free port on 127.0.0.1: {reason}", "127.0.0.1 上没有空闲端口：{reason}"),
    # watching
    ("no command given", "没有给出命令"),
    ("vdoctor watch -- vllm serve MODEL ..., or --follow FILE, or --pid PID, or -", "vdoctor watch -- vllm serve MODEL ...，或 --follow FILE，或 --pid PID，或 -"),
    ("{path}: is a pipe or a device", "{path}：是管道或设备"),
    ("{path}: is a folder, not a log", "{path}：是文件夹，不是日志"),
    ("give the log file itself", "请给出日志文件本身"),
    ("--pid {pid}: no such process", "--pid {pid}：没有这个进程"),
    ("pgrep -af vllm shows what runs", "pgrep -af vllm 可查看正在运行的进程"),
    ("{command}: command not found", "{command}：找不到命令"),
    # models and rules
    ("no model given", "没有给出模型"),
    ("{name}: no such model folder", "{name}：没有这个模型文件夹"),
    ("check the path; a repository id reads as owner/name", "请检查路径；仓库 ID 的写法是 owner/name"),
    ("{name}: not on this disk, not in the Hugging Face cache, not in the table", "{name}：不在本机磁盘、Hugging Face 缓存或内置表中"),
    ("{name}: no such rule or finding id", "{name}：没有这个规则或结论 ID"),
    ("see: vdoctor rules list", "查看：vdoctor rules list"),
    ("{path}: no such folder of rules", "{path}：没有这个规则文件夹"),
    ("{path}: no rules in this folder", "{path}：文件夹中没有规则"),
    ("give a folder with FAMILY/NAME.toml files", "请给出含 FAMILY/NAME.toml 文件的文件夹"),
    ("give a rule file or a folder of them", "请给出规则文件或规则文件夹"),
    ("{path}: not valid TOML: {reason}", "{path}：不是有效的 TOML：{reason}"),
    ("{path}: {key}: missing", "{path}：{key}：缺少"),
    ("help: add {text}", "帮助：添加 {text}"),
    ("run: vdoctor rules lint", "运行：vdoctor rules lint"),
    # options
    ("No such option {name}.", "没有选项 {name}。"),
    ("No such option {name}. Did you mean {near}?", "没有选项 {name}。是否想用 {near}？"),
    ("No such option: {name}", "没有选项：{name}"),
    ("No such option: {name} Did you mean {near}?", "没有选项：{name} 是否想用 {near}？"),
    ("No such option {name} (Possible options: {near})", "没有选项 {name}（可用的选项：{near}）"),
    ("No such command {name}.", "没有命令 {name}。"),
    ("No such command {name}. Did you mean {near}?", "没有命令 {name}。是否想用 {near}？"),
    ("Missing argument {name}.", "缺少参数 {name}。"),
    ("Missing option {name}.", "缺少选项 {name}。"),
    ("Option {name} requires an argument.", "选项 {name} 需要一个值。"),
    ("Got unexpected extra argument ({name})", "多余的参数（{name}）"),
    ("Got unexpected extra arguments ({name})", "多余的参数（{name}）"),
    ("Invalid value for {name}: {value} is not one of {values}.", "{name} 的值无效：{value} 不在 {values} 之中。"),
    ("Invalid value for {name}: {value} is not a valid {kind}.", "{name} 的值无效：{value} 不是有效的 {kind}。"),
    ("Invalid value for {name}: {value} is not in the range {range}.", "{name} 的值无效：{value} 不在范围 {range} 内。"),
    ("Invalid value for {name}: {reason}", "{name} 的值无效：{reason}"),
)  # fmt: skip

#: Reasons that the system gives.
_REASONS = {
    "Permission denied": "权限不足",
    "No such file or directory": "没有那个文件或目录",
    "Is a directory": "是一个目录",
    "Not a directory": "不是目录",
    "No space left on device": "设备上没有空间",
    "Read-only file system": "只读文件系统",
    "File name too long": "文件名过长",
    "Too many levels of symbolic links": "符号链接层数过多",
    "Input/output error": "输入/输出错误",
}
_GAP = re.compile(r"\{(\w+)\}")


def translated(text: str, lang: str) -> str:
    """A message of one or more lines in the language; lines that are not known stay as they are."""
    if lang != "zh":
        return text
    return "\n".join(_line(line) for line in text.split("\n"))


def sentences() -> Sequence[tuple[str, str]]:
    """All that is translated."""
    return _SENTENCES


def _line(line: str) -> str:
    bare = line.strip()
    if len(bare) > 4000:
        return line
    for pattern, chinese in _patterns():
        if found := pattern.fullmatch(bare):
            values = {name: _REASONS.get(value, value) for name, value in found.groupdict().items()}
            return line[: len(line) - len(line.lstrip())] + chinese.format(**values)
    return line


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The longest sentence first: the more words it shares, the better it fits."""
    ordered = sorted(_SENTENCES, key=lambda pair: -len(_GAP.sub("", pair[0])))
    return [(re.compile(_regex(english), re.S), chinese) for english, chinese in ordered]


def _regex(english: str) -> str:
    parts = _GAP.split(english)
    return "".join(re.escape(part) if at % 2 == 0 else f"(?P<{part}>.+)" for at, part in enumerate(parts))
