"""The header of a safetensors file: names, types and shapes of what is in it. A header is hostile input."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from vdoctor.errors import FileFault, UserError

#: Bits of one element (safetensors, safetensors/src/tensor.rs).
BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
#: The format's own limit for a header.
MAX_HEADER = 100_000_000
_AGAIN = "the file is damaged or incomplete: download it again"


class Tensor(NamedTuple):
    """One tensor of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


def header_length(first: bytes, size: int, where: str) -> int:
    """Bytes of the header behind the first eight of a file of `size` bytes; FileFault when it cannot be."""
    if len(first) < 8:
        raise FileFault(f"{where}: {size} bytes, too short for a safetensors file", _AGAIN, "empty", where)
    length = int.from_bytes(first[:8], "little")
    if length > MAX_HEADER or length < 2:
        # Read as a number, eight letters of a text are huge.
        text = all(32 <= byte < 127 or byte in b"\r\n\t" for byte in first[:8])
        kind = "pointer" if text else "empty" if length == 0 else "bad-header"
        hint = "this is no safetensors file, or it is damaged"
        raise FileFault(f"{where}: a header of {length} bytes cannot be", hint, kind, where)
    if 8 + length > size:
        what = f"{where}: the header says {length} bytes, the file ends after {size}"
        raise FileFault(what, _AGAIN, "cut-off", where)
    return length


def parse_header(header: bytes, size: int, where: str) -> list[Tensor]:
    """The tensors of a file of `size` bytes; FileFault for a header that does not fit the file or itself."""
    try:
        data = json.loads(header)
    except (ValueError, RecursionError):
        raise _damaged(f"{where}: the header is not JSON", where) from None
    if not isinstance(data, dict):
        raise _damaged(f"{where}: the header is not a JSON object", where)
    room = size - 8 - len(header)
    return list(_tensors(data, room, where))


def _damaged(what: str, where: str, hint: str = _AGAIN) -> FileFault:
    return FileFault(what, hint, "bad-header", where)


def _tensors(data: dict[str, Any], room: int, where: str) -> Iterator[Tensor]:
    taken = 0
    for name, entry in data.items():
        if name == "__metadata__":
            continue
        tensor, end = _tensor(name, entry, where)
        if end > room:
            what = f"{where}: {name[:80]} ends at byte {end}, the file has room for {room}"
            raise FileFault(what, _AGAIN, "cut-off", where)
        taken += tensor.bytes
        yield tensor
    if taken > room:
        raise _damaged(f"{where}: tensors of {taken} bytes in a file with room for {room}", where)


def _tensor(name: str, entry: object, where: str) -> tuple[Tensor, int]:
    if not isinstance(entry, dict):
        raise _damaged(f"{where}: {name[:80]} has no description", where)
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    bits = BITS.get(dtype) if isinstance(dtype, str) else None
    if bits is None:
        raise UserError(f"{where}: {name[:80]} has the unknown type {str(dtype)[:40]}", "a newer vdoctor may know it")
    if not _counts(shape) or not _counts(offsets):
        raise _damaged(f"{where}: {name[:80]} has an impossible shape or place", where)
    assert isinstance(shape, list) and isinstance(offsets, list)
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _damaged(f"{where}: {name[:80]} has an impossible place", where)
    expected = math.prod(shape) * bits
    if expected != (offsets[1] - offsets[0]) * 8:
        given = offsets[1] - offsets[0]
        raise _damaged(
            f"{where}: {name[:80]} of shape {shape} {dtype} is {expected // 8} bytes, the header gives {given}", where
        )
    return Tensor(name, str(dtype), tuple(shape), expected // 8), offsets[1]


def _counts(value: object) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 1 << 62 for one in value)
