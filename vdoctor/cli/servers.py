"""Commands that start or watch servers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from vdoctor.cli.completing import files
from vdoctor.cli.confirming import confirming, taken_confirming
from vdoctor.cli.numbers import FiniteRange
from vdoctor.cli.pages import Page
from vdoctor.cli.shared import common, lang_of
from vdoctor.errors import UserError


@click.command(cls=Page, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...", shell_complete=files)
@click.option(
    "--session",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Record the session in DIR [default: a new folder in the user's state folder].",
)
@click.option("--no-session", is_flag=True, help="Record nothing.")
@click.option(
    "--interval",
    type=FiniteRange(0.05, 60),
    default=0.2,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks at the GPUs; the processes are looked at once a second.",
)
@click.option(
    "--follow",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Watch the log FILE of a server that runs already.",
)
@click.option("--pid", type=click.IntRange(2), metavar="PID", help="Watch a process that runs already, and its log.")
@click.option(
    "--stall-after",
    type=float,
    metavar="SECONDS",
    help="Call it a stall when nothing moves for so long, at least 10 [default: by step].",
)
@click.option(
    "--on-stall",
    type=click.Choice(["report", "stop"]),
    default="report",
    show_default=True,
    help="What to do then: say so, or stop COMMAND (SIGTERM, later SIGKILL; exit status 1).",
)
@click.option(
    "--after-ready",
    type=FiniteRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Measure for so long after the server got ready; 0: until it ends [default: 0].",
)
@click.option(
    "--events",
    metavar="FILE",
    shell_complete=files,
    help="Write phases, verdicts, findings and the end to FILE, as JSON lines; never waits.",
)
@click.option(
    "--termination-log",
    is_flag=False,
    flag_value="/dev/termination-log",
    metavar="[=FILE]",
    help="Write a short diagnosis to FILE [default: /dev/termination-log, when it is there].",
)
@click.option("--no-instrument", is_flag=True, help="Do not set NCCL_DEBUG=WARN and PYTHONFAULTHANDLER=1 for COMMAND.")
@click.option("-q", "--quiet", is_flag=True, help="No status line and no report on standard error.")
@click.option(
    "--confirm",
    "mode",
    type=click.Choice(["ask", "auto", "never"]),
    default="never",
    show_default=True,
    help="When COMMAND fails, relaunch it with changes until one is proven (see vdoctor confirm).",
)
@confirming
@common
def watch(command: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """Run COMMAND, follow its start-up, and say what went wrong when it dies.

    With --follow FILE, --pid PID or - (standard input: kubectl logs -f POD | vdoctor watch -) in
    place of COMMAND: watch a server that somebody else started; Ctrl-C ends the watching, not the
    server.

    The output of COMMAND passes through unchanged; the status line and the report go to standard
    error (with --follow and --pid the report goes to standard output). The third Ctrl-C kills.
    """
    if sys.platform == "win32":
        raise UserError("watch needs a POSIX system", "run it under WSL, or: vdoctor analyze LOG")
    from vdoctor.commands.watch import Wish
    from vdoctor.commands.watch import watch as run

    return run(command, Wish(confirm=taken_confirming(options), lang=lang_of(lang), **options))


@click.command(cls=Page)
@click.argument("session", metavar="SESSION", type=click.Path(path_type=Path))
@click.option(
    "--confirm",
    "mode",
    type=click.Choice(["ask", "auto", "never"]),
    default="ask",
    show_default=True,
    help="What gives something up: ask on a terminal (else leave it out), try it unasked, or try nothing.",
)
@click.option(
    "--manifest",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Start nothing: print the fix as an edit of this compose or Kubernetes file. SESSION may be a log.",
)
@confirming
@common
def confirm(session: Path, manifest: Path | None, lang: str | None, **options: Any) -> int:
    """Relaunch the failing command of SESSION with the smallest change that works, and prove it.

    SESSION is a folder that watch recorded. Every trial starts the changed command, waits until it is ready, asks for one
    short completion, and stops it again; trials are kept in SESSION and none is made twice.
    """
    if sys.platform == "win32":
        raise UserError("confirm needs a POSIX system", "run it under WSL")
    from vdoctor.commands.confirm import confirm as run

    return run(session, taken_confirming(options), manifest=manifest, lang=lang_of(lang), **options)


@click.command(cls=Page)
@click.option("--speed", type=FiniteRange(0.1, 1000), default=1.0, show_default=True, help="Play so many times faster.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the texts [default: from the locale]."
)
@click.option(
    "--play",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Play a recorded session or a fixture instead: its lines, its processes, what they do.",
)
@click.option(
    "--cast",
    default="",
    metavar="ROLE=WHAT,...",
    help="With --play: what processes do after the last line: idle, spin, read, compile, blocked, stopped.",
)
@click.option("--no-color", "color", is_flag=True, flag_value=False, default=True, help="No colours.")
def demo(speed: float, lang: str | None, play: Path | None, cast: str, color: bool) -> int:
    """Watch a simulated server run out of memory, and prove the fix. No GPU, no vLLM needed."""
    if sys.platform == "win32":
        raise UserError("demo needs a POSIX system", "run it under WSL")
    if play is not None:
        from vdoctor.commands.play import play as run_play

        return run_play(play, speed=speed, cast=cast, lang=lang_of(lang), color=color)
    if cast:
        raise UserError("--cast goes with --play FOLDER", "vdoctor demo --play FOLDER --cast Worker_TP0=stopped")
    from vdoctor.commands.demo import demo as run

    return run(speed=speed, lang=lang_of(lang), color=color)
