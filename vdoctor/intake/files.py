"""The edge where saved logs come in: files, standard input, folders, compressed files, archives."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from vdoctor.errors import UserError

CHUNK = 1 << 20
#: More text than this from one compressed member is no log but a bomb (or belongs decompressed first).
MAX_UNPACKED = 8 << 30
#: deflate reaches 1032 to 1; a log of repeated lines about 100 to 1. Checked after the first 64 MiB.
MAX_RATIO = 400
_SNIFF = 8192
#: White space and byte-order marks.
_BLANK = b" \t\r\n\x0b\x0c\xef\xbb\xbf\xff\xfe"
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".jsonl", ".gz", ".zst", ".zip", ".tgz", ".tar")
_MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Input:
    """One log: its name and a function that opens a fresh iterator over its bytes."""

    name: str
    chunks: Callable[[], Iterator[bytes]]
    path: Path | None = None


def inputs(path: str, stdin: BinaryIO) -> list[Input]:
    """The logs behind one argument of the command line. Raises UserError when there is none."""
    if path == "-":
        return [Input("-", lambda: _read(stdin))]
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
            if len(found) > _MAX_FILES:
                raise UserError(f"{place}: more than {_MAX_FILES} logs", "analyse its subfolders one by one")
    if not found:
        raise UserError(f"{place}: no logs in this folder", f"looked for: {' '.join('*' + s for s in _LOG_SUFFIXES)}")
    return found


def _readable(path: Path) -> list[Input]:
    """The logs of a file; one that is damaged says so when its turn comes, and hides no other."""
    try:
        return _file(path)
    except UserError as error:
        return [Input(str(path), lambda error=error: _refusal(error), path)]  # type: ignore[misc]


def _refusal(error: UserError) -> Iterator[bytes]:
    raise error
    yield


def _file(path: Path) -> list[Input]:
    name = str(path)
    if stat.S_ISFIFO(path.stat().st_mode):
        return [Input(name, lambda: _opened(path), path)]
    try:
        with path.open("rb") as file:
            magic = file.read(512)
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None
    if magic.startswith(b"PK\x03\x04"):
        return _zip_members(path)
    if magic.startswith(b"\x1f\x8b"):
        return _tar_members(path) if _is_tar(path) else [Input(name, lambda: _gunzip(path), path)]
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return [Input(name, lambda: _unzstd(path), path)]
    if magic[257:262] == b"ustar":
        return _tar_members(path)
    return [Input(name, lambda: _opened(path), path)]


def _opened(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from _read(file)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _read(file: BinaryIO) -> Iterator[bytes]:
    # read1 hands over what a pipe has instead of waiting for a full buffer.
    read = getattr(file, "read1", file.read)
    while chunk := read(CHUNK):
        yield chunk


def _guard(name: str, packed: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Stop at a bomb; a broken end keeps what was readable."""
    total = 0
    try:
        for chunk in chunks:
            total += len(chunk)
            if total > MAX_UNPACKED or (total > 64 << 20 and total > MAX_RATIO * max(packed, 1)):
                raise UserError(
                    f"{name}: unpacks to far more than a log of its size", "unpack it yourself and give the text"
                )
            yield chunk
    except (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile) as error:
        if not total:
            raise UserError(f"{name}: is damaged: {error}") from None


def _gunzip(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as file:
        yield from _guard(str(path), path.stat().st_size, _read(file))  # type: ignore[arg-type]


def _unzstd(path: Path) -> Iterator[bytes]:
    import zstandard

    with path.open("rb") as raw, zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw) as file:
        try:
            yield from _guard(str(path), path.stat().st_size, _read(file))
        except zstandard.ZstdError as error:
            raise UserError(f"{path}: is damaged: {error}") from None


def _is_tar(path: Path) -> bool:
    try:
        with gzip.open(path) as file:
            return file.read(512)[257:262] == b"ustar"
    except (OSError, EOFError, zlib.error):
        return False


def _wanted(name: str) -> bool:
    """Members of archives are read in memory, never written: only their suffix matters."""
    path = PurePosixPath(name)
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and path.suffix in (".log", ".txt", ".out", ".err", ".md", "") and path.name != "case.json"


def _zip_members(path: Path) -> list[Input]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir() and _wanted(info.filename)]
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(f"{path}: is damaged: {error}") from None

    def open_member(info: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(info) as file:
                yield from _guard(f"{path}:{info.filename}", info.compress_size, _read(file))  # type: ignore[arg-type]
        except (RuntimeError, NotImplementedError) as error:
            raise UserError(f"{path}:{info.filename}: cannot be unpacked: {error}") from None

    return _some(path, [Input(f"{path}:{i.filename}", lambda i=i: open_member(i), path) for i in members])  # type: ignore[misc]


def _tar_members(path: Path) -> list[Input]:
    try:
        with tarfile.open(path) as archive:
            names = [m.name for m in archive if m.isfile() and _wanted(m.name)]
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: is damaged: {error}") from None

    def open_member(name: str) -> Iterator[bytes]:
        with tarfile.open(path) as archive:
            file = archive.extractfile(name) or io.BytesIO()
            yield from _guard(f"{path}:{name}", path.stat().st_size, _read(file))  # type: ignore[arg-type]

    return _some(path, [Input(f"{path}:{n}", lambda n=n: open_member(n), path) for n in names])  # type: ignore[misc]


def _some(path: Path, members: list[Input]) -> list[Input]:
    if not members:
        raise UserError(f"{path}: no logs in this archive")
    if len(members) > _MAX_FILES:
        raise UserError(f"{path}: more than {_MAX_FILES} logs in this archive")
    return members


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
