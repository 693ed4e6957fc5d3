"""Packed sessions: a .tar.gz that `vdoctor bundle` wrote is read like the folder that it was."""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from pathlib import Path

from vdoctor.errors import UserError
from vdoctor.intake.archives import MAX_RATIO, MAX_UNPACKED, open_tar

#: The first member of every bundle: a look at the head of the file tells one from other archives.
MARKER = "bundle.json"
#: The files of a session, and those of the recordings of its trials.
_MEMBER = re.compile(
    r"session/((?:case\.json|log\.txt|report\.json|samples\.jsonl|session\.json|trials\.jsonl)"
    r"|trials/[0-9]{3,6}/(?:case\.json|log\.txt|samples\.jsonl|session\.json))"
)
#: A member takes at least two blocks of an archive, and more of a disk.
_CHUNK, _BLOCK = 1 << 20, 4096


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
        with open_tar(path) as archive:
            for member in archive:
                place = _place(member)
                # To pass over a member is to unpack it, too.
                room -= _BLOCK + (member.size if place is None else 0)
                if place is not None and (source := archive.extractfile(member)) is not None:
                    (folder / place).parent.mkdir(parents=True, exist_ok=True)
                    with (folder / place).open("wb") as target:
                        while room >= 0 and (chunk := source.read(_CHUNK)):
                            room -= len(chunk)
                            target.write(chunk)
                if room < 0:
                    raise UserError(
                        f"{path}: unpacks to far more than a session of its size",
                        "unpack it yourself and give the folder",
                    )
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: is damaged: {error}") from None


def _place(member: tarfile.TarInfo) -> str | None:
    """Where a member belongs in the folder; None for what is no file of a session."""
    found = _MEMBER.fullmatch(member.name)
    return found[1] if found and member.isfile() else None
