"""Where the result goes: standard output or a file. Light, for commands that must start fast."""

from __future__ import annotations

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
