"""Events of a watched server as JSON lines, for programs: phases, verdicts on its motion, findings, ready, exit."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import stat
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdoctor.errors import UserError
from vdoctor.model import PHASES, Event, Exit, Finding, Report, phase_of

if TYPE_CHECKING:
    from vdoctor.live.watcher import Watcher

#: A reader of a pipe that does not read loses the oldest events beyond this number.
_KEPT = 1000
#: A pipe that is ready takes so much without blocking (PIPE_BUF).
_AT_ONCE = 4096
#: Looking for findings may take this part of the time.
_SHARE = 50
_GRAVE = ("WARNING", "ERROR", "CRITICAL")


class EventFile:
    """JSON lines into a file, a pipe or a descriptor; never waits for a reader."""

    def __init__(self, path: str) -> None:
        """Raises UserError when the file cannot be written. A pipe that nobody reads yet is opened later."""
        self._path = path
        self._fd: int | None = None
        self._lines: deque[bytes] = deque(maxlen=_KEPT)
        self._rest = b""
        try:
            self._open()
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written: {error.strerror}", "give --events another file, or a named pipe"
            ) from None

    def _open(self) -> None:
        if self._path == "-":
            self._fd = os.dup(1)
            return
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        except OSError as error:
            # Without O_NONBLOCK this would wait for somebody who opens the other end.
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(Path(self._path).stat().st_mode):
                raise

    def write(self, event: Mapping[str, Any]) -> None:
        """Queue one event, and write what the reader takes."""
        self._lines.append(
            json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        )
        self.flush()

    def flush(self) -> None:
        """Write as much as is taken now; a reader that went away may come back."""
        if self._fd is None:
            if not self._lines:
                return
            with contextlib.suppress(OSError):
                self._open()
        while self._fd is not None and (self._rest or self._lines):
            self._rest = self._rest or self._lines.popleft()
            try:
                if not select.select([], [self._fd], [], 0)[1]:
                    return
                self._rest = self._rest[os.write(self._fd, self._rest[:_AT_ONCE]) :]
            except BlockingIOError:
                return
            except OSError:
                # A full disk or a closed pipe: this event is lost.
                self._rest = b""
                self._shut()

    def close(self) -> None:
        """Write what is still taken, and close."""
        self.flush()
        self._shut()

    def _shut(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None


class Announcer:
    """Compares what the watcher knows with what was told, and writes the difference."""

    def __init__(self, file: EventFile, lang: str) -> None:
        self._file = file
        self._lang = lang
        self._step: str | None = None
        self._ready = False
        self._motion: tuple[object, ...] | None = None
        self._told: set[str] = set()
        self._dirty = False
        self._due = 0.0
        self._dumps = 0

    def heard(self, events: list[Event]) -> None:
        """Whether a look at the findings may be worth it."""
        self._dirty = self._dirty or any(e.level in _GRAVE or e.kind == "traceback" for e in events)

    def started(self, t: float, pid: int, command: list[str]) -> None:
        """The child runs, or the following began (pid 0)."""
        self._write(t, "start", pid=pid or None, command=command or None)

    def work(self, watcher: Watcher) -> None:
        """At each tick."""
        self._phase(watcher)
        self._moved(watcher)
        self._dirty = self._dirty or watcher.dumps != self._dumps
        self._dumps = watcher.dumps
        now = time.monotonic()
        if self._dirty and now >= self._due:
            self._dirty = False
            motion = watcher.motion
            stalled = motion is not None and motion.state == "stalled"
            self._findings(watcher.elapsed, watcher.report(""), final=stalled)
            # Reports of long logs take their time: seldom enough that nobody notices.
            self._due = now + max(1.0, _SHARE * (time.monotonic() - now))
        self._file.flush()

    def died(self, watcher: Watcher, report: Report) -> None:
        """The child has ended; the last event comes when all of its processes have."""
        self._findings(watcher.elapsed, report, final=True)
        self._file.flush()

    def ended(self, watcher: Watcher, report: Report, end: Exit | None) -> None:
        """The last events."""
        self._phase(watcher)
        self._findings(watcher.elapsed, report, final=True)
        self._write(
            end.t if end else watcher.elapsed,
            "exit",
            status=end.status if end else None,
            signal=end.signal if end else None,
            asked=end.asked if end else None,
            verdict=report.verdict,
            finding=report.findings[0].id if report.findings else None,
        )
        self._file.close()

    def _phase(self, watcher: Watcher) -> None:
        step = watcher.examination.timeline.furthest
        if step is not None and step != self._step:
            before = self._step
            self._step = step
            if before is None or phase_of(before) != phase_of(step):
                self._passed(watcher, before, step)
                self._write(watcher.elapsed, "phase", phase=phase_of(step), step=step)
        if watcher.examination.timeline.ready and not self._ready:
            self._ready = True
            self._write(watcher.elapsed, "ready")

    def _passed(self, watcher: Watcher, before: str | None, step: str) -> None:
        """Phases that came and went since the last look: lines come in bursts."""
        first: dict[str, str] = {}
        for span in watcher.examination.timeline.spans():
            first.setdefault(phase_of(span.step), span.step)
        earlier = PHASES[: PHASES.index(phase_of(before)) + 1] if before else ()
        for phase in PHASES[: PHASES.index(phase_of(step))]:
            if phase in first and phase not in earlier:
                self._write(watcher.elapsed, "phase", phase=phase, step=first[phase])

    def _moved(self, watcher: Watcher) -> None:
        motion = watcher.motion
        if motion is None:
            return
        now = (motion.state, motion.step, motion.kind, motion.process)
        if now != self._motion:
            self._motion = now
            # What hangs here most often is worth a look now.
            self._dirty = self._dirty or motion.state == "stalled"
            self._write(
                watcher.elapsed,
                "motion",
                state=motion.state,
                step=motion.step,
                kind=motion.kind,
                process=motion.process,
                pid=motion.pid,
                since=round(motion.since, 1),
                waiting=list(motion.waiting),
                doing=motion.doing,
                percent=motion.percent,
                rate=motion.rate,
                eta=motion.eta,
            )

    def _findings(self, t: float, report: Report, *, final: bool) -> None:
        for finding in report.findings:
            # What is merely possible now may be nothing in a second.
            if finding.rule in self._told or (not final and finding.confidence == "possible"):
                continue
            self._told.add(finding.rule)
            self._write(t, "finding", **_of(finding, self._lang))

    def _write(self, t: float, event: str, **values: Any) -> None:
        self._file.write({"t": round(t, 3), "event": event, **values})


def _of(finding: Finding, lang: str) -> dict[str, Any]:
    evidence = finding.evidence[0] if finding.evidence else None
    return {
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "phase": finding.phase,
        "title": finding.title.get(lang, ""),
        "line": evidence.line if evidence else None,
        "command": next((fix.command for fix in finding.fixes if fix.command), None),
    }
