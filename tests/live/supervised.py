"""Runs a Supervisor in a process of its own, as vdoctor does, and writes down what its observer saw.

supervised.py RESULT.json OPTIONS.json -- COMMAND...
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vdoctor.live.child import CannotStart
from vdoctor.live.supervise import Supervisor
from vdoctor.model import Exit

_KEPT = 1 << 20


class Observer:
    """Keeps what it is told. `options`: stop_at (bytes seen), raise_at (bytes seen)."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._hash = hashlib.sha256()
        self._data = bytearray()
        self._size = 0
        self._ticks = 0
        self._pid = 0
        self._last = 0.0
        self._in_order = True
        self._lost = self._left = self._interrupts = 0
        self._died: int | None = None

    def started(self, pid: int) -> None:
        self._pid = pid

    def output(self, t: float, data: bytes, *, old: bool = False) -> None:
        self._in_order &= t >= self._last
        self._last = t
        self._hash.update(data)
        self._size += len(data)
        self._data += data[: max(0, _KEPT - len(self._data))]
        if self._size >= self._options.get("raise_at", 1 << 62):
            raise RuntimeError("the observer failed")

    def lost(self, length: int) -> None:
        self._lost += length

    def died(self, end: Exit) -> None:
        self._died = end.status

    def unwritten(self, stream: int, reason: str) -> None:
        """Not asked for in these tests."""

    def left(self, number: int) -> None:
        self._left = number

    def interrupted(self, times: int) -> None:
        self._interrupts = times

    def work(self, seconds: float) -> bool:
        if self._options.get("hang_at") is not None and self._size >= self._options["hang_at"]:
            time.sleep(self._options.pop("hang_seconds", 0))
        return False

    def tick(self, t: float) -> bool:
        self._ticks += 1
        return self._size >= self._options.get("stop_at", 1 << 62)

    def seen(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "pid": self._pid,
            "record": self._data.decode("latin-1"),
            "size": self._size,
            "sha256": self._hash.hexdigest(),
            "ticks": self._ticks,
            "in_order": self._in_order,
            "lost": self._lost,
            "left": self._left,
            "died": self._died,
            "interrupts": self._interrupts,
        }


class EarlySignal(dict[str, str]):
    """An environment whose reading sends this process signals: the earliest moment at which one can come."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(os.environ)
        self._names = names

    def keys(self) -> Any:
        for name in self._names:
            os.kill(os.getpid(), signal.Signals[name])
        return super().keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


def supervise(options: dict[str, Any], argv: list[str]) -> dict[str, Any]:
    """One command to its end: what the observer saw and how it ended."""
    observer = Observer(options)
    env = EarlySignal(options["early"]) if options.get("early") else os.environ
    supervisor = Supervisor(quiet=options.get("quiet", False), stop_grace=0.3)
    try:
        end = supervisor.run(observer, argv, env, tick=0.02)
        how = {"status": end.status, "signal": end.signal, "asked": end.asked, "t": end.t}
    except CannotStart as error:
        how = {"status": error.status, "error": str(error)}
    except RuntimeError as error:
        how = {"status": 125, "error": str(error)}
    return observer.seen() | how


def main(result: str, options_file: str, dashes: str, *argv: str) -> int:
    """The exit status that `watch` would have. `options.commands` holds several commands to run one by one."""
    options = json.loads(Path(options_file).read_text())
    if "commands" in options:
        Path(result).write_text(json.dumps([supervise(options, command) for command in options["commands"]]))
        return 0
    seen = supervise(options, list(argv))
    Path(result).write_text(json.dumps(seen))
    return int(seen["status"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
