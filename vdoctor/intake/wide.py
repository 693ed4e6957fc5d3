"""UTF-16 text to which somebody appended plain bytes, as PowerShell's `>>` and a shell's do on one file."""

from __future__ import annotations

import codecs
import re

#: So many bytes of plain text in a row are no UTF-16: of Chinese characters two in five have a low byte among these.
_RUN = 32
_ASCII = rb"[\t\n\r\x1b\x20-\x7e]"
_PLAIN = re.compile(_ASCII + rb"{%d}" % _RUN)
_TAIL = re.compile(_ASCII + rb"{1,%d}\Z" % (_RUN - 1))


class WideDecoder:
    """Incremental decoder of UTF-16 in one byte order; stretches of plain bytes in it are read as UTF-8.

    What comes out does not depend on how the bytes were cut into chunks. Bytes that are neither become U+FFFD.
    """

    def __init__(self, encoding: str) -> None:
        """`encoding`: utf-16-le or utf-16-be."""
        self._encoding = encoding
        self._little = encoding == "utf-16-le"
        self._rest = b""
        self._wide = True
        self._decoder = self._new()

    def _new(self) -> codecs.IncrementalDecoder:
        return codecs.getincrementaldecoder(self._encoding if self._wide else "utf-8")("replace")

    def decode(self, data: bytes, final: bool = False) -> str:
        """Take the next bytes; `final`: there are no more."""
        self._rest += data
        text: list[str] = []
        while True:
            end, turns = self._plain_at(final) if self._wide else self._wide_at(final)
            text.append(self._decoder.decode(self._rest[:end], final or turns))
            self._rest = self._rest[end:]
            if not turns:
                return "".join(text)
            self._wide = not self._wide
            self._decoder = self._new()

    def _plain_at(self, final: bool) -> tuple[int, bool]:
        """Where UTF-16 ends as far as is known, and whether plain text begins there."""
        found = _PLAIN.search(self._rest)
        if found is not None:
            # Of a wide newline in front of it the second byte looks plain.
            return found.start() + found.start() % 2, True
        held = None if final else _TAIL.search(self._rest[-_RUN:])
        end = len(self._rest) - (len(held[0]) if held else 0)
        return (end if final else end - end % 2), False

    def _wide_at(self, final: bool) -> tuple[int, bool]:
        """Where plain text ends as far as is known, and whether UTF-16 begins there."""
        data, at = self._rest, self._rest.find(b"\0")
        while at >= 0:
            if at + 3 > len(data):
                # Whether a second one follows is not known yet.
                return (len(data), False) if final else (max(at - 1, 0), False)
            start = at - 1 if self._little else at
            if data[at + 2] == 0 and start >= 0:
                return start, True
            at = data.find(b"\0", at + 1)
        return (len(data) if final else max(len(data) - 1, 0)), False
