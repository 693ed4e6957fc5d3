"""How far a long piece of work is: a bar on standard error, on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(total: int, worth: int, *, counted: bool = False) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how much more is done, of `total`. Work below `worth` shows nothing.

    `counted`: the bar shows how many, not the share.
    """
    if total < worth or not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False, markup=False)
    with Progress(
        BarColumn(),
        MofNCompleteColumn() if counted else TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as shown:
        task = shown.add_task("", total=total)
        yield lambda more: shown.advance(task, more)


def _ignore(more: int) -> None:
    """Nobody looks."""
