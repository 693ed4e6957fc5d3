"""The lines around the evidence, of a file and of what goes by once."""

from __future__ import annotations

from vdoctor.model import Line
from vdoctor.sieve.around import Around, around


def test_surroundings_are_the_lines_before_and_after() -> None:
    lines = [Line(n, f"line {n}") for n in range(1, 101)]
    near = around(lines, {50, 2, 99})
    assert [no for no, _ in near[50]] == list(range(42, 56))
    assert [no for no, _ in near[2]] == list(range(1, 8))
    assert [no for no, _ in near[99]] == list(range(91, 101))
    assert near[50][8] == (50, "line 50")


def test_rewritten_lines_show_their_last_state() -> None:
    near = around([Line(1, "a"), Line(2, "10 %"), Line(2, "90 %"), Line(3, "b")], {2, 3})
    assert near[3] == ((1, "a"), (2, "90 %"), (3, "b"))
    assert near[2] == ((1, "a"), (2, "90 %"), (3, "b"))


def test_line_that_is_wanted_after_it_went_by_is_found() -> None:
    found = Around()
    for number in range(1, 31):
        found.line(Line(number, f"line {number}"))
        if number == 12:
            found.want(11)
    assert [no for no, _ in found.near({11})[11]] == list(range(4, 17))


def test_line_that_never_came_has_no_surroundings() -> None:
    assert around([Line(1, "a"), Line(2, "b")], {7}) == {}


def test_memory_is_bounded_however_many_are_wanted() -> None:
    found = Around()
    for number in range(1, 20_001):
        found.want(number)
        found.line(Line(number, "x" * 10_000))
    kept = found.near(range(1, 20_001))
    assert len(kept) == 400
    assert {1, 200, 20_000} <= kept.keys()
    assert max(len(text) for lines in kept.values() for _, text in lines) == 600
