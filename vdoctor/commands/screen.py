"""What a person sees while a server is watched, on standard error, without touching the server's output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from vdoctor.commands.streams import draw, terminal_width
from vdoctor.diagnose import Examination
from vdoctor.live.announce import Announcer
from vdoctor.live.watcher import Watcher
from vdoctor.model import PHASES, Event, Exit, Motion, Report, phase_of
from vdoctor.report.motion import motion_line
from vdoctor.report.panel import Curve, View, panel
from vdoctor.report.status import memory
from vdoctor.report.unseen import unseen_lines
from vdoctor.report.words import word

if TYPE_CHECKING:
    from vdoctor.launch.endpoint import Endpoint
    from vdoctor.live.session import Recorder
    from vdoctor.rulebase.schema import RuleBase

#: Seconds between two pictures of the panel: figures that change faster are not read.
_REDRAW = 0.2
#: The second Ctrl-C says what the third will do.
_WARN_AT = 2


class Screen(Watcher):
    """A watcher that shows where the launch is: a panel on a terminal, else a line for each phase and verdict."""

    def __init__(
        self,
        examination: Examination,
        recorder: Recorder | None,
        interval: float,
        lang: str,
        *,
        quiet: bool,
        color: bool,
        stop_when: Callable[[Examination, float], bool] | None = None,
        tell_ready: bool = True,
        announcer: Announcer | None = None,
        measure_after_ready: float | None = None,
        rules: RuleBase | None = None,
        endpoint: Endpoint | str = "the command is not known",
        draw: Callable[[Report], str] | None = None,
    ) -> None:
        """`tell_ready`: show the timeline as soon as the server is ready; `announcer`: who else hears of events; `draw`:
        a report as text, where it is not simply shown (redaction)."""
        super().__init__(
            examination,
            recorder,
            interval=interval,
            stop_when=stop_when,
            measure_after_ready=measure_after_ready,
            rules=rules,
            endpoint=endpoint,
        )
        self.color = color
        self._lang = lang
        self._silent = quiet
        self._terminal = sys.stderr.isatty()
        self._announcer = announcer
        self._phase: str | None = None
        self._motion: tuple[str, str | None, str | None] | None = None
        self._told_ready = not tell_ready
        self._told_stalls: set[tuple[str, str | None, str | None]] = set()
        self._draw = draw
        self._dumps = 0
        self._chief: tuple[str, str] | None = None
        self._told_end: tuple[object, ...] | None = None
        self._shown = 0.0
        self._curves: dict[int, Curve] = {}
        self.command: list[str] = []
        #: The source in the report where nothing is recorded.
        self.name = "child"

    def finish(self, recorder: Recorder | None, end: Exit | None) -> Report:
        """Close the recording, give the final report."""
        report = self.report(str(recorder.folder) if recorder is not None else self.name)
        if recorder is not None:
            recorder.close(end, label(report))
        if self._announcer is not None:
            self._announcer.ended(self, report, end)
        return report

    def say(self, text: str) -> None:
        """Whole lines on standard error, between those of the child."""
        if self.feed is not None:
            self.feed.say(text)
        else:
            draw(text)

    # ------------------------------------------------------------------ hooks

    def on_started(self, pid: int) -> None:
        """Tell programs that it runs."""
        if self._announcer is not None:
            self._announcer.started(0.0, pid, self.command)

    def on_events(self, events: list[Event]) -> None:
        """Tell once when the server is ready."""
        if self._announcer is not None:
            self._announcer.heard(events)
        if events and not self._silent and not self._terminal:
            self._say_phase(self.elapsed)
        if self.examination.timeline.ready and not self._told_ready and not self._silent:
            self._told_ready = True
            self._say_report()

    def on_died(self, report: Report) -> None:
        """The diagnosis, before those that outlive the child are ended."""
        if self._announcer is not None:
            self._announcer.died(self, report)
        if not self._silent:
            self._told_end = _gist(report)
            self._say_report(report)

    def has_told(self, report: Report) -> bool:
        """Nothing new has come to light since the end was told."""
        return self._told_end == _gist(report)

    def on_tick(self, t: float) -> None:
        """Redraw the line on a terminal; else say each new phase and each new verdict once."""
        if self._announcer is not None:
            self._announcer.work(self)
        if self._silent:
            return
        if self._terminal:
            self._show(t)
        else:
            self._say_phase(t)
        self._say_motion(t)

    def on_unseen(self) -> None:
        """Say what was not seen of the stall, and what would permit it."""
        if not self._silent:
            self.say("".join(f"vdoctor: {line}\n" for line in unseen_lines(self.report(""), self._lang)))

    def interrupted(self, times: int) -> None:
        """Say what the next Ctrl-C does."""
        if times >= _WARN_AT and not self._silent:
            self.say(f"vdoctor: {word('interrupt_kills' if times == _WARN_AT else 'killed_now', self._lang)}\n")

    def unwritten(self, stream: int, reason: str) -> None:
        """A full disk behind the server's output: said at once, the server goes on."""
        if not self._silent:
            kept = word("kept", self._lang) if self.recorder is not None and self.recorder.failed is None else ""
            name = word("stdout" if stream == 1 else "stderr", self._lang)
            self.say(f"vdoctor: {word('unwritten', self._lang).format(name=name, reason=reason)}{kept}\n")

    def left(self, number: int) -> None:
        """The child ended before its other processes."""
        if not self._silent and number:
            self.say(f"vdoctor: {word('left_behind', self._lang).format(count=number)}\n")

    def on_record_failed(self, error: OSError) -> None:
        """A disk that is full: said at once, the child goes on."""
        folder = self.recorder.folder if self.recorder is not None else ""
        self.say(f"vdoctor: {folder}: recording stopped: {error}\n")

    # ------------------------------------------------------------------ inside

    def _show(self, t: float) -> None:
        if self.feed is None:
            return
        if self.examination.timeline.ready:
            self.feed.show(())
        elif time.monotonic() - self._shown >= _REDRAW:
            self._shown = time.monotonic()
            self.feed.show(tuple(panel(self._view(t), width=terminal_width(2))))

    def _view(self, t: float) -> View:
        timeline, sample = self.examination.timeline, self.last_sample
        for gpu in sample.gpus if sample is not None else ():
            if gpu.memory_used is not None and gpu.memory_total:
                curve = self._curves.setdefault(gpu.index, Curve())
                curve.add(t, gpu.memory_used / gpu.memory_total)
        verdict = motion_line(self.motion, self._lang) if self.motion is not None else None
        return View(t, timeline.furthest, timeline.phases(), sample, self.last_bar, self._curves, verdict)

    def _say_phase(self, t: float) -> None:
        step = self.examination.timeline.furthest
        phase = phase_of(step) if step else None
        if phase is not None and phase != self._phase and phase in PHASES:
            self._phase = phase
            rest = "  ".join(memory(self.last_sample))
            self.say(f"vdoctor: {t:.1f} s  {phase}" + (f"  {rest}" if rest else "") + "\n")

    def _say_motion(self, t: float) -> None:
        """A start that is slow or stalls, with the reason, and one that goes on after that."""
        motion = self.motion
        if self.dumps != self._dumps and not self.behind:
            self._dumps = self.dumps
            if motion is not None and motion.state == "stalled" and _chief(self.report("")) != self._chief:
                self._say_report()
        if motion is None or (self._motion is None and motion.state == "progressing"):
            return
        if (now := verdict_of(motion)) != self._motion:
            self._motion = now
            if not self._terminal:
                self.say(f"vdoctor: {t:.1f} s  {motion_line(motion, self._lang)}\n")
            if motion.state == "stalled" and now not in self._told_stalls:
                self._told_stalls.add(now)
                self._say_report()

    def _say_report(self, report: Report | None = None) -> None:
        """The report, by default on what is known now, above what the child prints next."""
        from vdoctor.report.text import render

        if self.feed is not None:
            self.feed.show(())
        report = report or self.report("")
        self._chief = _chief(report)
        if self._draw is not None:
            self.say(self._draw(report))
        else:
            self.say(render(report, lang=self._lang, color=self.color, width=terminal_width(2)))


def _chief(report: Report) -> tuple[str, str] | None:
    """What a report says first."""
    return (report.findings[0].rule, report.findings[0].confidence) if report.findings else None


def _gist(report: Report) -> tuple[object, ...]:
    """What a second report on the same end would have to differ in to be worth reading."""
    end = (report.exit.status, report.exit.signal, report.exit.asked) if report.exit is not None else None
    rules = tuple((finding.rule, finding.confidence, finding.evidence) for finding in report.findings)
    return report.verdict, report.phase, report.step, end, rules


def verdict_of(motion: Motion) -> tuple[str, str | None, str | None]:
    """What makes one verdict differ from another; while all is well, nothing does."""
    return (motion.state, None, None) if motion.state == "progressing" else (motion.state, motion.kind, motion.process)


def label(report: Report) -> dict[str, object]:
    """case.json: what was found, in the form of a fixture's label."""
    kinds = {"failed": "crash", "stalled": "stall", "incomplete": "stall", "degraded": "runtime"}
    version = report.facts.get("vllm.version")
    return {
        "id": report.findings[0].id if report.findings else report.verdict,
        "also": [finding.id for finding in report.findings[1:]],
        "phase": report.phase,
        "kind": kinds.get(report.verdict, report.verdict),
        "vllm_version": version.value if version else None,
        "gpu": report.facts["gpu.name"].value if "gpu.name" in report.facts else None,
        "note": "recorded by vdoctor watch; the id is its own finding",
    }
