"""Standard output, standard error and files of a command: who may write what where. Light: `watch` starts with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from vdoctor.errors import UserError


def emit(text: str, output: str | None) -> None:
    """Write the result to standard output or to a file. Raises UserError when the file cannot be written."""
    if output is None or output == "-":
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(f"standard output: cannot be written: {error.strerror}") from None
        return
    try:
        # A name or a log may hold what is no character; JSON reads the escape back.
        Path(output).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror}", "give --output another path") from None


def check_output(output: str | None) -> None:
    """Raises UserError when the result could not be written later on: known before a long run, not after it."""
    if output is None or output == "-":
        return
    try:
        Path(output).open("ab").close()
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror}", "give --output another path") from None


def error_text(error: UserError, lang: str) -> str:
    """The message for a user error, for standard error: what, where, what next."""
    from vdoctor.report.error_words import translated

    hint = f"\n  {translated(error.hint, lang)}" if error.hint else ""
    return _clean(f"vdoctor: {translated(error.what, lang)}{hint}")


def show(text: str) -> None:
    """Print lines to standard output, without what a log or a file would do to the terminal."""
    print(_clean(text))


def tell(text: str) -> None:
    """Write lines to standard error, without what a log or a file would do to the terminal."""
    draw(_clean(text))


def _clean(text: str) -> str:
    from vdoctor.intake.clean import clean

    return "\n".join(clean(line) for line in text.split("\n"))


def draw(text: str) -> None:
    """Write to standard error as it is, colours and cursor moves of our own included.

    A reader that went away ends the telling, not the run.
    """
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 2)
        os.close(devnull)


def terminal_width(fd: int) -> int:
    """Columns of the terminal at `fd`; COLUMNS beats it, and 100 is taken where there is none."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    try:
        return os.get_terminal_size(fd).columns or 100
    except OSError:
        return 100


def use_color(wanted: bool, stream_is_terminal: bool) -> bool:
    """Colour on a terminal unless --no-color or NO_COLOR says otherwise."""
    return wanted and stream_is_terminal and not os.environ.get("NO_COLOR")
