"""How fast output comes."""

from __future__ import annotations

import time

#: Seconds over which it is taken.
_SPAN = 0.25


class Speed:
    """`rate`: bytes a second that came lately."""

    def __init__(self) -> None:
        self.rate = 0.0
        self._came, self._counted = 0, 0.0

    def feed(self, size: int) -> None:
        """So many bytes came now."""
        now = time.perf_counter()
        self._came += size
        if now - self._counted >= _SPAN:
            self.rate = self._came / (now - self._counted)
            self._came, self._counted = 0, now
