"""Faults that the simulated server plays when VDOCTOR_DEMO_TROUBLE names them (several with commas).

`oom-always`: out of memory in the profile run, whatever the options; `flapping`: dies right after its first answer;
`canary-500`: gets ready and answers completions with 500; `deaf`: it and a child of it survive SIGTERM;
`pooling`: a model that generates no text; `canary-hangs`: gets ready and never answers a completion.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

NAMES = ("oom-always", "flapping", "canary-500", "canary-hangs", "deaf", "pooling")
_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Troubles:
    """Which faults to play."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._names = set(filter(None, environ.get("VDOCTOR_DEMO_TROUBLE", "").split(",")))

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def begin(self) -> None:
        """What has to be there from the start."""
        if "deaf" in self:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen([sys.executable, "-S", "-E", "-c", _DEAF], stdin=subprocess.DEVNULL)

    def stop_signals(self) -> tuple[signal.Signals, ...]:
        """Signals that end the server in good order."""
        return (signal.SIGINT,) if "deaf" in self else (signal.SIGTERM, signal.SIGINT)

    def answered(self) -> None:
        """A completion was answered."""
        if "flapping" in self:
            threading.Timer(0.1, os._exit, [1]).start()
