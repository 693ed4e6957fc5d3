"""A log that can be read: a name, and where its bytes come from."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from vdoctor.errors import UserError

CHUNK = 1 << 20
MAX_FILES = 10_000
#: A line of a file of JSON lines: a sample of a machine with thousands of processes stays far below.
_MAX_LINE = 16 << 20


@dataclass(frozen=True, slots=True)
class Input:
    """One log: its name and a function that opens a fresh iterator over its bytes.

    While the bytes are read, `notices` fills with what the user should know of them. All but standard input can be
    handed to another process.
    """

    name: str
    chunks: Callable[[], Iterator[bytes]]
    path: Path | None = None
    notices: list[str] = field(default_factory=list)


def read(file: BinaryIO) -> Iterator[bytes]:
    """All bytes of an open file, as they come."""
    # read1 hands over what a pipe has instead of waiting for a full buffer.
    take = getattr(file, "read1", file.read)
    while chunk := take(CHUNK):
        yield chunk


def small_file(path: Path, most: int, *, pipe: bool = False) -> bytes:
    """The bytes of a file that cannot be large: rules, settings, recordings of a start.

    Raises UserError for what is no plain file (or pipe, where one may be: a device has no end, and a pipe that nobody
    writes to neither), for more than `most` bytes, and for what cannot be read.
    """
    try:
        if not path.is_file() and not (pipe and path.is_fifo()) and path.exists():
            raise UserError(f"{path}: is no plain file", "give a file")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise UserError(f"{path}: is larger than {most >> 20} MiB", "give a smaller file")
    return data


def small_text(path: Path, most: int) -> str:
    """The same as text. Raises UserError when it is none, too."""
    try:
        return small_file(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a file that a machine wrote, none when there is no plain file; endless lines are left out."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        while line := file.readline(_MAX_LINE):
            if len(line) == _MAX_LINE and not line.endswith("\n"):
                while (rest := file.readline(_MAX_LINE)) and not rest.endswith("\n"):
                    pass
                continue
            yield line


def json_lines(path: Path, word: str = "") -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, where there is one; with `word`, of lines that hold it. What is no object is
    passed over: the last line of a session that was killed is cut off."""
    for line in text_lines(path):
        entry = None
        if word in line:
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
        if isinstance(entry, dict):
            yield entry
