"""The folder in which a recorded start ran: relative paths of its command are meant from there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from vdoctor.commands.examine import tell
from vdoctor.intake.clean import clean
from vdoctor.report.words import word


@contextlib.contextmanager
def at(folder: str | None, lang: str) -> Iterator[None]:
    """Work in `folder` for a while, and say so where that is another one; stay where it is not known or has gone."""
    here = _here()
    if folder is None or folder == here:
        yield
        return
    try:
        os.chdir(folder)
    except OSError:
        tell(f"vdoctor: {word('cwd_gone', lang).format(folder=clean(folder))}\n")
        yield
        return
    tell(f"vdoctor: {word('cwd', lang).format(folder=clean(folder))}\n")
    try:
        yield
    finally:
        if here is not None:
            os.chdir(here)


def _here() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None
