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
    from vdoctor.intake.clean import clean
    from vdoctor.report.error_words import translated

    hint = f"\n  {clean(translated(error.hint, lang))}" if error.hint else ""
    return f"vdoctor: {clean(translated(error.what, lang))}{hint}"


def tell(text: str) -> None:
    """Write to standard error; a reader that went away ends the telling, not the run."""
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
