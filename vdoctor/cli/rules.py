"""The command line of `vdoctor rules`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vdoctor.cli.completing import files, rule_ids
from vdoctor.cli.pages import Page, PageGroup
from vdoctor.report.words import language


@click.group(name="rules", cls=PageGroup)
def rules_group() -> None:
    """The rule base, for people who extend it."""


@rules_group.command(name="list", cls=Page)
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the titles [default: from the locale]."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the list."
)
def rules_list(rules: tuple[Path, ...], lang: str | None, form: str) -> int:
    """List all rules."""
    from vdoctor.commands.rules import list_rules

    return list_rules(rules, lang=lang or language(os.environ), form=form)


@rules_group.command(name="lint", cls=Page)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|DIR]...")
def rules_lint(paths: tuple[Path, ...]) -> int:
    """Check rule files and prove their examples; without PATH, the shipped rules.

    Every fault is shown with its place, the reason and a way to mend it.
    """
    from vdoctor.commands.rules import lint

    return lint(paths)


@rules_group.command(name="test", cls=Page)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE|DIR]...")
def rules_test(paths: tuple[Path, ...]) -> int:
    """Run the examples inside rule files; without PATH, those of the shipped rules."""
    from vdoctor.commands.rules import test

    return test(paths)


@rules_group.command(name="new", cls=Page)
@click.argument("rule_id", metavar="ID")
@click.option(
    "--from-log", required=True, metavar="FILE:LINE", shell_complete=files, help="The line that the rule is about."
)
@click.option("--cause", metavar="FINDING", shell_complete=rule_ids, help="Finding id [default: the same as ID].")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), default=Path("rules"), show_default=True, help="Rule base."
)
def rules_new(rule_id: str, from_log: str, cause: str | None, folder: Path) -> int:
    """Write a draft of the rule ID from one line of a log."""
    from vdoctor.commands.rules import new

    return new(rule_id, from_log=from_log, cause=cause, folder=folder)
