"""Bytes to lines, whatever the chunks: newlines, carriage returns, UTF-8 and UTF-16, endless lines."""

from __future__ import annotations

import codecs

from vdoctor.intake.wide import WideDecoder
from vdoctor.model import Line

#: A longer line is cut here: vLLM's own longest records (engine config) stay under 16 KiB, and a
#: JSON request body or a minified blob beyond this length never carried a signal.
MAX_LINE = 64 * 1024

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class LineSplitter:
    """Incremental splitter. The lines do not depend on how the bytes were cut into chunks.

    Lines end at `\\n`, `\\r\\n` or `\\r`; only `\\n` counts up `Line.no`. Invalid bytes become U+FFFD.
    """

    def __init__(self) -> None:
        self._head: bytes | None = b""
        self._encoding = ""
        self._decoder: codecs.IncrementalDecoder | WideDecoder | None = None
        self._parts: list[str] = []
        self._length = 0
        self._no = 1
        self._after_cr = False
        self._unended = False
        self.bytes = 0

    @property
    def number(self) -> int:
        """Number of the line that the next byte belongs to."""
        return self._no

    @property
    def is_utf8(self) -> bool:
        """The encoding is known, and every newline is one byte."""
        return self._encoding == "utf-8"

    def skip(self, lines: int) -> None:
        """Whole lines were left out. Only at the start of a line."""
        self._no += lines

    @property
    def lines(self) -> int:
        """Number of lines so far as an editor counts them."""
        return self._no - 1 + self._unended

    def feed(self, data: bytes, arrived: float | None = None) -> list[Line]:
        """Take the next bytes; return the lines that they complete."""
        self.bytes += len(data)
        if self._decoder is None:
            data = self._sniff(data)
            if self._decoder is None:
                return []
        return self._split(self._decoder.decode(data), arrived)

    def close(self, arrived: float | None = None) -> list[Line]:
        """The input ended: return what is left, a last line without a terminator included."""
        text = ""
        if self._decoder is None and self._head:
            head = self._choose(self._head)
            text = self._decoder.decode(head) if self._decoder else ""
        if self._decoder is not None:
            text += self._decoder.decode(b"", final=True)
        lines = self._split(text, arrived)
        if self._parts:
            lines.append(self._take(arrived))
        return lines

    def pending(self, arrived: float | None = None) -> Line | None:
        """The unfinished last line, for a look at it while the writer is silent."""
        return Line(self._no, "".join(self._parts), arrived) if self._parts else None

    def _sniff(self, data: bytes) -> bytes:
        """Wait for four bytes, then choose the decoder."""
        head = (self._head or b"") + data
        if len(head) < 4:
            self._head = head
            return b""
        return self._choose(head)

    def _choose(self, head: bytes) -> bytes:
        """Choose the decoder from the first bytes (a byte-order mark or NULs at odd places)."""
        self._head = None
        encoding = "utf-8"
        for bom, name in _BOMS:
            if head.startswith(bom):
                encoding, head = name, head[len(bom) :]
                break
        else:
            if head[1:4:2] == b"\0\0" and head[0]:
                encoding = "utf-16-le"
            elif head[0:4:2] == b"\0\0" and head[1]:
                encoding = "utf-16-be"
        self._encoding = encoding
        wide = encoding != "utf-8"
        self._decoder = WideDecoder(encoding) if wide else codecs.getincrementaldecoder(encoding)("replace")
        return head

    def _split(self, text: str, arrived: float | None) -> list[Line]:
        lines: list[Line] = []
        if not text:
            return lines
        if self._after_cr:
            self._after_cr = False
            if text[0] == "\n":
                self._no += 1
                self._unended = False
                text = text[1:]
                if not text:
                    return lines
        # Universal newlines by hand: str.splitlines would also split at U+2028, form feeds and others.
        pieces = text.replace("\r\n", "\n").split("\n") if "\r" in text else text.split("\n")
        self._after_cr = text.endswith("\r")
        self._unended = not text.endswith("\n")
        for number, piece in enumerate(pieces):
            if number:
                lines.append(self._take(arrived))
                self._no += 1
            if "\r" in piece:
                *done, piece = piece.split("\r")
                for part in done:
                    self._keep(part)
                    lines.append(self._take(arrived))
            self._keep(piece)
        return lines

    def _keep(self, piece: str) -> None:
        room = MAX_LINE - self._length
        if piece and room > 0:
            self._parts.append(piece[:room])
            self._length += min(len(piece), room)

    def _take(self, arrived: float | None) -> Line:
        line = Line(self._no, "".join(self._parts), arrived)
        self._parts.clear()
        self._length = 0
        return line
