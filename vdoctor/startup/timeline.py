"""Events to spans: what each process did when, and how far the server came."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from vdoctor.model import PHASES, STEPS, Event, PhaseTime, Span, phase_of
from vdoctor.startup.markers import Marker, find, find_bar

#: Name of the process in logs whose lines carry no process tag (V0, and V1 to 0.9 without data parallelism).
MAIN = "main"
_ORDER = {step: rank for rank, step in enumerate(STEPS)}
_V2_RUNNER = re.compile(r"Using V2 Model Runner")
_V1_RUNNER = re.compile(r"using the V1 model runner instead")
_VERSION = re.compile(r"version v?(\d{1,4})\.(\d{1,4})|engine \(v(\d{1,4})\.(\d{1,4})")

#: What else of a record is read besides markers.
PATTERNS = (_V2_RUNNER.pattern, _V1_RUNNER.pattern, _VERSION.pattern)


def _seconds(text: str) -> float | None:
    """None for digits and points that are no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def depth(process: str) -> int:
    """How far inside a process is: 0 API server, 1 engine core, 2 worker."""
    if process.startswith(("Worker", "VllmWorker", "RayWorker")):
        return 2
    return 1 if process.startswith(("EngineCore", "DPEngineCoreActor")) else 0


@dataclass(slots=True)
class _Open:
    step: str
    start: float | None
    first_line: int
    last_line: int


@dataclass(slots=True)
class _Track:
    """One process: its newest name and its steps."""

    name: str
    open: _Open | None = None
    done: list[Span] = field(default_factory=list)


class Timeline:
    """Follows markers. Fed with events in order; may be asked at any time."""

    def __init__(self) -> None:
        self._tracks: dict[object, _Track] = {}
        self._origin: float | None = None
        self._first: dict[str, tuple[float | None, int]] = {}
        self._v2_runner = False
        self.v2_runner_seen = False
        self._kv_sized = False
        self._loader: object = None
        self._api: object = None
        self.now: float | None = None
        self.furthest: str | None = None
        self.last_marker: str = ""
        self.ready = False
        #: ready in this start or an earlier one
        self.served = False
        self.ready_line: int | None = None
        self.shutdown_line: int | None = None
        self.progress_line = 0
        self.starts = 0
        #: set by the caller when it saw this start die
        self.broken = False
        self.seen = 0

    # ------------------------------------------------------------------ feeding

    def feed(self, event: Event) -> str | None:
        """Take the next event; returns the step that it entered, None when it is no marker."""
        if event.time is not None:
            if self._origin is None:
                self._origin = event.time
            self.now = event.time - self._origin
        if event.block is not None:
            return None
        text = event.bar.desc if event.bar else event.text
        found = find_bar(text) if event.bar else find(text)
        self._notice_runner(text)
        if found is None:
            self._touch(event)
            return None
        marker, match = found
        took = _seconds(match["took"]) if "took" in match.re.groupindex else None
        return self._apply(event, marker, took)

    def _apply(self, event: Event, marker: Marker, took: float | None) -> str | None:
        self.seen += 1
        if marker.role == "shutdown":
            self.shutdown_line = self.shutdown_line or event.line
            return None
        if marker.role == "banner":
            self._restart(event)
        if marker.role == "kv_sized":
            self._kv_sized = True
        step = marker.step
        if phase_of(step) == "graph_capture" and self._profiling():
            # Model Runner V2 captures once for real while it profiles memory: bar and "finished" come twice.
            step = "kv_init.profile"
        key = self._key(event, step)
        if marker.role == "serving" and not self.ready and not self._may_serve():
            # A request line in the middle of a start belongs to another server in the same log.
            return None
        self._enter(key, event, step, marker, took)
        self.last_marker = event.text if not event.bar else event.bar.desc
        if marker.role == "engine_ready":
            self._close_others(event)
        if marker.role == "ready" or (marker.role == "serving" and step == "runtime.serving"):
            self.ready = self.served = True
            self.ready_line = self.ready_line or event.line
        return step

    def _may_serve(self) -> bool:
        """The engine is up, or the log is the tail of a running server: nothing but serving so far."""
        return self.furthest is None or phase_of(self.furthest) == "runtime"

    def _restart(self, event: Event) -> None:
        """A second banner begins a new start when the first one broke, or had come further than its arguments.

        Times and spans are those of the last start.
        """
        if self.starts == 0:
            self.starts = 1
            return
        if not self.broken and self.furthest in (None, "launch.config"):
            return
        self.starts += 1
        self._tracks.clear()
        self._first.clear()
        self._loader = self._api = None
        self._origin, self.now = event.time, None if event.time is None else 0.0
        self.furthest, self.ready, self.ready_line, self.shutdown_line = None, False, None, None
        self._kv_sized = False

    def _profiling(self) -> bool:
        return self._v2_runner and not self._kv_sized and self._came_by("weight_load.init")

    def _came_by(self, step: str) -> bool:
        return self.furthest is not None and _ORDER[self.furthest] >= _ORDER[step]

    def _notice_runner(self, text: str) -> None:
        if "unner" in text:
            if _V2_RUNNER.search(text):
                self._v2_runner = self.v2_runner_seen = True
            elif _V1_RUNNER.search(text):
                self._v2_runner = False
        elif "version" in text or "engine (v" in text:
            found = _VERSION.search(text)
            if found:
                major, minor = (int(part) for part in found.groups() if part is not None)
                # From 0.29 on V2 is the default for everything and announces itself only at the worker.
                self._v2_runner = (major, minor) >= (0, 29)

    # ------------------------------------------------------------------ tracks

    def _key(self, event: Event, step: str) -> object:
        if event.process:
            return event.pid if event.pid is not None else event.process
        # From 0.32 on bars carry no tag; only the first rank draws them: the process that began to load.
        if (event.bar or phase_of(step) in ("weight_load", "graph_capture")) and self._loader is not None:
            return self._loader
        # uvicorn's own lines lost their tag there, too.
        if phase_of(step) == "runtime" and self._api is not None:
            return self._api
        return MAIN

    def _track(self, key: object, event: Event) -> _Track:
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = _Track(event.process or MAIN)
        elif event.process and len(event.process) >= len(track.name):
            # "Worker" becomes "Worker_TP0_EP0" once its groups exist.
            track.name = event.process
        return track

    def _touch(self, event: Event) -> None:
        key = event.pid if event.process and event.pid is not None else event.process or MAIN
        track = self._tracks.get(key)
        if track is None:
            return
        if event.process and len(event.process) > len(track.name):
            track.name = event.process
        if track.open:
            track.open.last_line = event.line

    def _enter(self, key: object, event: Event, step: str, marker: Marker, took: float | None) -> None:
        track = self._track(key, event)
        if step == "weight_load.init" and (event.process or self._loader is None):
            self._loader = (
                key if self._loader is None or self._step_of(self._loader) != "weight_load.init" else self._loader
            )
        elif self._api is None and event.process and depth(event.process) == 0:
            self._api = key
        at = self.now
        if depth(track.name) > 0:
            self._close_waiting(depth(track.name), event)
        if marker.ended and took is not None and at is not None and marker.ended != step:
            self._back_date(track, marker.ended, max(0.0, at - took), event.line)
        if track.open and track.open.step == step:
            track.open.last_line = event.line
        elif track.open is None or self._moves_on(track.open.step, step):
            self._close(track, at, event.line)
            track.open = _Open(step, at, event.line, event.line)
            self.progress_line = event.line
        else:
            track.open.last_line = event.line
        if self.furthest is None or self._moves_on(self.furthest, step):
            self.furthest = step
        self._first.setdefault(phase_of(step), (at, event.line))

    def _step_of(self, key: object) -> str | None:
        track = self._tracks.get(key)
        return track.open.step if track and track.open else None

    @staticmethod
    def _moves_on(now: str, to: str) -> bool:
        """Going back inside kv_init is normal (profile, compile, profile); between phases it is an echo."""
        if phase_of(now) == phase_of(to) and phase_of(now) in ("kv_init", "graph_capture"):
            return True
        return _ORDER[to] > _ORDER[now]

    def _back_date(self, track: _Track, step: str, start: float, line: int) -> None:
        """vLLM says how long the step took that just ended: cut it out of the step that was open."""
        if not track.open or track.open.step == step or track.open.start is None:
            return
        if phase_of(track.open.step) == phase_of(step) and track.open.start < start:
            self._close(track, start, line)
            track.open = _Open(step, start, line, line)

    def _close(self, track: _Track, at: float | None, line: int) -> None:
        if track.open is None:
            return
        o = track.open
        if at is not None and o.start is not None:
            at = max(at, o.start)  # logs put together run backwards
        track.done.append(Span(track.name, o.step, o.start, at, o.first_line, max(o.last_line, line - 1)))
        track.open = None

    def _close_waiting(self, deeper_than: int, event: Event) -> None:
        """A child is at work: its parents have done their part of the launch and wait for it."""
        for track in self._tracks.values():
            if track.open and phase_of(track.open.step) == "launch" and depth(track.name) < deeper_than:
                self._close(track, self.now, event.line)

    def _close_others(self, event: Event) -> None:
        """The engine is ready: whatever a worker did last is over."""
        for track in self._tracks.values():
            if track.open and phase_of(track.open.step) != "runtime":
                self._close(track, self.now, event.line)

    # ------------------------------------------------------------------ answers

    @property
    def origin(self) -> float | None:
        """Time 0 of the spans on the clock of the events; None while no line had a time."""
        return self._origin

    def elapsed(self, seen: float | None) -> float | None:
        """Seconds from the origin to the last line, or to `seen`, the last look at a server that says nothing more."""
        if self.now is None or self._origin is None or seen is None:
            return self.now
        return max(self.now, seen - self._origin)

    def serving(self) -> set[int | str | None]:
        """Pids (names where there is no pid) of the processes that are seen to serve; None: lines without a tag say so."""
        found = {k for k, track in self._tracks.items() if track.open and track.open.step == "runtime.serving"}
        if (MAIN if self._api is None else self._api) in found:
            found.add(None)
        return found  # type: ignore[return-value]

    def working(self) -> list[tuple[int, str]]:
        """Pid and name of the processes that are in some step."""
        return [(key, track.name) for key, track in self._tracks.items() if track.open and isinstance(key, int)]

    def step_at(self, event: Event) -> str | None:
        """The step of the process that wrote this event, else how far the server has come.

        Ranks go in step and most lines are printed by the first one alone, and a parent waits for its children:
        the most advanced process at or below the writer speaks for all of them.
        """
        if event.process:
            role = depth(event.process)
            own = [t.open.step for t in self._tracks.values() if t.open and (depth(t.name) >= role or t.name == MAIN)]
            step = max(own, key=_ORDER.__getitem__, default=None)
            if step and phase_of(step) != "launch":
                return step
        return self.furthest

    def spans(self) -> tuple[Span, ...]:
        """All spans, by process in order of appearance; a span that is still open has no end."""
        found: list[Span] = []
        for track in self._tracks.values():
            found.extend(Span(track.name, s.step, s.start, s.end, s.first_line, s.last_line) for s in track.done)
            if track.open:
                o = track.open
                found.append(Span(track.name, o.step, o.start, None, o.first_line, o.last_line))
        return tuple(found)

    def phases(self) -> tuple[PhaseTime, ...]:
        """The server's phases from the first process that entered each one to the next phase."""
        entered = [(phase, self._first[phase][0]) for phase in PHASES if phase in self._first]
        if not entered:
            return ()
        if entered[0][0] == "launch":
            entered[0] = ("launch", 0.0 if self._origin is not None else None)
        ends: list[float | None] = [start for _, start in entered[1:]]
        ends.append(None)
        return tuple(PhaseTime(phase, start, end) for (phase, start), end in zip(entered, ends, strict=True))
