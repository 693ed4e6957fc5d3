"""A few lines below the child's output on one terminal, drawn and taken away without touching what the child wrote."""

from __future__ import annotations

import re
from collections.abc import Callable

from rich.cells import cell_len

from vdoctor.intake.clean import clean

#: Sequences after which we do not know where the cursor stands: it was moved, or the screen was cleared or swapped.
_MOVES = re.compile(rb"\x1b(?:\[[0-9;?]*[ABCDEFGHJKSTdfhlnsu]|[78DEM])|[\x08\x0b\x0c]")
#: Bytes of an unfinished line that are kept; a longer one wraps, and nothing is drawn below it.
_LONGEST = 4096


class Canvas:
    """Draws below the cursor and goes back to it. `write` sends text to the terminal; `width` gives its columns now."""

    def __init__(self, write: Callable[[str], None], width: Callable[[], int]) -> None:
        self._write = write
        self._width = width
        self._open = b""
        self._lost = False
        self._drawn: tuple[list[str], int] | None = None

    def follow(self, data: bytes) -> None:
        """The child wrote `data`: know where the cursor stands now."""
        tail = data[-_LONGEST:]
        end = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
        if end:
            self._open = tail[end:]
            # A carriage return leaves the text where it is, and the cursor in front of it.
            self._lost = not self._open and tail.endswith(b"\r")
        else:
            self._open += tail
        if _MOVES.search(self._open) or len(self._open) >= _LONGEST:
            self._lost = True

    @property
    def drawable(self) -> bool:
        """Whether the cursor's place is known and lines can be shown below it."""
        return not self._lost and self._column() < self._width() - 1

    def draw(self, lines: list[str]) -> None:
        """Show these lines instead of the ones shown now; nothing where the cursor's place is unknown."""
        if not lines or not self.drawable:
            self.clear()
            return
        if self._drawn is not None and self._drawn == (lines, self._width()):
            return
        column = self._column()
        down = "\r\n" if column else "\r"
        body = "\r\n".join(lines)
        rows = len(lines) - 1 + (1 if column else 0)
        back = (f"\x1b[{rows}A" if rows else "") + f"\x1b[{column + 1}G"
        self._write(self._erased() + down + body + "\r" + back)
        self._drawn = (lines, self._width())

    @property
    def drawn(self) -> bool:
        """Whether lines are shown now."""
        return self._drawn is not None

    def forget(self) -> None:
        """Others wrote on the terminal: what we drew is where it is, and theirs to scroll away."""
        self._drawn = None

    def clear(self) -> None:
        """Take the lines away; the cursor stands where the child left it."""
        if self._drawn is not None:
            self._write(self._erased())
            self._drawn = None

    def _erased(self) -> str:
        """All below the cursor, and what stands right of it, goes: the child wrote nothing there."""
        if self._drawn is None:
            return ""
        # tmux keeps in its history what is cleared from the upper left corner on: begin one column later.
        return "\x1b[J" if self._column() else "\x1b[K\x1b[C\x1b[J\x1b[D"

    def _column(self) -> int:
        return cell_len(clean(self._open.decode("utf-8", "replace")).expandtabs(8))
