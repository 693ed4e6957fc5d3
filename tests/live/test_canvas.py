"""Lines below a child's output in a real terminal: what the child wrote stays as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Mark, until
from tests.tmux import Tmux, needs_tmux
from vdoctor.live.canvas import Canvas


class Drawing:
    """tests.live.drawing.py in a tmux window."""

    def __init__(self, folder: Path, mark: Mark) -> None:
        self._folder = folder
        self._number = 0
        self.tmux = Tmux(folder, mark)
        self.tmux.start(sys.executable, "-m", "tests.live.drawing", str(folder))

    def step(self, action: str) -> None:
        """Do one step and wait until it is done."""
        part = self._folder / f"{self._number}.part"
        part.write_text(action, encoding="utf-8")
        part.rename(self._folder / str(self._number))
        done = self._folder / f"{self._number}.done"
        assert until(done.exists), self.tmux.screen()
        self._number += 1

    def shows(self, *lines: str) -> None:
        """The screen comes to show exactly these lines."""
        assert until(lambda: self.tmux.screen().splitlines() == list(lines), 10.0), self.tmux.screen()


@pytest.fixture
def drawing(tmp_path: Path, mark: Mark) -> Iterator[Drawing]:
    found = Drawing(tmp_path, mark)
    yield found
    found.tmux.stop()


@needs_tmux
def test_lines_come_and_go_below_whole_lines(drawing: Drawing) -> None:
    drawing.step("child one\\n")
    drawing.step("draw a panel|of two lines")
    drawing.shows("one", "a panel", "of two lines")
    drawing.step("draw another")
    drawing.shows("one", "another")
    drawing.step("child two\\n")
    drawing.shows("one", "two")


@needs_tmux
def test_an_open_line_is_continued_where_it_ended(drawing: Drawing) -> None:
    drawing.step("child half")
    drawing.step("draw a panel|of two lines")
    drawing.shows("half", "a panel", "of two lines")
    drawing.step("child  and whole\\nnext\\n")
    drawing.shows("half and whole", "next")


@needs_tmux
def test_a_bar_is_redrawn_in_its_line(drawing: Drawing) -> None:
    for done in range(3):
        drawing.step(f"child \\rshards {done}/2")
        drawing.step("draw panel|below")
        drawing.shows(f"shards {done}/2", "panel", "below")
    drawing.step("child \\n")
    drawing.shows("shards 2/2")


@needs_tmux
def test_at_the_bottom_of_the_screen_nothing_is_lost(drawing: Drawing) -> None:
    text = [f"line {number}" for number in range(60)]
    drawing.step("child " + "\\n".join(text))
    drawing.step("draw panel|below")
    drawing.step("child  goes on\\nlast\\n")
    drawing.step("draw panel|below")
    drawing.shows(*text[:-1], "line 59 goes on", "last", "panel", "below")
    drawing.step("clear")
    drawing.shows(*text[:-1], "line 59 goes on", "last")


@needs_tmux
def test_a_window_that_gets_narrower_keeps_the_output_of_the_child(drawing: Drawing) -> None:
    """What terminals do with the cursor when they wrap lines anew differs: rests of a panel may stay, nothing is lost."""
    drawing.step("child one\\nhalf")
    drawing.step("draw " + "x" * 90 + "|" + "y" * 90)
    drawing.tmux.resize(40, 20)
    assert until(lambda: "x" * 40 + "\n" in drawing.tmux.screen() + "\n", 10.0)
    drawing.step("draw short")
    drawing.step("child  two\\nthree\\n")
    drawing.step("child four\\n")
    lines = [line for line in drawing.tmux.screen().splitlines() if not set(line) <= set("xy")]
    assert lines[0] == "one"
    assert lines[-2:] == ["three", "four"]
    assert "short" not in lines


@pytest.mark.parametrize("data", [b"text\x1b[2A", b"bar\r", b"\x1b[?1049h", b"a\x08", b"x" * 200])
def test_nothing_is_drawn_where_the_place_of_the_cursor_is_unknown(data: bytes) -> None:
    written: list[str] = []
    canvas = Canvas(written.append, lambda: 80)
    canvas.follow(data)
    assert not canvas.drawable
    canvas.draw(["panel"])
    assert written == []


def test_after_a_whole_line_the_place_is_known_again() -> None:
    written: list[str] = []
    canvas = Canvas(written.append, lambda: 80)
    canvas.follow(b"\x1b[5Aup\n")
    canvas.draw(["panel"])
    assert "panel" in "".join(written)


def test_the_same_lines_are_written_once() -> None:
    written: list[str] = []
    canvas = Canvas(written.append, lambda: 80)
    for _ in range(3):
        canvas.draw(["panel"])
    assert len(written) == 1
