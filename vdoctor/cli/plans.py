"""Commands that look ahead: nothing is started."""

from __future__ import annotations

from typing import Any

import click

from vdoctor.cli.estimate_options import estimate_options
from vdoctor.cli.shared import common, lang_of


@click.command()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="MODEL | -- COMMAND...")
@estimate_options
def estimate(words: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """The GPU memory budget: weights, KV cache, the rest; what fits, and what makes it fit.

    MODEL is a folder, a repository in the Hugging Face cache, or the name of a well-known model. Behind --
    stands a start command: vdoctor estimate -- vllm serve MODEL ... Exit status: 0 fits, 1 does not or may
    not, 2 unreadable input. Nothing is downloaded; --online alone asks the hub for configuration and headers.
    """
    from vdoctor.commands.estimate import run

    return run(words, lang=lang_of(lang), **options)


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@common
def check(command: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """Look at this machine, and at the launch COMMAND, before anything is started.

    GPUs, host, disks, compilers, the packages of the Python that COMMAND starts, its options, its model's files, and
    whether it all fits together: vdoctor check -- vllm serve MODEL ... Nothing is started, changed or downloaded.
    Exit status: 0 nothing found, 1 something found, 2 wrong usage.
    """
    from vdoctor.commands.check import check as run

    return run(command, lang=lang_of(lang), **options)
