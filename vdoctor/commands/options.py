"""Sets of options that more than one command has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def confirming(function: F) -> F:
    """Options of a search for a change that works."""
    for option in reversed(
        (
            click.option(
                "--max-trials",
                type=click.IntRange(1, 1000),
                default=12,
                show_default=True,
                help="At most so many starts.",
            ),
            click.option(
                "--trial-timeout",
                type=click.FloatRange(1),
                default=1200.0,
                show_default=True,
                metavar="SECONDS",
                help="Time for one start.",
            ),
            click.option(
                "--budget",
                type=click.FloatRange(min=0, min_open=True),
                default=60.0,
                show_default=True,
                metavar="MINUTES",
                help="Time for all trials.",
            ),
            click.option("--dry-run", is_flag=True, help="Print the commands that would be tried, start nothing."),
            click.option("--measure", is_flag=True, help="Measure the speed of what works with a short fixed load."),
            click.option(
                "--fix",
                "only",
                multiple=True,
                metavar="ID",
                help="Try only the fixes of this id (see the JSON report).",
            ),
        )
    ):
        function = option(function)
    return function


def taken_confirming(options: dict[str, Any]) -> Confirming:
    """What the options of `confirming` ask for; they are taken out of `options`."""
    names = ("mode", "max_trials", "trial_timeout", "budget", "dry_run", "measure", "only")
    return Confirming(*(options.pop(name) for name in names))


@dataclass(frozen=True, slots=True)
class Confirming:
    """How to confirm: minutes for the budget, seconds for one trial."""

    mode: Literal["ask", "auto", "never"] = "ask"
    max_trials: int = 12
    trial_timeout: float = 1200.0
    budget: float = 60.0
    dry_run: bool = False
    measure: bool = False
    only: tuple[str, ...] = ()
