"""Options of a search for a change that works: of `confirm` and of `watch --confirm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vdoctor.cli.numbers import FiniteRange

if TYPE_CHECKING:
    from vdoctor.commands.confirming import Confirming

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
                type=FiniteRange(1),
                default=1200.0,
                show_default=True,
                metavar="SECONDS",
                help="Time for one start.",
            ),
            click.option(
                "--budget",
                type=FiniteRange(min=0, min_open=True),
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
    from vdoctor.commands.confirming import Confirming

    names = ("mode", "max_trials", "trial_timeout", "budget", "dry_run", "measure", "only")
    return Confirming(*(options.pop(name) for name in names))
