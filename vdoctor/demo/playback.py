"""Plays a recorded start again: the bytes of its log at their times, with a tree of stand-in processes.

`python -m vdoctor.demo.playback FOLDER [--speed N] [--cast ROLE=BEHAVIOUR,...]`. FOLDER holds a log.txt, and a
samples.jsonl (a session) or a case.json beside it. The times are those of the recording, else those that the log
prints, else twenty lines a second. What the processes of a session did (work, read, compile, wait, stop) its stand-ins do
at the same moments; those of a log do what a good start does in each phase. Process ids in the log become those of the
stand-ins. It ends as the recording did: a session's status or signal; a case that crashed
with 1; one that hung or served waits for a signal.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import math
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vdoctor.demo.actors import Actor
from vdoctor.demo.scenes import Moment, moments
from vdoctor.intake.reader import EventReader
from vdoctor.intake.splitter import LineSplitter
from vdoctor.model import phase_of
from vdoctor.startup.timeline import Timeline, depth

#: `(EngineCore_DP0 pid=77)`.
_PID = re.compile(rb"(\b[A-Za-z]\w{2,40})( pid=)(\d{1,9})\b")
_LINES_PER_SECOND = 20.0
#: No pause of a recording is played longer than this, in seconds of the recording: a stall is shown by its cast.
_LONGEST_PAUSE = 120.0
_DATA_BYTES = 4 << 20
#: What the innermost processes do in each phase of a start that goes well.
_BUSY = {"launch": "spin", "weight_load": "read", "kv_init": "compile", "graph_capture": "spin", "runtime": "idle"}


def schedule(folder: Path) -> Iterator[tuple[float, bytes]]:
    """(seconds since the launch, bytes to print then), in order. Raises OSError when there is no log."""
    data = (folder / "log.txt").read_bytes()
    timed = list(_recorded(folder, data))
    yield from timed or _printed(data)


def _recorded(folder: Path, data: bytes) -> Iterator[tuple[float, bytes]]:
    at = 0
    for entry in _entries(folder):
        if isinstance(entry.get("log"), int):
            yield float(entry.get("t", 0.0)), data[at : at + entry["log"]]
            at += entry["log"]


def _entries(folder: Path) -> Iterator[Mapping[str, Any]]:
    path = folder / "samples.jsonl"
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry


def _printed(data: bytes) -> Iterator[tuple[float, bytes]]:
    """By the time stamps of the log; what has none comes right after the line before it."""
    reader, origin, now = EventReader(), None, 0.0
    stamped = False
    for number, line in enumerate(data.splitlines(keepends=True)):
        splitter = LineSplitter()
        for event in reader.read([*splitter.feed(line), *splitter.close()]):
            if event.time is not None:
                stamped = True
                origin = event.time if origin is None else origin
                now = max(now, event.time - origin)
        yield (now if stamped else number / _LINES_PER_SECOND), line


class Play:
    """One performance."""

    def __init__(
        self, folder: Path, speed: float, cast: Mapping[str, str], place: Path, linger: float = math.inf
    ) -> None:
        """`cast` says what each role does once the log has been played; `place` is an empty folder; after `linger` seconds
        a start that would wait for a signal ends by itself."""
        self._linger = linger
        self._folder = folder
        self._speed = speed
        self._cast = cast
        self._data = place / "weights.safetensors"
        self._data.write_bytes(os.urandom(1024) * (_DATA_BYTES // 1024))
        self._actors: dict[str, Actor] = {}
        self._timeline = Timeline()
        self._reader = EventReader()
        self._splitter = LineSplitter()
        self._moments = list(moments(_entries(folder)))
        #: recorded pid -> name of the stand-in, the last one that it took
        self._names = {pid: name for _, moment in self._moments for pid, (name, _) in moment.items()}
        self._on_stage: set[int] = set()

    def run(self) -> int:
        """Play to the end; the exit status."""
        begun = time.monotonic()
        before = 0.0
        skipped = 0.0
        for t, part in self._parts():
            skipped += max(0.0, t - before - _LONGEST_PAUSE)
            before = t
            time.sleep(max(0.0, (t - skipped) / self._speed - (time.monotonic() - begun)))
            if isinstance(part, Moment):
                self._stage(part)
                continue
            self._follow(part)
            sys.stdout.buffer.write(_PID.sub(self._own_pid, part))
            sys.stdout.buffer.flush()
        for role, behaviour in self._cast.items():
            self._actor(role).do(behaviour)
        return self._end()

    def close(self) -> None:
        """End all stand-ins, stopped ones too."""
        for actor in self._actors.values():
            actor.die()

    def _parts(self) -> Iterator[tuple[float, bytes | Moment]]:
        """Output and, of a session, what the processes did, in order of time."""
        return heapq.merge(schedule(self._folder), self._moments, key=lambda part: part[0])

    def _stage(self, moment: Moment) -> None:
        """Every process does what it did then; one that was gone ends."""
        for pid, (_, behaviour) in moment.items():
            self._actor(self._names[pid]).do(behaviour)
        for pid in self._on_stage - set(moment):
            if actor := self._actors.pop(self._names[pid], None):
                actor.die()
        self._on_stage = set(moment)

    def _own_pid(self, found: re.Match[bytes]) -> bytes:
        """A recorded process id becomes that of the stand-in; the outermost process is this one."""
        name = self._names.setdefault(int(found[3]), found[1].decode("ascii", "replace"))
        pid = self._actor(name).pid if name in self._actors or depth(name) > 0 else os.getpid()
        return found[1] + found[2] + str(pid).encode()

    def _follow(self, data: bytes) -> None:
        for event in self._reader.read(self._splitter.feed(data)):
            self._timeline.feed(event)
            if event.process and depth(event.process) > 0:
                known = event.pid is not None and event.pid in self._names
                self._actor(self._names[event.pid] if known and event.pid is not None else event.process)
        if self._moments:
            return
        step = self._timeline.furthest
        if step is not None and self._actors:
            inner = max(depth(role) for role in self._actors)
            for role, actor in self._actors.items():
                actor.do(_BUSY[phase_of(step)] if depth(role) == inner else "idle")

    def _actor(self, role: str) -> Actor:
        if role not in self._actors:
            self._actors[role] = Actor(f"VLLM::{role}" if depth(role) > 0 else role, self._data)
        return self._actors[role]

    def _end(self) -> int:
        ended = [entry["exit"] for entry in _entries(self._folder) if isinstance(entry.get("exit"), dict)]
        if ended and ended[0].get("asked") is None:
            name = ended[0].get("signal")
            if isinstance(name, str) and name in signal.Signals.__members__:
                with contextlib.suppress(OSError):
                    signal.signal(signal.Signals[name], signal.SIG_DFL)
                os.kill(os.getpid(), signal.Signals[name])
            return int(ended[0].get("status", 1))
        if not ended and kind_of(self._folder) == "crash":
            return 1
        stopped: list[int] = []
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda number, frame: stopped.append(number))
        end = time.monotonic() + self._linger
        while not stopped and time.monotonic() < end:
            time.sleep(0.05)
        return 0


def kind_of(folder: Path) -> str:
    """What its case.json says: crash, stall, healthy, ...; `crash` where there is none."""
    try:
        return str(json.loads((folder / "case.json").read_text(encoding="utf-8"))["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return "crash"


def cast_of(text: str) -> dict[str, str]:
    """`Worker_TP0=spin,Worker_TP1=stopped` as a mapping. Raises ValueError for anything else."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    if any(not role or not sign or not behaviour for role, sign, behaviour in pairs):
        raise ValueError(f"{text!r} is not ROLE=BEHAVIOUR,...")
    return {role: behaviour for role, _, behaviour in pairs}


def main(argv: list[str]) -> int:
    """The performance as a program."""
    parser = argparse.ArgumentParser(prog="playback")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--cast", type=cast_of, default={})
    parser.add_argument("--linger", type=float, default=math.inf)
    # What else `vllm serve` would take is of no matter here.
    options, _ = parser.parse_known_args(argv)
    with tempfile.TemporaryDirectory(prefix="vdoctor-play-") as place:
        play = Play(options.folder, options.speed, options.cast, Path(place), options.linger)
        try:
            return play.run()
        finally:
            play.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
