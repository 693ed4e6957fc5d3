"""The start command where a log or ticket shows it: at a shell prompt, in a fence, in a script trace."""

from __future__ import annotations

import re

# What may stand before a command: a prompt, set -x marks, sudo, exec, variable assignments.
_LEAD = r"(?:(?:\([\w.\-]+\) )?(?:[\w.\-]+@[\w.\-]+:\S*|\S{0,40})?[$#>] |\++ )?(?:sudo |exec |nohup |time )*(?:[A-Z][A-Z0-9_]*=\S+ )*"
_COMMAND = re.compile(
    rf"^\s*{_LEAD}(?P<command>"
    r"(?:(?:env )?(?:[A-Z][A-Z0-9_]*=\S+ )*)"
    r"(?:\S*/)?(?:vllm serve |python3?(?:\.\d+)? -m vllm\.entrypoints\.|(?:docker|podman|nerdctl) run .*vllm)\S.*)$"
)
_DOCKER_HEAD = re.compile(r"^\s*" + _LEAD + r"(?P<command>(?:docker|podman|nerdctl) run\b.*\\)\s*$")
_MAX_LINES = 60


class PromptReader:
    """Fed with lines of plain text; keeps the last complete command that starts a vLLM server."""

    def __init__(self) -> None:
        self.command: str | None = None
        self._open: list[str] = []

    def feed(self, line: str) -> None:
        """Take the next line."""
        if self._open:
            self._continue(line)
            return
        if "vllm" not in line and "run" not in line:
            return
        found = _COMMAND.match(line) or _DOCKER_HEAD.match(line)
        if found:
            self._open = []
            self._continue(found["command"])

    def _continue(self, line: str) -> None:
        text = line.rstrip()
        # bash's own continuation prompt
        text = text[2:] if self._open and text.startswith("> ") else text
        goes_on = text.endswith("\\")
        self._open.append(text.removesuffix("\\").strip())
        if goes_on and len(self._open) < _MAX_LINES:
            return
        joined = " ".join(self._open)
        self._open = []
        if "vllm" in joined:
            self.command = joined
