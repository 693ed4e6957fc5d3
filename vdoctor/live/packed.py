"""Packed sessions: a .tar.gz that `vdoctor bundle` wrote is read like the folder that it was."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from vdoctor.errors import UserError
from vdoctor.intake.archives import MAX_RATIO, MAX_UNPACKED

#: The first member of every bundle: a look at the head of the file tells one from other archives.
MARKER = "bundle.json"
FILES = ("case.json", "log.txt", "report.json", "samples.jsonl", "session.json")
_CHUNK = 1 << 20


def is_packed(path: Path) -> bool:
    """Whether the file is a packed session."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as raw:
            if raw.read(2) != b"\x1f\x8b":
                return False
        with gzip.open(path) as file:
            head = file.read(512)
    except (OSError, EOFError, zlib.error):
        return False
    return head[257:262] == b"ustar" and head[:100].rstrip(b"\0") == f"session/{MARKER}".encode()


def unpack(path: Path, folder: Path) -> None:
    """Write the files of a packed session into `folder`: known names only, never links, never more than a log can be.

    Raises UserError when the archive is damaged or unpacks to far more than its size.
    """
    room = max(64 << 20, min(MAX_UNPACKED, MAX_RATIO * path.stat().st_size))
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                place = PurePosixPath(member.name)
                if not member.isfile() or place.parent != PurePosixPath("session") or place.name not in FILES:
                    continue
                source = archive.extractfile(member)
                with (folder / place.name).open("wb") as target:
                    while source is not None and (chunk := source.read(_CHUNK)):
                        room -= len(chunk)
                        if room < 0:
                            raise UserError(
                                f"{path}: unpacks to far more than a session of its size",
                                "unpack it yourself and give the folder",
                            )
                        target.write(chunk)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: is damaged: {error}") from None
