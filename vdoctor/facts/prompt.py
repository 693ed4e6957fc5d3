"""The start command where a log or ticket shows it: at a shell prompt, in a fence, in a script trace."""

from __future__ import annotations

import re

# What may stand before a command: a prompt ("(base) user@host:~$ ", "[root@host ~]# ", "➜  ~ ", "!" in a
# notebook), set -x marks, sudo, exec.
_LEAD = (
    # "Command: vllm serve ...", "启动命令：vllm serve ..." and the like
    r"\s{0,40}(?:(?!usage|error)[^\s:：`]{0,20}(?: [^\s:：`]{1,20}){0,3}[:：] ?)?(?P<prompt>(?:\([\w.\-]+\) )?(?:[\w.\-]+@[\w.\-]+(?::\S*| \S+)? ?|\[[^\]\n]{1,60}\]|\S{0,40})?[$#>%] "
    r"|[❯➜] +(?:\S{1,40} +)?|\++ |!)?(?:(?:sudo(?: -\w)*|exec|nohup|time) )*"
)
_ASSIGNMENTS = r"(?:env )?(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|[^\s\"']*) )*"
_COMMAND = re.compile(
    rf"{_LEAD}(?P<command>{_ASSIGNMENTS}(?:uv run )?"
    r"(?:[^\s=]*/)?(?:vllm serve |python3?(?:\.\d+)? -m vllm\.entrypoints\.|(?:docker|podman|nerdctl) run .*vllm)\S.*)$"
)
_DOCKER_HEAD = re.compile(rf"{_LEAD}(?P<command>{_ASSIGNMENTS}(?:docker|podman|nerdctl) run\b.*\\)\s*$")
_MAX_LINES = 60
# "vllm serve Qwen/Qwen3-8B hangs on two GPUs" is a sentence.
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_PROSE = re.compile(
    r" (?:is|was|does|did|fails?|failed|works?|worked|hangs?|hung|crash(?:es|ed)?|exits?|dies|command"
    r"|with|the|for|but|then|when|while|using|to|it|this|my|me)[ .,;:!?]"
)


class PromptReader:
    """Fed with lines of plain text; keeps the last complete command that starts a vLLM server."""

    def __init__(self) -> None:
        self.command: str | None = None
        self._open: list[str] = []
        self._typed = False

    def feed(self, line: str) -> None:
        """Take the next line."""
        if self._open:
            self._continue(line)
            return
        if "vllm" not in line and "run" not in line:
            return
        found = _COMMAND.match(line) or _DOCKER_HEAD.match(line)
        # "# vllm serve" is root's prompt, or a line of a script that somebody took out.
        if found and not (self.command and found["prompt"] == "# "):
            self._typed = found["prompt"] is not None
            self._continue(found["command"])

    def _continue(self, line: str) -> None:
        text = line.rstrip()
        if text.lstrip().startswith("```"):
            text = ""
        # bash's own continuation prompt
        text = text[2:] if self._open and text.startswith("> ") else text
        goes_on = text.endswith("\\")
        self._open.append(text.removesuffix("\\").strip())
        if goes_on and len(self._open) < _MAX_LINES:
            return
        joined = " ".join(self._open).strip()
        self._open = []
        if "vllm" in joined and (self._typed or not _PROSE.search(_QUOTED.sub("", joined) + " ")):
            self.command = joined
