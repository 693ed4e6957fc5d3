"""What `--help` shows: options in groups, examples, exit statuses. One table; the commands hold the options alone."""

from __future__ import annotations

from typing import NamedTuple

import click

from vdoctor.cli.page_texts import EXAMPLES, GROUPS, HEADINGS, SHORT, STATUS

_OTHER = "Options"


class Section(NamedTuple):
    """A heading, and rows of a term and what it means."""

    heading: str
    rows: list[tuple[str, str]]


class Page(click.Command):
    """A command whose help is a page."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options under their headings, then examples and exit statuses."""
        write(formatter, sections(self, ctx), key(ctx))


class PageGroup(click.Group):
    """A group whose commands are listed by purpose, with whole sentences."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands first: they are what one looks for."""
        self.format_commands(ctx, formatter)
        write(formatter, sections(self, ctx), key(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All commands; one that no heading claims stands at the end."""
        groups = {heading: [name for name in names if name in self.commands] for heading, names in GROUPS.items()}
        claimed = {name for names in groups.values() for name in names}
        groups["Commands"] = [*groups.get("Commands", []), *(name for name in self.commands if name not in claimed)]
        width = max(map(len, self.commands), default=0)
        for heading, names in groups.items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), short(self.commands[name])) for name in names])


def short(command: click.Command) -> str:
    """One line on a command."""
    return SHORT.get(command.name or "", "") or command.get_short_help_str(limit=100)


def key(ctx: click.Context) -> str:
    """`rules lint`, `watch`, or nothing for vdoctor itself."""
    names: list[str] = []
    at: click.Context | None = ctx
    while at is not None and at.parent is not None:
        names.insert(0, at.info_name or "")
        at = at.parent
    return " ".join(names)


def sections(command: click.Command, ctx: click.Context) -> list[Section]:
    """The options of a command under their headings, in the order of the table."""
    found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*HEADINGS, _OTHER)}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):
            found[heading_of(parameter)].append(record)
    return [Section(heading, rows) for heading, rows in found.items() if rows]


def heading_of(parameter: click.Parameter) -> str:
    """The heading that claims an option."""
    return next((heading for heading, names in HEADINGS.items() if set(parameter.opts) & set(names)), _OTHER)


def write(formatter: click.HelpFormatter, options: list[Section], command: str) -> None:
    """Options, exit statuses and examples, each under its heading."""
    statuses = [Section("Exit status", list(STATUS[command]))] if command in STATUS else []
    for section in [*options, *statuses]:
        with formatter.section(section.heading):
            formatter.write_dl(section.rows)
    if command in EXAMPLES:
        with formatter.section("Examples"):
            formatter.write("".join(f"{line}\n" for line in _examples(EXAMPLES[command], formatter)))


def _examples(examples: tuple[tuple[str, str], ...], formatter: click.HelpFormatter) -> list[str]:
    """Commands with a comment beside, or above where one is too long. None is broken: they are copied from here."""
    indent = " " * formatter.current_indent
    longest = max(len(line) for line, _ in examples)
    beside = [f"{indent}{line.ljust(longest)}  # {what}" for line, what in examples]
    if max(map(len, beside)) <= formatter.width:
        return beside
    return [f"{indent}{text}" for line, what in examples for text in (f"# {what}", line)]
