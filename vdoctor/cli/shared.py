"""Options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from vdoctor.cli.completing import files
from vdoctor.report.words import language

F = TypeVar("F", bound=Callable[..., Any])


def common(function: F) -> F:
    """Options that every reporting command has."""
    for option in reversed(
        (
            click.option(
                "--format",
                "form",
                type=click.Choice(["text", "json", "markdown", "html"]),
                default="text",
                show_default=True,
                help="Form of the result.",
            ),
            click.option(
                "--output",
                metavar="FILE",
                shell_complete=files,
                help="Write the result to FILE instead of standard output.",
            ),
            click.option(
                "--lang",
                type=click.Choice(["en", "zh"]),
                default=None,
                help="Language of the texts [default: from the locale].",
            ),
            click.option(
                "--rules",
                "rules",
                multiple=True,
                metavar="DIR",
                type=click.Path(path_type=Path),
                help="More rules, besides the shipped ones.",
            ),
            click.option(
                "--no-color",
                "color",
                is_flag=True,
                flag_value=False,
                default=True,
                help="No colours (NO_COLOR does the same).",
            ),
            click.option(
                "--redact/--no-redact",
                "redact",
                default=None,
                help="Hide what is private: secrets, users, hosts, addresses, private models, prompts [default: in"
                " markdown and html, and in all that is written to a file].",
            ),
            click.option("-v", "--verbose", is_flag=True, help="All evidence, references and undecided rules."),
        )
    ):
        function = option(function)
    return function


def lang_of(value: str | None) -> str:
    """The language asked for, else that of the locale."""
    return value or language(os.environ)
