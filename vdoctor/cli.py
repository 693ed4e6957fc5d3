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
                type=click.Choice(["text", "json"]),
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
@click.option("--jsonl", is_flag=True, help="One JSON report on a line for each log, as soon as it is known.")
@common
def analyze(paths: tuple[str, ...], lang: str | None, jsonl: bool, **options: Any) -> int:
    """Diagnose saved logs, pasted tickets and recorded sessions.

    PATH is a log, a session folder, a folder of logs, a .gz, .zst, .zip or .tar.gz, or - for
    standard input. Exit status: 0 nothing wrong, 1 something found, 2 unreadable input.
    """
    from vdoctor.commands.analyze import analyze as run

    return run(paths, lang=_lang(lang), **(options | {"form": "jsonl"} if jsonl else options))


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
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="Time between two measurements.",
)
@click.option("-q", "--quiet", is_flag=True, help="No status line and no report on standard error.")
@common
def watch(command: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """Run COMMAND, follow its start-up, and say what went wrong when it dies.

    The output of COMMAND passes through unchanged; the status line and the report go to standard
    error. Exit status: that of COMMAND (128+N after signal N); 125 vdoctor itself failed, 126
    COMMAND cannot be executed, 127 it was not found.
    """
    if sys.platform == "win32":
        raise UserError("watch needs a POSIX system", "run it under WSL, or: vdoctor analyze LOG")
    from vdoctor.commands.watch import watch as run

    return run(command, lang=_lang(lang), **options)


@main_group.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH|URL...")
@click.option(
    "--output", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder for the part files."
)
@click.option(
    "--form", type=click.Choice(["jsonl", "parquet"]), default="jsonl", show_default=True, help="Form of the results."
)
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler [default: a local cluster].")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes of the local cluster [default: cores].")
@click.option("--part", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Logs in one part.")
@click.option("--storage", metavar="JSON", help="Options for fsspec, such as '{\"anon\": true}'.")
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the texts [default: from the locale]."
)
def fleet(paths: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """Diagnose any number of logs on Dask (needs vdoctor[fleet]).

    Each PATH or URL is a log, a folder, or an fsspec URL (s3://bucket/logs/*.log). Results go to part files in DIR:
    one row for each log, with its report. A run that was stopped goes on where it was; a bad log stops nothing.
    """
    from vdoctor.commands.fleet import fleet as run

    return run(paths, lang=_lang(lang), **options)


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


@main_group.group(name="rules")
def rules_group() -> None:
    """The rule base, for people who extend it."""


@rules_group.command(name="list")
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the titles [default: from the locale]."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def rules_list(rules: tuple[Path, ...], lang: str | None, form: str) -> int:
    """List all rules."""
    from vdoctor.commands.rules import list_rules

    return list_rules(rules, lang=_lang(lang), form=form)


@rules_group.command(name="lint")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|DIR]...")
def rules_lint(paths: tuple[Path, ...]) -> int:
    """Check rule files and prove their examples; without PATH, the shipped rules.

    Every fault is shown with its place, the reason and a way to mend it.
    """
    from vdoctor.commands.rules import lint

    return lint(paths)


@rules_group.command(name="test")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|DIR]...")
def rules_test(paths: tuple[Path, ...]) -> int:
    """Run the examples inside rule files; without PATH, those of the shipped rules."""
    from vdoctor.commands.rules import test

    return test(paths)


@rules_group.command(name="new")
@click.argument("rule_id", metavar="ID")
@click.option("--from-log", required=True, metavar="FILE:LINE", help="The line that the rule is about.")
@click.option("--cause", metavar="FINDING", help="Finding id [default: the same as ID].")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=Path("rules"), show_default=True, help="Rule base."
)
def rules_new(rule_id: str, from_log: str, cause: str | None, folder: Path) -> int:
    """Write a draft of the rule ID from one line of a log."""
    from vdoctor.commands.rules import new

    return new(rule_id, from_log=from_log, cause=cause, folder=folder)


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
