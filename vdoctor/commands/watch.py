"""vdoctor watch: run a command, follow its start-up, diagnose its end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs

from vdoctor.commands.examine import check_output, emit, render, tell, terminal_width, use_color
from vdoctor.commands.privacy import redactor_for, tell_redaction
from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse
from vdoctor.live.child import CannotStart
from vdoctor.live.session import Recorder
from vdoctor.live.watcher import Watcher
from vdoctor.model import PHASES, Event, Exit, Report, phase_of
from vdoctor.report.status import memory, status_line
from vdoctor.report.words import word
from vdoctor.store import load_rules

#: The status line waits so long after output, so that it does not flicker between two lines.
_CALM = 0.25


def watch(
    command: Sequence[str],
    *,
    session: Path | None,
    no_session: bool,
    interval: float,
    quiet: bool,
    form: str,
    output: str | None,
    lang: str,
    rules: Sequence[Path],
    color: bool,
    verbose: bool,
    redact: bool | None = None,
) -> int:
    """Run `command`; returns the exit status of `watch` (the child's own, 126, 127)."""
    command = list(command[1:] if command[:1] == ("--",) else command)
    if not command:
        raise UserError("no command given", "vdoctor watch -- vllm serve MODEL ...")
    check_output(output)
    base = load_rules(rules)
    examination = Examination(base, option_tables.load(), parse(command))
    recorder = None if no_session else _recorder(session, command)
    screen = Screen(examination, recorder, interval, lang, quiet=quiet, color=use_color(color, sys.stderr.isatty()))
    try:
        end = screen.run(command, os.environ)
    except CannotStart as error:
        print(f"vdoctor: {error}", file=sys.stderr)
        if recorder is not None:
            recorder.close(None, {"id": "", "kind": "crash", "note": str(error)})
        return error.status
    report = screen.finish(recorder, end)
    if not quiet and not (form != "text" and output is not None):
        told = redactor_for(form, None, redact, sys.stderr)
        width = terminal_width(2)
        text = render([report], form, lang, color=screen.color, verbose=verbose, width=width, redactor=told)
        tell("\n" + text)
        if recorder is not None:
            tell(f"{word('session', lang)}: {recorder.folder}\n")
    if recorder is not None and recorder.failed is not None:
        tell(f"vdoctor: {recorder.folder}: recording stopped: {recorder.failed}\n")
    if output is not None:
        redactor = redactor_for(form, output, redact)
        emit(render([report], form, lang, color=False, verbose=verbose, redactor=redactor), output)
        if not quiet:
            tell_redaction(redactor, lang)
    return end.status


class Screen(Watcher):
    """A watcher that shows where the launch is, on standard error, without touching the child's output."""

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
    ) -> None:
        """`tell_ready`: show the timeline as soon as the server is ready."""
        super().__init__(examination, recorder, interval=interval, stop_when=stop_when)
        self.color = color
        self._lang = lang
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        #: Outputs that end where the status line stands; what a redirected one carries does not touch it.
        self._beside = [fd for fd in (1, 2) if os.isatty(fd)] if self._terminal else [1, 2]
        self._shown = False
        self._line_open = False
        self._written = 0.0
        self._phase: str | None = None
        self._told_ready = not tell_ready

    def finish(self, recorder: Recorder | None, end: Exit) -> Report:
        """Clear the line, close the recording, give the final report."""
        self._clear()
        report = self.report(" ".join(recorder_name(recorder)))
        if recorder is not None:
            recorder.close(end, label(report))
        return report

    def before_write(self, target: int) -> None:
        """The child's output takes the place of the status line."""
        if target in self._beside:
            self._clear()

    def after_write(self, target: int, data: bytes) -> None:
        """Remember whether the cursor stands at the start of a line."""
        if target in self._beside:
            self._line_open = not data.endswith(b"\n")
            self._written = time.monotonic()

    def on_events(self, events: list[Event]) -> None:
        """Tell once when the server is ready."""
        if self.examination.timeline.ready and not self._told_ready and not self._quiet:
            self._told_ready = True
            if not self._line_open:
                from vdoctor.report.text import render as render_text

                self._clear()
                tell(render_text(self.report(""), lang=self._lang, color=self.color, width=terminal_width(2)))

    def on_tick(self, t: float) -> None:
        """Redraw the line on a terminal; else say each new phase once."""
        if self._quiet or self._line_open:
            return
        if not self._terminal:
            self._say_phase(t)
        elif time.monotonic() - self._written >= _CALM and not self.examination.timeline.ready:
            step = self.examination.timeline.furthest
            tell(f"\r\x1b[2K{status_line(step, t, self.last_sample, self.last_bar, terminal_width(2))}")
            self._shown = True

    def _say_phase(self, t: float) -> None:
        step = self.examination.timeline.furthest
        phase = phase_of(step) if step else None
        if phase is not None and phase != self._phase and phase in PHASES:
            self._phase = phase
            rest = "  ".join(memory(self.last_sample))
            tell(f"vdoctor: {t:.1f} s  {phase}" + (f"  {rest}" if rest else "") + "\n")

    def _clear(self) -> None:
        if self._shown:
            tell("\r\x1b[2K")
            self._shown = False


def recorder_name(recorder: Recorder | None) -> tuple[str, ...]:
    """The name of the source in the report: the session folder, or the child."""
    return (str(recorder.folder),) if recorder is not None else ("child",)


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


def _recorder(session: Path | None, command: list[str]) -> Recorder | None:
    """The folder that the user named must do; where nobody named one, a launch goes before its recording."""
    if session is not None:
        return Recorder(session, command, {}, {})
    try:
        return Recorder(_new_folder(), command, {}, {})
    except (UserError, OSError) as error:
        tell(f"vdoctor: {error}; nothing is recorded\n")
        return None


def _new_folder() -> Path:
    """A fresh folder below the user's state folder."""
    stem = Path(platformdirs.user_state_dir("vdoctor", appauthor=False)) / "sessions" / time.strftime("%Y%m%d-%H%M%S")
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder
