"""Which logs there are: local paths and whatever fsspec can read."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from vdoctor.errors import UserError
from vdoctor.intake.archives import unpacked
from vdoctor.intake.files import inputs
from vdoctor.intake.inputs import Input

# One letter is a drive of Windows.
_URL = re.compile(r"[A-Za-z][\w+.\-]+(?:://|::)")
_SUFFIXES = (".log", ".txt", ".out", ".err", ".md", ".gz", ".zst")


def logs(paths: Sequence[str], storage: dict[str, Any] | None = None) -> list[Input]:
    """All logs behind paths and URLs, each name once, in order. Raises UserError when one holds none.

    A URL may be a file, a folder, or a pattern with `*`. `storage` holds options for fsspec.
    """
    found: dict[str, Input] = {}
    for path in paths:
        if path == "-":
            raise UserError("standard input cannot be spread over machines", "give files, folders or URLs")
        some = _remote(path, storage or {}) if _URL.match(path) else inputs(path, io.BytesIO())
        found.update((one.name, one) for one in some)
    return list(found.values())


def _remote(url: str, storage: dict[str, Any]) -> list[Input]:
    import fsspec

    try:
        system, place = fsspec.core.url_to_fs(url, **storage)
        if "*" in place:
            names = [name for name in system.glob(place) if not system.isdir(name)]
        elif system.isdir(place):
            names = [name for name in system.find(place) if name.endswith(_SUFFIXES)]
        else:
            names = [place] if system.exists(place) else []
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"{url}: cannot be read: {error}", "see the fsspec page of this protocol") from None
    if not names:
        raise UserError(f"{url}: no logs there", f"looked for: {' '.join('*' + suffix for suffix in _SUFFIXES)}")
    whole = [system.unstrip_protocol(name) for name in sorted(names)]
    return [_input(name, storage) for name in whole]


def _input(url: str, storage: dict[str, Any]) -> Input:
    notices: list[str] = []
    return Input(url, partial(_fetch, url, storage, notices), None, notices)


def _fetch(url: str, storage: dict[str, Any], notices: list[str]) -> Iterator[bytes]:
    import fsspec

    try:
        system, place = fsspec.core.url_to_fs(url, **storage)
        size = system.size(place) or 0
        with system.open(place, "rb") as file:
            yield from unpacked(url, size, file, notices)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(f"{url}: cannot be read: {error}") from None
