"""`vdoctor completion SHELL`, and what is offered behind a half-typed word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vdoctor.cli.pages import Page

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Page)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script of a shell: commands, options, their values, files, rule ids.

    The script asks vdoctor itself, so it stays right when vdoctor is updated. bash needs version 4.4 or newer.
    """
    from click.shell_completion import get_completion_class

    from vdoctor.cli import main_group

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main_group, {}, "vdoctor", "_VDOCTOR_COMPLETE").source())
    return 0


def files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of files, by the shell itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def rule_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Rule and finding ids."""
    from click.shell_completion import CompletionItem

    from vdoctor.rulebase.causes import CAUSES
    from vdoctor.store import load_rules

    names = {*CAUSES, *(rule.id for rule in load_rules().rules)}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def models(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of well-known models; where none fits, files: a model may be a folder."""
    from click.shell_completion import CompletionItem

    from vdoctor.commands.subjects import known_models

    names = sorted(name for name in known_models() if name.startswith(incomplete)) if incomplete else []
    return [CompletionItem(name) for name in names] or files(ctx, parameter, incomplete)
