"""Thresholds, and the page that shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdoctor.model import STEPS as ALL_STEPS
from vdoctor.startup.patience import STEPS, confirmation, patience

PAGE = Path(__file__).parents[2] / "docs" / "hung-or-slow.md"


def test_every_step_has_its_patience() -> None:
    assert set(STEPS) == set(ALL_STEPS)


def test_page_shows_the_figures_that_hold() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [f"| `{step}` | {own.idle:.0f} | {own.spin:.0f} | {own.long:.0f} |" for step, own in STEPS.items()]
    assert [line for line in text.splitlines() if line.startswith("| `") and "." in line.split("|")[1]] == rows


@pytest.mark.parametrize("step", [None, "launch.config", "some.step"])
def test_unknown_step_is_as_the_first(step: str | None) -> None:
    assert patience(step, None) == STEPS["launch.config"]


def test_wish_replaces_what_makes_a_stall_and_not_what_is_slow() -> None:
    assert patience("kv_init.compile", 7.0) == (7.0, 7.0, STEPS["kv_init.compile"].long)


@pytest.mark.parametrize(("state", "wish", "seconds"), [("T", None, 3), ("t", None, 10), ("T", 60, 3), ("t", 5, 5)])
def test_confirmation_of_a_stop_is_never_longer_than_the_wish(state: str, wish: float | None, seconds: float) -> None:
    assert confirmation(state, wish) == seconds
