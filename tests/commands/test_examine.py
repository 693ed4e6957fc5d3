"""What the commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdoctor.commands.examine import check_output, emit, terminal_width, use_color
from vdoctor.errors import UserError


@pytest.mark.parametrize(
    ("columns", "expected"), [("132", 132), ("0", 100), ("-5", 100), ("wide", 100), ("", 100), ("²", 100)]
)
def test_width_is_that_of_columns_or_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str, expected: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with Path("/dev/null").open() as no_terminal:
        assert terminal_width(no_terminal.fileno()) == expected


@pytest.mark.parametrize(
    ("wanted", "terminal", "no_color", "expected"),
    [(True, True, "", True), (True, True, "1", False), (False, True, "", False), (True, False, "", False)],
)
def test_colour_needs_a_terminal_and_nobody_against_it(
    monkeypatch: pytest.MonkeyPatch, wanted: bool, terminal: bool, no_color: str, expected: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    assert use_color(wanted, terminal) is expected


def test_output_is_checked_without_harm_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("kept")
    check_output(str(tmp_path / "old"))
    check_output(None)
    check_output("-")
    assert (tmp_path / "old").read_text() == "kept"


@pytest.mark.parametrize("place", ["", "no/such/folder/x"])
def test_output_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    for refuse in (check_output, lambda output: emit("text", output)):
        with pytest.raises(UserError, match="cannot be written"):
            refuse(str(tmp_path / place))


def test_text_that_is_no_unicode_is_written_as_escapes(tmp_path: Path) -> None:
    emit("a \udcff b", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "a \\udcff b"
