"""How a start ended: what in the stream of events means death, an orderly stop, or life."""

from __future__ import annotations

import re

from vdoctor.model import Event

#: vLLM's own words for "a part of me died": never a cause, always an end. 0.5.5 to 0.33.0.
_DEATHS = re.compile(
    r"Engine core initialization failed|EngineCore failed to start|WorkerProc failed to start"
    r"|WorkerProc initialization failed|EngineDeadError|EngineCore encountered (?:a fatal error|an issue)"
    r"|died unexpectedly|Engine process failed to start|MQEngineDeadError|AsyncEngineDeadError"
    r"|Frontend process failed during engine core initialization|Engine core proc \S+ died"
    r"|\(PID: \d+\) died with exit code"
)
_USAGE = re.compile(r"^(?:vllm(?: serve)?|api_server\.py|\S+\.py): error: ")
_FATAL_SIGNALS = re.compile(
    r"Fatal Python error: |^Segmentation fault|^Bus error|^Killed$|\*\*\* SIG(?:BUS|SEGV|ABRT) received"
    r"|^terminate called (?:after|without)|core dumped\)?$"
)

#: Patterns that end a start wherever they are found; the usage error only at the front of a line.
PATTERNS = (_DEATHS.pattern, _USAGE.pattern, _FATAL_SIGNALS.pattern)


class Outcome:
    """Remembers the signs of death in the current start."""

    def __init__(self) -> None:
        self.death_line: int | None = None
        self.last_death_line: int | None = None
        self.traceback_line: int | None = None
        self.last_text = ""

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if event.bar is not None:
            return
        text = event.text
        if text:
            self.last_text = event.shown
        if event.block is not None and self.traceback_line is None:
            self.traceback_line = event.line
        if _DEATHS.search(text) or _USAGE.match(text) or _FATAL_SIGNALS.search(text):
            self.death_line = self.death_line or event.line
            self.last_death_line = event.line

    @property
    def is_death(self) -> bool:
        """The current start shows an end or an exception."""
        return self.death_line is not None or self.traceback_line is not None

    @property
    def is_broken(self) -> bool:
        """A death or a traceback was seen in this start."""
        return self.death_line is not None or self.traceback_line is not None

    def restart(self) -> None:
        """A new start begins in the same log."""
        self.death_line = self.last_death_line = self.traceback_line = None
