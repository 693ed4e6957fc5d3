"""The edge where saved logs come in: files, standard input, folders, compressed files, archives."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from vdoctor.errors import UserError
from vdoctor.intake.inputs import MAX_FILES, Input, read

__all__ = ["Input", "check_text", "inputs"]

_SNIFF = 8192
#: White space and byte-order marks.
_BLANK = b" \t\r\n\x0b\x0c\xef\xbb\xbf\xff\xfe"
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".jsonl", ".md", ".gz", ".zst", ".zip", ".tgz", ".tar")


def inputs(path: str, stdin: BinaryIO) -> list[Input]:
    """The logs behind one argument of the command line. Raises UserError when there is none."""
    if path == "-":
        return [Input("-", lambda: read(stdin))]
    place = Path(path)
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file or folder", "check the path; a log can also be piped in: ... | vdoctor analyze -"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        return _folder(place)
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise UserError(f"{path}: is a device or socket, not a log", "give a file, a folder or - for standard input")
    return _file(place)


def check_text(name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass the bytes on; raise UserError when they are empty or binary."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= _SNIFF:
            break
    if not head.strip(_BLANK):
        raise UserError(f"{name}: is empty", "give a log with output in it")
    if _binary(head[:_SNIFF]):
        raise UserError(f"{name}: is a binary file, not a log", "give the text that the server printed")
    yield head
    yield from chunks


def _folder(place: Path) -> list[Input]:
    """Logs of a folder and of the folders below it; hidden files and links that leave it are skipped."""
    found: list[Input] = []
    for root, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if name.startswith(".") or not name.endswith(_LOG_SUFFIXES) or not path.is_file() or path.is_symlink():
                continue
            # Beside a log of a case or session lie its labels and samples, not logs.
            if name == "samples.jsonl" or (name.endswith(".ts.txt") and (path.parent / "log.txt").exists()):
                continue
            found.extend(_readable(path))
            if len(found) > MAX_FILES:
                raise UserError(f"{place}: more than {MAX_FILES} logs", "analyse its subfolders one by one")
    if not found:
        raise UserError(f"{place}: no logs in this folder", f"looked for: {' '.join('*' + s for s in _LOG_SUFFIXES)}")
    return found


def _readable(path: Path) -> list[Input]:
    """The logs of a file; one that is damaged says so when its turn comes, and hides no other."""
    try:
        return _file(path)
    except UserError as error:
        return [Input(str(path), partial(_refusal, error), path)]


def _refusal(error: UserError) -> Iterator[bytes]:
    raise error
    yield


def _file(path: Path) -> list[Input]:
    name = str(path)
    if stat.S_ISFIFO(path.stat().st_mode):
        return [Input(name, partial(_opened, path), path)]
    try:
        with path.open("rb") as file:
            magic = file.read(512)
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None
    if magic[:1] in b"P\x1f\x28" or magic[257:262] == b"ustar":
        from vdoctor.intake.archives import packed

        if (members := packed(path, magic)) is not None:
            return members
    return [Input(name, partial(_opened, path), path)]


def _opened(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from read(file)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _binary(head: bytes) -> bool:
    """NUL bytes, unless they are every second byte as in UTF-16."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    nuls = head.count(0)
    if not nuls:
        # Executables and images without NULs in their head are caught by their share of controls.
        controls = sum(byte < 32 and byte not in b"\t\n\r\x1b\x08\x0c\x07" for byte in head)
        return controls > len(head) * 0.1
    even, odd = head[::2].count(0), head[1::2].count(0)
    return not (max(even, odd) > len(head) * 0.35 and min(even, odd) < len(head) * 0.05) and nuls > len(head) * 0.001
