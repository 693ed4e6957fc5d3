"""vdoctor watch: run a command, or attach to a server that runs, follow its start-up, diagnose its end.

The command is started before rules are read: what vdoctor needs for itself costs the server no time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vdoctor.commands.confirming import Confirming
from vdoctor.commands.privacy import redactor_for, tell_redaction
from vdoctor.commands.streams import check_output, draw, emit, error_text, tell, terminal_width, use_color
from vdoctor.errors import UserError
from vdoctor.launch.command import parse
from vdoctor.live.child import CannotStart
from vdoctor.live.instrument import added
from vdoctor.live.session import Recorder
from vdoctor.live.supervise import Supervisor
from vdoctor.model import Exit, Fact, Launch, Report
from vdoctor.report.words import word
from vdoctor.startup.patience import LEAST

if TYPE_CHECKING:
    from vdoctor.commands.screen import Screen
    from vdoctor.diagnose import Examination
    from vdoctor.live.announce import EventFile
    from vdoctor.live.sampler import Sampler
    from vdoctor.live.watcher import Feed
    from vdoctor.report.redact import Redactor
    from vdoctor.rulebase.schema import RuleBase

#: `--on-stall stop` ended the child.
_STOPPED = 1


@dataclass(frozen=True)
class Wish:
    """The options of `watch`."""

    follow: Path | None
    pid: int | None
    session: Path | None
    no_session: bool
    interval: float
    quiet: bool
    stall_after: float | None
    on_stall: str
    after_ready: float
    events: str | None
    termination_log: str | None
    no_instrument: bool
    form: str
    output: str | None
    lang: str
    rules: Sequence[Path]
    color: bool
    verbose: bool
    redact: bool | None = None
    confirm: Confirming | None = None


def watch(command: Sequence[str], wish: Wish) -> int:
    """Returns the exit status of `watch`: the child's own, 126, 127, 1 for one that was stopped; for an attached server
    0 nothing wrong, 1 something found."""
    words = list(command[1:] if command[:1] == ("--",) else command)
    attached = wish.follow is not None or wish.pid is not None
    _check(words, wish, attached)
    if attached or words == ["-"]:
        from vdoctor.commands.attach import attach

        return attach(wish)
    return _run(words, wish)


def _check(words: list[str], wish: Wish, attached: bool) -> None:
    """Everything that can be wrong is wrong before anything starts."""
    if attached and words:
        raise UserError(
            "--follow and --pid watch a server that runs already: no command goes with them", "leave one of them out"
        )
    if not words and not attached:
        raise UserError(
            "no command given", "vdoctor watch -- vllm serve MODEL ..., or --follow FILE, or --pid PID, or -"
        )
    if words[:1] == ["-"] and len(words) > 1:
        raise UserError("- is standard input, and nothing may follow it", "vdoctor watch OPTIONS -")
    if wish.form in ("json", "html") and wish.output is None and not attached:
        raise UserError(
            f"--format {wish.form}: standard output is the server's, standard error is for people",
            "give --output FILE as well; a stream of events for programs is --events FILE",
        )
    if wish.stall_after is not None and not wish.stall_after >= LEAST:
        raise UserError(
            f"--stall-after {wish.stall_after:g}: healthy starts stand still for up to 7 s; less than {LEAST:g} s gives false"
            " alarms",
            f"give {LEAST:g} or more",
        )
    if wish.events == "-" and not attached:
        raise UserError("--events -: standard output is the server's", "give a file, a named pipe or /dev/stderr")
    if wish.confirm is not None and wish.confirm.mode != "never":
        if attached or words == ["-"]:
            raise UserError("--confirm relaunches the command that vdoctor started", "give a command")
        if wish.no_session:
            raise UserError("--confirm keeps its trials in the session", "leave --no-session out")
    check_output(wish.output)


def _run(command: list[str], wish: Wish) -> int:
    launch = parse(command)
    settings = {} if wish.no_instrument else added(os.environ, launch)
    facts = facts_of(wish, settings)
    base = read_rules(wish.rules) if wish.rules else None
    events = open_events(wish)
    recorder = open_recorder(wish, command, facts)
    supervisor = Supervisor()
    try:
        supervisor.start(command, {**os.environ, **settings})
    except CannotStart as error:
        tell(error_text(UserError(str(error)), wish.lang) + "\n")
        if recorder is not None:
            recorder.close(None, {"id": "", "kind": "crash", "note": str(error)})
        return error.status
    with ExitStack() as undo:
        undo.callback(supervisor.abandon)
        sampler = _start_sampler(supervisor, wish)
        undo.callback(sampler.stop)
        screen = make_screen(wish, base or read_rules(()), launch, facts, recorder, events)
        screen.measure_with(sampler)
        undo.pop_all()
    end = follow(screen, supervisor, command)
    report = conclude(wish, screen, recorder, end, to_stdout=False)
    write_termination_log(wish, report)
    if end is None:
        return 125
    if wish.confirm is not None and recorder is not None:
        from vdoctor.commands.confirm import confirm_after

        confirm_after(
            recorder.folder, report, wish.confirm, lang=wish.lang, rules=read_rules(wish.rules), color=screen.color
        )
    return _STOPPED if end.asked == "stop" else end.status


def _start_sampler(supervisor: Supervisor, wish: Wish) -> Sampler:
    """What the GPUs hold before the server takes its part is seen in the first moments alone."""
    from vdoctor.live.sampler import Sampler

    sampler = Sampler(supervisor.pid, wish.interval, supervisor.now)
    sampler.start()
    return sampler


def facts_of(wish: Wish, settings: dict[str, str]) -> dict[str, Fact]:
    """What is true of the watching itself; recorded, so that a replay knows it."""
    facts = {}
    if settings:
        facts["watch.instrumented"] = Fact(" ".join(f"{k}={v}" for k, v in settings.items()), "watch")
    if wish.stall_after is not None:
        facts["watch.stall_after"] = Fact(wish.stall_after, "watch")
    return facts


def read_rules(folders: Sequence[Path]) -> RuleBase:
    """The rule base. Raises UserError."""
    from vdoctor.store import load_rules

    return load_rules(folders)


def make_screen(
    wish: Wish,
    base: RuleBase,
    launch: Launch | None,
    facts: dict[str, Fact],
    recorder: Recorder | None,
    events: EventFile | None,
    *,
    attached: bool = False,
) -> Screen:
    """The examination and what shows it. Slow: rules, option tables and half of vdoctor are read here."""
    from vdoctor.commands.screen import Screen
    from vdoctor.diagnose import Examination
    from vdoctor.launch import options as option_tables
    from vdoctor.launch.endpoint import endpoint
    from vdoctor.live.announce import Announcer

    options = option_tables.load()
    examination = Examination(base, options, launch, facts, wish.stall_after)
    color = use_color(wish.color, sys.stderr.isatty())
    return Screen(
        examination,
        recorder,
        wish.interval,
        wish.lang,
        quiet=wish.quiet,
        color=color,
        stop_when=_stop_when(wish, attached),
        announcer=Announcer(events, wish.lang) if events else None,
        measure_after_ready=wish.after_ready or None,
        rules=base,
        endpoint=endpoint(launch, options, os.environ) if launch is not None else "the command is not known",
        draw=lambda report: _told(report, wish, color),
    )


def _stop_when(wish: Wish, attached: bool) -> Callable[[Examination, float], bool]:
    """When to stop the child; for an attached server: when to stop looking."""
    ready_at: list[float] = []

    def enough(examination: Examination, t: float) -> bool:
        if attached and wish.after_ready and examination.timeline.ready:
            ready_at.append(t)
            del ready_at[1:]
            if t - ready_at[0] >= wish.after_ready:
                return True
        if wish.on_stall != "stop":
            return False
        motion = examination.motion
        return motion is not None and motion.state == "stalled"

    return enough


def follow(screen: Screen, feed: Feed, command: list[str]) -> Exit | None:
    """Stay to the end."""
    screen.command = command
    return screen.follow(feed)


def conclude(wish: Wish, screen: Screen, recorder: Recorder | None, end: Exit | None, *, to_stdout: bool) -> Report:
    """The report, to where it belongs."""
    report = screen.finish(recorder, end)
    if to_stdout and wish.output is None:
        if not wish.quiet:
            redactor = redactor_for(wish.form, None, wish.redact)
            color, width = use_color(wish.color, sys.stdout.isatty()), terminal_width(1)
            emit(_rendered(report, wish, redactor, color=color, width=width), None)
            tell_redaction(redactor, wish.lang)
    elif not wish.quiet and (wish.form == "text" or (wish.form == "markdown" and wish.output is None)):
        if wish.form != "text" or not screen.has_told(report):
            draw("\n" + _told(report, wish, screen.color))
    if recorder is not None and not wish.quiet and wish.form != "json":
        tell(f"{word('session', wish.lang)}: {recorder.folder}\n")
    if recorder is not None and recorder.failed is not None and not screen.told_failure:
        tell(f"vdoctor: {recorder.folder}: recording stopped: {recorder.failed}\n")
    if wish.output is not None:
        redactor = redactor_for(wish.form, wish.output, wish.redact)
        emit(_rendered(report, wish, redactor), wish.output)
        if not wish.quiet:
            tell_redaction(redactor, wish.lang)
    return report


def _told(report: Report, wish: Wish, color: bool) -> str:
    """A report for standard error: text or Markdown."""
    shown = wish if wish.form == "markdown" else replace(wish, form="text")
    redactor = redactor_for(shown.form, None, wish.redact, sys.stderr)
    return _rendered(report, shown, redactor, color=color, width=terminal_width(2))


def _rendered(report: Report, wish: Wish, redactor: Redactor | None, *, color: bool = False, width: int = 100) -> str:
    from vdoctor.commands.examine import render

    return render([report], wish.form, wish.lang, color=color, verbose=wish.verbose, width=width, redactor=redactor)


def write_termination_log(wish: Wish, report: Report) -> None:
    """The short diagnosis for Kubernetes, when there is something to say and somebody who reads it."""
    path = wish.termination_log
    if path is None or report.verdict == "healthy" or (path == TERMINATION_LOG and not Path(path).exists()):
        return
    from vdoctor.report.brief import brief

    try:
        Path(path).write_bytes(brief(report, wish.lang, MOST_TERMINATION))
    except OSError as error:
        tell(f"vdoctor: {path}: cannot be written: {error.strerror}\n")


#: Where Kubernetes looks for a message, and how much of it is shown.
TERMINATION_LOG, MOST_TERMINATION = "/dev/termination-log", 4096


def open_events(wish: Wish) -> EventFile | None:
    """Where programs hear of events. Raises UserError."""
    if not wish.events:
        return None
    from vdoctor.live.announce import EventFile

    return EventFile(wish.events)


def open_recorder(wish: Wish, command: list[str], facts: dict[str, Fact]) -> Recorder | None:
    """The folder that the user named must do; where nobody named one, a launch goes before its recording."""
    if wish.no_session:
        return None
    if wish.session is not None:
        return Recorder(wish.session, command, {}, facts)
    try:
        return Recorder(_new_folder(), command, {}, facts)
    except (UserError, OSError) as error:
        tell(f"vdoctor: {error}; nothing is recorded\n")
        return None


def _new_folder() -> Path:
    """A fresh folder below the user's state folder."""
    import platformdirs

    stem = Path(platformdirs.user_state_dir("vdoctor", appauthor=False)) / "sessions" / time.strftime("%Y%m%d-%H%M%S")
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder
