"""A program that writes like a child and draws like vdoctor: each step waits for its file in the folder given."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from vdoctor.live.canvas import Canvas


def main(folder: Path) -> None:
    """Steps are files `N`: `child TEXT` or `draw LINE|LINE` or `clear`; done when `N.done` appears."""
    canvas = Canvas(_write, lambda: os.get_terminal_size(1).columns)
    number = 0
    while True:
        step = folder / str(number)
        while not step.exists():
            time.sleep(0.01)
        action, _, text = step.read_text(encoding="utf-8").partition(" ")
        if action == "end":
            return
        if action == "child":
            data = text.encode().decode("unicode_escape").encode("latin-1")
            canvas.clear()
            os.write(1, data)
            canvas.follow(data)
        elif action == "draw":
            canvas.draw(text.split("|"))
        else:
            canvas.clear()
        (folder / f"{number}.done").touch()
        number += 1


def _write(text: str) -> None:
    os.write(1, text.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
