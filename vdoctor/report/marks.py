"""Pieces of Markdown for GitHub and trackers like it, in which text of a log stays text.

Log text stands in fences and code spans alone: there nothing is markup, and neither @names nor #numbers become links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vdoctor.intake.clean import clean

_TICKS = re.compile(r"`+")
# Printable ASCII words are looked at one by one; other scripts hold no markup.
_PIECES = re.compile(r"[\x21-\x7e]+|[^\x21-\x7e]+")
_PLAIN = re.compile(r"(?:[A-Za-z0-9]+(?:[.,:'/%+-][A-Za-z0-9]+)*)?[%]?")
_AROUND = re.compile(r"([(\"']*)(.*?)([.,;:!?)\"']*)", re.S)
#: What GitHub links by itself: GH-1, commits, www., http:
_LINKED = re.compile(r"(?i:gh-\d+|www\..*|https?:.*|mailto:.*|xmpp:.*|ftp:.*)|[0-9a-f]{7,40}")
_LIST_START = re.compile(r"\s{0,3}(?:\d{1,9}[.)]|[-+*=])(?=\s|$)")
_LINK = re.compile(r"https?://[A-Za-z0-9.-]+(?:/[A-Za-z0-9._~/?#=&%+,:-]*)?")


def one_line(text: str, limit: int | None = None) -> str:
    """Cleaned of control characters, on one line, cut to `limit` characters."""
    flat = " ".join(clean(text).split())
    return flat if limit is None or len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def fence(text: str, info: str = "text") -> str:
    """A fenced block that its content cannot close."""
    body = "\n".join(clean(line) for line in text.split("\n"))
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(body)), default=0))
    return f"{ticks}{info}\n{body}\n{ticks}"


def code(text: str) -> str:
    """A code span; an empty text gives none."""
    flat = one_line(text)
    if not flat:
        return ""
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(flat)), default=0))
    pad = " " if flat[0] in "` " or flat[-1] in "` " else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def prose(text: str) -> str:
    """A sentence as it is; each word in it that could be markup, a mention or a link becomes a code span."""
    flat = one_line(text)
    start = _LIST_START.match(flat)
    shown = "".join(_word(piece) for piece in _PIECES.findall(flat[start.end() :] if start else flat))
    return (code(start[0]) if start else "") + shown


def _word(piece: str) -> str:
    if piece == "->" or not "\x21" <= piece[0] <= "\x7e":
        return piece
    around = _AROUND.fullmatch(piece)
    before, inner, after = around.groups() if around else ("", piece, "")
    if _PLAIN.fullmatch(inner) and not _LINKED.fullmatch(inner):
        return piece
    if inner.startswith("vdoctor") or not inner:
        inner, before, after = piece, "", ""
    return f"{before}{code(inner)}{after}"


def is_link(address: str) -> bool:
    """A plain http address."""
    return _LINK.fullmatch(address) is not None


def link(address: str) -> str:
    """A link that shows its address; what is no plain http address becomes a code span."""
    return f"<{address}>" if is_link(address) else code(address)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown already. Bars are escaped, in code spans too, as GitHub wants it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def details(summary: str, body: str, *, is_open: bool = False) -> str:
    """A folded part. The summary is ours: plain words without log text."""
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>\n\n{body}\n\n</details>"
