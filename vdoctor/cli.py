"""Command line: groups and options only. Errors become exit statuses here."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from vdoctor import __version__
from vdoctor.commands.estimate_options import estimate_options
from vdoctor.commands.options import confirming
from vdoctor.commands.rules_group import rules_group
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.report.words import language

F = TypeVar("F", bound=Callable[..., Any])

_STATUS_USAGE, _STATUS_FAULT, _STATUS_INTERRUPTED = 2, 3, 130


def common(function: F) -> F:
    """Options that every reporting command has."""
    for option in reversed(
        (
            click.option(
                "--format",
                "form",
                type=click.Choice(["text", "json", "markdown", "html"]),
                default="text",
                show_default=True,
                help="Form of the result.",
            ),
            click.option("--output", metavar="FILE", help="Write the result to FILE instead of standard output."),
            click.option(
                "--lang",
                type=click.Choice(["en", "zh"]),
                default=None,
                help="Language of the texts [default: from the locale].",
            ),
            click.option(
                "--rules",
                "rules",
                multiple=True,
                metavar="DIR",
                type=click.Path(path_type=Path),
                help="More rules, besides the shipped ones.",
            ),
            click.option(
                "--no-color",
                "color",
                is_flag=True,
                flag_value=False,
                default=True,
                help="No colours (NO_COLOR does the same).",
            ),
            click.option(
                "--redact/--no-redact",
                "redact",
                default=None,
                help="Hide what is private: secrets, users, hosts, addresses, model folders, prompts [default: in"
                " markdown and html, and in all that is written to a file].",
            ),
            click.option("-v", "--verbose", is_flag=True, help="All evidence, references and undecided rules."),
        )
    ):
        function = option(function)
    return function


def _lang(value: str | None) -> str:
    return value or language(os.environ)


class _ReaderGone(Exception):
    """A broken pipe, under a name that click does not catch: it would end with status 1, "something found"."""


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vdoctor")
def main_group() -> None:
    """The cold-start and out-of-memory doctor for vLLM."""


@main_group.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--gpu-log",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="GPU memory beside the log: nvidia-smi --query-gpu=... --format=csv, or dmon.",
)
@click.option(
    "--check-redaction", is_flag=True, help="Show only what redaction replaces: kinds and counts, not the values."
)
@common
def analyze(paths: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """Diagnose saved logs, pasted tickets and recorded sessions.

    PATH is a log, a session folder, a folder of logs, a .gz, .zst, .zip or .tar.gz, or - for
    standard input. Exit status: 0 nothing wrong, 1 something found, 2 unreadable input.
    """
    from vdoctor.commands.analyze import analyze as run

    return run(paths, lang=_lang(lang), **options)


@main_group.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--session",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Record the session in DIR [default: a new folder in the user's state folder].",
)
@click.option("--no-session", is_flag=True, help="Record nothing.")
@click.option(
    "--interval",
    type=click.FloatRange(0.05, 60),
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
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Call it a stall when nothing moves for so long [default: by step].",
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
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Measure for so long after the server got ready; 0: until it ends [default: 0].",
)
@click.option(
    "--events", metavar="FILE", help="Write phases, verdicts, findings and the end to FILE, as JSON lines; never waits."
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

    Exit status: that of COMMAND (128+N after signal N); 1 when --on-stall stopped it; 125 vdoctor
    itself failed, 126 COMMAND cannot be executed, 127 it was not found. Of an attached server: 0
    nothing wrong, 1 something found, 125 vdoctor itself failed.
    """
    if sys.platform == "win32":
        raise UserError("watch needs a POSIX system", "run it under WSL, or: vdoctor analyze LOG")
    from vdoctor.commands.options import taken_confirming
    from vdoctor.commands.watch import Wish
    from vdoctor.commands.watch import watch as run

    return run(command, Wish(confirm=taken_confirming(options), lang=_lang(lang), **options))


@main_group.command()
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
    short completion, and stops it again; trials are kept in SESSION and none is made twice. Exit status: 0 a change is
    proven, 1 none is, 2 wrong usage.
    """
    if sys.platform == "win32":
        raise UserError("confirm needs a POSIX system", "run it under WSL")
    from vdoctor.commands.confirm import confirm as run
    from vdoctor.commands.options import taken_confirming

    return run(session, taken_confirming(options), manifest=manifest, lang=_lang(lang), **options)


@main_group.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@common
def compare(before: str, after: str, lang: str | None, **options: Any) -> int:
    """Compare two starts: which phase got slower or bigger, what changed in command, versions and caches.

    BEFORE and AFTER are sessions or logs. Exit status: 0 nothing got slower or bigger, 1 something did, 2 unreadable input.
    """
    from vdoctor.commands.compare import compare as run

    return run(before, after, lang=_lang(lang), **options)


@main_group.command()
@click.argument("session", metavar="SESSION", type=click.Path(path_type=Path))
@click.option("--output", metavar="FILE", help="The archive to write [default: NAME.tar.gz in this folder].")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the texts [default: from the locale]."
)
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
@click.option("--check-redaction", is_flag=True, help="Write nothing; show what redaction would replace.")
def bundle(session: Path, lang: str | None, **options: Any) -> int:
    """Pack a recorded session for somebody else, everything private hidden.

    SESSION is a folder that `watch` recorded. Secrets, users, hosts, addresses and model folders get names such as
    host-1; prompts are dropped. `vdoctor analyze FILE` reads the archive back to the same report.
    """
    from vdoctor.commands.bundle import bundle as run

    return run(session, lang=_lang(lang), **options)


@main_group.command()
@click.argument("rule_id", metavar="ID")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="One language only [default: both].")
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
def explain(rule_id: str, lang: str | None, rules: tuple[Path, ...]) -> int:
    """Show the full page of a rule, or of every rule of a finding id."""
    from vdoctor.commands.explain import explain as run

    return run(rule_id, lang=lang, rules=rules)


main_group.add_command(rules_group)


@main_group.command()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="MODEL | -- COMMAND...")
@estimate_options
def estimate(words: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """The GPU memory budget: weights, KV cache, the rest; what fits, and what makes it fit.

    MODEL is a folder, a repository in the Hugging Face cache, or the name of a well-known model. Behind --
    stands a start command: vdoctor estimate -- vllm serve MODEL ... Exit status: 0 fits, 1 does not or may
    not, 2 unreadable input. Nothing is downloaded.
    """
    from vdoctor.commands.estimate import run

    return run(words, lang=_lang(lang), **options)


@main_group.command()
@click.option(
    "--speed", type=click.FloatRange(0.1, 1000), default=1.0, show_default=True, help="Play so many times faster."
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the texts [default: from the locale]."
)
@click.option("--no-color", "color", is_flag=True, flag_value=False, default=True, help="No colours.")
def demo(speed: float, lang: str | None, color: bool) -> int:
    """Watch a simulated server run out of memory, and prove the fix. No GPU, no vLLM needed."""
    from vdoctor.commands.demo import demo as run

    return run(speed=speed, lang=_lang(lang), color=color)


def main(argv: list[str] | None = None) -> None:
    """Entry point; ends the process with the status of docs/exit-status.md."""
    sys.exit(_run(argv))


def _open_streams() -> None:
    """Streams that the caller closed lead nowhere; what standard output cannot encode is shown escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _run(argv: list[str] | None) -> int:
    _open_streams()
    watching = (argv if argv is not None else sys.argv[1:])[:1] == ["watch"]
    try:
        status = main_group.main(argv, standalone_mode=False)
        return int(status or 0)
    except click.ClickException as error:
        error.show(sys.stderr)
        return 125 if watching else _STATUS_USAGE
    except click.Abort:
        return _STATUS_INTERRUPTED
    except UserError as error:
        print(f"vdoctor: {clean(error.what)}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return 125 if watching else _STATUS_USAGE
    except KeyboardInterrupt:
        return _STATUS_INTERRUPTED
    except (_ReaderGone, BrokenPipeError):
        # The reader of our output went away (| head): not our fault, and no message.
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("VDOCTOR_DEBUG"):
            raise
        print(f"vdoctor: a fault in vdoctor itself: {type(error).__name__}: {error}", file=sys.stderr)
        print("  run again with VDOCTOR_DEBUG=1 for the traceback, and report it with the log", file=sys.stderr)
        return 125 if watching else _STATUS_FAULT
