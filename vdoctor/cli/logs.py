"""Commands that read logs and sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vdoctor.cli.completing import files, rule_ids
from vdoctor.cli.pages import Page
from vdoctor.cli.shared import common, lang_of


@click.command(cls=Page)
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=files)
@click.option(
    "--gpu-log",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="GPU memory beside the log: nvidia-smi --query-gpu=... --format=csv, or dmon.",
)
@click.option(
    "--check-redaction", is_flag=True, help="Show only what redaction replaces: kinds and counts, not the values."
)
@click.option("--jsonl", is_flag=True, help="One JSON report on a line for each log, as soon as it is known.")
@common
def analyze(paths: tuple[str, ...], lang: str | None, jsonl: bool, **options: Any) -> int:
    """Diagnose saved logs, pasted tickets and recorded sessions.

    PATH is a log, a session folder, a folder of logs, a .gz, .zst, .zip or .tar.gz, or - for
    standard input.
    """
    from vdoctor.commands.analyze import analyze as run

    return run(paths, lang=lang_of(lang), **(options | {"form": "jsonl"} if jsonl else options))


@click.command(cls=Page)
@click.argument("session", metavar="SESSION", type=click.Path(path_type=Path))
@click.option(
    "--output", metavar="FILE", shell_complete=files, help="The archive to write [default: NAME.tar.gz in this folder]."
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the texts [default: from the locale]."
)
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
@click.option("--check-redaction", is_flag=True, help="Write nothing; show what redaction would replace.")
def bundle(session: Path, lang: str | None, **options: Any) -> int:
    """Pack a recorded session for somebody else, everything private hidden.

    SESSION is a folder that `watch` recorded. Secrets, users, hosts, addresses and private models get names such as
    host-1; prompts are dropped. `vdoctor analyze FILE` reads the archive back to the same report.
    """
    from vdoctor.commands.bundle import bundle as run

    return run(session, lang=lang_of(lang), **options)


@click.command(cls=Page)
@click.argument("before", metavar="BEFORE", shell_complete=files)
@click.argument("after", metavar="AFTER", shell_complete=files)
@common
def compare(before: str, after: str, lang: str | None, **options: Any) -> int:
    """Compare two starts: which phase got slower or bigger, what changed in command, versions and caches.

    BEFORE and AFTER are sessions or logs.
    """
    from vdoctor.commands.compare import compare as run

    return run(before, after, lang=lang_of(lang), **options)


@click.command(cls=Page)
@click.argument("rule_id", metavar="ID", shell_complete=rule_ids)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="One language only [default: both].")
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
def explain(rule_id: str, lang: str | None, rules: tuple[Path, ...]) -> int:
    """Show the full page of a rule, or of every rule of a finding id."""
    from vdoctor.commands.explain import explain as run

    return run(rule_id, lang=lang, rules=rules)


@click.command(cls=Page)
@click.argument("paths", nargs=-1, required=True, metavar="PATH|URL...", shell_complete=files)
@click.option(
    "--output", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Folder for the part files."
)
@click.option(
    "--form", type=click.Choice(["jsonl", "parquet"]), default="jsonl", show_default=True, help="Form of the files."
)
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler [default: a local cluster].")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes of the local cluster [default: cores].")
@click.option("--part", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Logs in one part.")
@click.option("--storage", metavar="JSON", help="Options for fsspec, such as '{\"anon\": true}'.")
@click.option(
    "--rules",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="More rules, besides the shipped ones.",
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the texts [default: from the locale]."
)
def fleet(paths: tuple[str, ...], lang: str | None, **options: Any) -> int:
    """Diagnose any number of logs on Dask (needs vdoctor[fleet]).

    Each PATH or URL is a log, a folder, or an fsspec URL (s3://bucket/logs/*.log). Results go to part files in DIR:
    one row for each log, with its report. A run that was stopped goes on where it was; a bad log stops nothing.
    """
    from vdoctor.commands.fleet import fleet as run

    return run(paths, lang=lang_of(lang), **options)
