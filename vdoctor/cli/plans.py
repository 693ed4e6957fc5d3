"""Commands that look ahead: nothing is started."""

from __future__ import annotations

from typing import Any

import click

from vdoctor.cli.completing import files, models
from vdoctor.cli.estimate_options import estimate_options
from vdoctor.cli.pages import Page
from vdoctor.cli.shared import common, lang_of


@click.command(cls=Page)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="MODEL | -- COMMAND...", shell_complete=models)
@estimate_options
def estimate(words: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """The GPU memory budget: weights, KV cache, the rest; what fits, and what makes it fit.

    MODEL is a folder, a repository in the Hugging Face cache, or the name of a well-known model. Behind --
    stands a start command: vdoctor estimate -- vllm serve MODEL ... Nothing is
    downloaded; --online alone asks the hub for configuration and headers.
    """
    from vdoctor.commands.estimate import run

    return run(words, lang=lang_of(lang), **options)


@click.command(cls=Page, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]", shell_complete=files)
@common
def check(command: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """Look at this machine, and at the launch COMMAND, before anything is started.

    GPUs, host, disks, compilers, the packages of the Python that COMMAND starts, its options, its model's files, and
    whether it all fits together: vdoctor check -- vllm serve MODEL ... Nothing is started, changed or downloaded.
    """
    from vdoctor.commands.check import check as run

    return run(command, lang=lang_of(lang), **options)
