"""Command line: groups and options only. Errors become exit statuses here."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from vdoctor import __version__
from vdoctor.cli import completing, logs, plans, servers
from vdoctor.cli.pages import PageGroup
from vdoctor.cli.rules import rules_group
from vdoctor.cli.shared import lang_of
from vdoctor.errors import UserError

_STATUS_USAGE, _STATUS_FAULT, _STATUS_INTERRUPTED = 2, 3, 130


class _ReaderGone(Exception):
    """A broken pipe, under a name that click does not catch: it would end with status 1, "something found"."""


class _Commands(PageGroup):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vdoctor")
def main_group() -> None:
    """The cold-start and out-of-memory doctor for vLLM.

    It reads the output of a server, live or saved, names one cause, the line that proves it, and the corrected command.
    """


for _one in (
    logs.analyze,
    servers.watch,
    servers.confirm,
    plans.check,
    plans.estimate,
    logs.compare,
    logs.bundle,
    logs.fleet,
    logs.explain,
    rules_group,
    servers.demo,
    completing.completion,
):
    main_group.add_command(_one)


def main(argv: list[str] | None = None) -> None:
    """Entry point; ends the process with the exit status that the README lists."""
    sys.exit(_run(argv))


def _open_streams() -> None:
    """Streams that the caller closed lead nowhere; what standard output cannot encode is shown escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _language(argv: list[str] | None) -> str:
    """The language for errors: what --lang says, also in a command line that could not be read, else the locale."""
    words = list(argv if argv is not None else sys.argv[1:])
    ours = words[: words.index("--")] if "--" in words else words
    for at, one in enumerate(ours):
        value = one.partition("=")[2] if one.startswith("--lang=") else ours[at + 1 : at + 2] if one == "--lang" else ""
        if value in ("zh", ["zh"]) or value in ("en", ["en"]):
            return value if isinstance(value, str) else value[0]
    return lang_of(None)


def _tell_usage(error: click.ClickException, lang: str) -> None:
    """Wrong usage: what click says, in Chinese where that is asked for."""
    if lang != "zh" or isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show(sys.stderr)
        return
    from vdoctor.report.error_words import translated

    context = getattr(error, "ctx", None)
    if context is not None:
        print(context.get_usage().replace("Usage: ", "用法：", 1), file=sys.stderr)
        print(f"详见：{context.command_path} --help\n", file=sys.stderr)
    print(f"错误：{translated(error.format_message(), lang)}", file=sys.stderr)


def _run(argv: list[str] | None) -> int:
    _open_streams()
    watching = (argv if argv is not None else sys.argv[1:])[:1] == ["watch"]
    try:
        status = main_group.main(argv, prog_name="vdoctor", standalone_mode=False)
        return int(status or 0)
    except click.ClickException as error:
        _tell_usage(error, _language(argv))
        return 125 if watching else _STATUS_USAGE
    except click.Abort:
        return _STATUS_INTERRUPTED
    except UserError as error:
        from vdoctor.commands.streams import error_text

        print(error_text(error, _language(argv)), file=sys.stderr)
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
        from vdoctor.commands.streams import tell

        tell(f"vdoctor: a fault in vdoctor itself: {type(error).__name__}: {error}\n")
        print("  run again with VDOCTOR_DEBUG=1 for the traceback, and report it with the log", file=sys.stderr)
        return 125 if watching else _STATUS_FAULT
