"""A log that can be read: a name, and where its bytes come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 20
MAX_FILES = 10_000


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
