"""vdoctor compare: two sessions or logs side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from vdoctor.commands.examine import check_output, emit, examine_input, examine_session, terminal_width, use_color
from vdoctor.commands.privacy import redactor_for, tell_redaction
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.intake.files import inputs
from vdoctor.launch import options as option_tables
from vdoctor.live.session import Session, is_session
from vdoctor.model import Report, Sample
from vdoctor.report.comparison import Comparison, Row, lines, to_dict
from vdoctor.report.comparison import compare as compared
from vdoctor.report.json import printed
from vdoctor.store import load_rules

_GIB = 1 << 30
_STYLES = {"title": "bold", "plain": "", "minus": "red", "plus": "green"}


def compare(
    before: str,
    after: str,
    *,
    form: str,
    output: str | None,
    lang: str,
    rules: Sequence[Path],
    color: bool,
    verbose: bool,
    redact: bool | None = None,
) -> int:
    """Print what is different; 0 nothing got worse, 1 something did."""
    check_output(output)
    first, second = (_examined(path, rules) for path in (before, after))
    for path, report in ((before, first), (after, second)):
        if report.verdict == "not_vllm":
            raise UserError(f"{path}: this is not the output of a vLLM server", "give two logs or sessions of vLLM")
    redactor = redactor_for(form, output, redact)
    if redactor is not None:
        from vdoctor.report.redact import redact as redacted

        first, second = redacted(first, redactor), redacted(second, redactor)
    found = compared(first, second, _page_cache(before, after))
    if form == "json":
        text = printed(to_dict(found, first, second)) + "\n"
    elif form in ("markdown", "html"):
        from vdoctor.report import comparison_pages

        make = comparison_pages.html if form == "html" else comparison_pages.markdown
        text = make(found, first, second, lang)
    else:
        text = _text(found, first, second, lang, color=color and output in (None, "-"))
    emit(text, output)
    tell_redaction(redactor, lang)
    return 1 if found.is_worse else 0


def _text(found: Comparison, before: Report, after: Report, lang: str, *, color: bool) -> str:
    colored = use_color(color, sys.stdout.isatty())
    console = Console(
        file=None,
        width=terminal_width(1),
        force_terminal=colored,
        no_color=not colored,
        highlight=False,
        record=True,
    )
    with console.capture() as capture:
        for style, line in lines(found, before, after, lang):
            console.print(Text(clean(line), style=_STYLES[style]), soft_wrap=True)
    return capture.get()


def _examined(path: str, rules: Sequence[Path]) -> Report:
    base, options = load_rules(rules), option_tables.load()
    if path != "-" and is_session(Path(path)):
        return examine_session(Path(path), base, options)
    members = list(inputs(path, sys.stdin.buffer))
    if len(members) != 1:
        raise UserError(f"{path}: holds {len(members)} logs, one is needed", "name one of them")
    return examine_input(members[0], base, options)


def _page_cache(before: str, after: str) -> tuple[Row, ...]:
    """How much the kernel had in its file cache when each started, where the recordings have it."""
    values = [_first_page_cache(Path(path)) for path in (before, after)]
    return (Row("page cache at start, GiB", *values),) if None not in values else ()


def _first_page_cache(folder: Path) -> float | None:
    if not is_session(folder):
        return None
    for one in Session(folder).observations():
        if isinstance(one, Sample) and one.host is not None:
            return None if one.host.page_cache is None else round(one.host.page_cache / _GIB, 1)
    return None
