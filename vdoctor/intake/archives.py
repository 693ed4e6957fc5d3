"""Logs inside of compressed files and archives: read in memory, never unpacked onto the disk."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from vdoctor.errors import UserError
from vdoctor.intake.inputs import MAX_FILES, Input, read

#: More text than this from one compressed member, or from all of an archive, is no log but a bomb (or belongs
#: decompressed first).
MAX_UNPACKED = 8 << 30
#: deflate reaches 1032 to 1; a log of repeated lines about 100 to 1. Checked after the first 64 MiB.
MAX_RATIO = 400
_UNSUSPICIOUS = 64 << 20
#: Members are read in pieces of 1 MiB; a header that is longer than this is none.
_MOST_AT_ONCE = 4 << 20
_TEXTS = (".log", ".txt", ".out", ".err", ".md", "")
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


def packed(path: Path, magic: bytes) -> list[Input] | None:
    """The logs inside a file that begins with `magic`; None when it is not packed. Raises UserError when it is damaged."""
    name = str(path)
    if magic.startswith(b"PK\x03\x04"):
        return _zip_members(path)
    if magic.startswith(b"\x1f\x8b"):
        if _is_tar(path):
            return _tar_members(path)
        notices: list[str] = []
        return [Input(name, partial(_gunzip, path, notices), path, notices)]
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        notices = []
        return [Input(name, partial(_unzstd, path, notices), path, notices)]
    if magic[257:262] == b"ustar":
        return _tar_members(path)
    return None


def _bomb(name: str) -> UserError:
    return UserError(f"{name}: unpacks to far more than a log of its size", "unpack it yourself and give the text")


def _guard(name: str, size: int, chunks: Iterator[bytes], notices: list[str]) -> Iterator[bytes]:
    """Stop at a bomb; a broken end keeps what was readable, and says so."""
    total = 0
    try:
        for chunk in chunks:
            total += len(chunk)
            if total > MAX_UNPACKED or (total > _UNSUSPICIOUS and total > MAX_RATIO * max(size, 1)):
                raise _bomb(name)
            yield chunk
    except _BROKEN as error:
        if not total:
            raise UserError(f"{name}: is damaged: {error}") from None
        notices.append(f"{name}: is damaged or cut off: only its first {total} bytes could be read")


def unpacked(name: str, size: int, file: BinaryIO, notices: list[str]) -> Iterator[bytes]:
    """The text of an open file that may be compressed, from wherever it comes; `size` is that of the file."""
    head = file.read(512)
    file.seek(0)
    if head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar":
        raise UserError(f"{name}: is an archive", "unpack it beside its logs")
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        yield from _guard(name, size, _zstd_chunks(file), notices)
    else:
        yield from _member(name + ".gz" if head.startswith(b"\x1f\x8b") else "", size, file, notices, shown=name)


def _gunzip(path: Path, notices: list[str]) -> Iterator[bytes]:
    with gzip.open(path) as file:
        yield from _guard(str(path), path.stat().st_size, read(file), notices)  # type: ignore[arg-type]


def _unzstd(path: Path, notices: list[str]) -> Iterator[bytes]:
    with path.open("rb") as raw:
        yield from _guard(str(path), path.stat().st_size, _zstd_chunks(raw), notices)


def _zstd_chunks(raw: BinaryIO) -> Iterator[bytes]:
    import zstandard

    with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw) as file:
        try:
            yield from read(file)
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from None


def _wanted(name: str) -> bool:
    """Only the suffix of a member matters: it is never written. Archives inside of archives are left alone."""
    path = PurePosixPath(name.removesuffix(".gz"))
    hidden = any(part.startswith(".") and part not in (".", "..") for part in path.parts)
    return not hidden and path.suffix in _TEXTS and path.name != "case.json"


def _member(name: str, size: int, file: BinaryIO, notices: list[str], shown: str = "") -> Iterator[bytes]:
    """The text of a member, which may be compressed once more on its own."""
    shown = shown or name
    if not name.endswith(".gz"):
        yield from _guard(shown, size, read(file), notices)
        return
    with gzip.GzipFile(fileobj=file) as inner:
        yield from _guard(shown, size, read(inner), notices)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- zip


def _zip_members(path: Path) -> list[Input]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir() and _wanted(info.filename)]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UserError(f"{path}: is damaged: {error}") from None
    # Members may overlap and share their bytes: the sum tells.
    _check_sum(path, sum(info.file_size for info in members))
    found = []
    for info in members:
        notices: list[str] = []
        found.append(Input(f"{path}:{info.filename}", partial(_unzip, path, info, notices), path, notices))
    return _some(path, found)


def _unzip(path: Path, info: zipfile.ZipInfo, notices: list[str]) -> Iterator[bytes]:
    name = f"{path}:{info.filename}"
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as file:
            yield from _member(name, info.compress_size, file, notices)  # type: ignore[arg-type]
    except (RuntimeError, NotImplementedError) as error:
        raise UserError(f"{name}: cannot be unpacked: {error}") from None


# ---------------------------------------------------------------------- tar


class _Careful:
    """A file behind an archive of which nobody reads far too much at once: a header may claim any length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """As a file. Raises ReadError."""
        if not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError(f"a part of {size} bytes")
        return self._file.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        """As a file."""
        return self._file.seek(place, whence)

    def tell(self) -> int:
        """As a file."""
        return self._file.tell()


@contextlib.contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """A .tar or .tar.gz, to be read. Raises TarError, OSError, EOFError or zlib.error where it is damaged."""
    with path.open("rb") as raw:
        packed_once = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if packed_once else raw
        with tarfile.open(fileobj=_Careful(file), mode="r:") as archive:  # type: ignore[arg-type,call-overload]
            yield archive


def _is_tar(path: Path) -> bool:
    try:
        with gzip.open(path) as file:
            return file.read(512)[257:262] == b"ustar"
    except (OSError, EOFError, zlib.error):
        return False


#: The archive that was read last. Its members come in order: to open it again for each would unpack it as often.
_last: list[tuple[Path, tarfile.TarFile, contextlib.ExitStack]] = []


def _opened(path: Path) -> tarfile.TarFile:
    if not _last or _last[0][0] != path:
        close()
        stack = contextlib.ExitStack()
        _last.append((path, stack.enter_context(open_tar(path)), stack))
    return _last[0][1]


def close() -> None:
    """Close the archive that was read last."""
    while _last:
        _last.pop()[2].close()


def _tar_members(path: Path) -> list[Input]:
    names: dict[str, None] = {}
    total = 0
    try:
        with open_tar(path) as archive:
            for member in archive:
                total += member.size
                # The next header stands behind the whole member.
                _check_sum(path, total)
                if member.isfile() and _wanted(member.name):
                    names[member.name] = None
    except _BROKEN as error:
        # The members in front of a broken end are whole.
        if not names:
            raise UserError(f"{path}: is damaged: {error}") from None
    found = []
    for name in names:
        notices: list[str] = []
        found.append(Input(f"{path}:{name}", partial(_untar, path, name, notices), path, notices))
    return _some(path, found)


def _untar(path: Path, name: str, notices: list[str]) -> Iterator[bytes]:
    try:
        file = _opened(path).extractfile(name) or io.BytesIO()
    except (*_BROKEN, KeyError) as error:
        raise UserError(f"{path}:{name}: is damaged: {error}") from None
    yield from _member(f"{path}:{name}", path.stat().st_size, file, notices)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- both


def _check_sum(path: Path, total: int) -> None:
    if total > MAX_UNPACKED or (total > _UNSUSPICIOUS and total > MAX_RATIO * max(path.stat().st_size, 1)):
        raise _bomb(str(path))


def _some(path: Path, members: list[Input]) -> list[Input]:
    if not members:
        raise UserError(f"{path}: no logs in this archive")
    if len(members) > MAX_FILES:
        raise UserError(f"{path}: more than {MAX_FILES} logs in this archive")
    return members
