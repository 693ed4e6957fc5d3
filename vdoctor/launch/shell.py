"""A server's command inside a shell script (`sh -c '...'`): found, edited, and the text around it left as it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_TAKES_SCRIPT = re.compile(r"-[A-Za-z]*c[A-Za-z]*$")
_BLANK = " \t\r"
#: What ends a simple command; a redirection ends its words, too.
_OPERATORS = "\n;&|<>()"
_REDIRECTED = re.compile(r"\d+(?=[<>])")


class Token(NamedTuple):
    """A word of a script: what it means (variables stay as they are), and where it stands."""

    word: str
    start: int
    end: int


def script_at(words: Sequence[str]) -> int | None:
    """Index of the script in `... sh -c SCRIPT ...`; None when no shell is told to run one."""
    for at, word in enumerate(words):
        if word.rsplit("/", 1)[-1] not in _SHELLS:
            continue
        following = at + 1
        while following < len(words) and words[following].startswith("-"):
            if _TAKES_SCRIPT.match(words[following]):
                return following + 1 if following + 1 < len(words) else None
            following += 1
        return None
    return None


def commands(script: str) -> list[list[Token]]:
    """The simple commands of a script; empty when its quoting is broken."""
    found: list[list[Token]] = [[]]
    at = 0
    open_ = True
    while at < len(script):
        char = script[at]
        if char in _BLANK:
            at += 1
        elif script.startswith("\\\n", at):
            at += 2
        elif char == "#":
            at = _line_end(script, at)
        elif char in _OPERATORS or _REDIRECTED.match(script, at):
            # Behind a redirection stands a file, and no word of the command.
            redirects = char in "<>" or char.isdigit()
            at += 1
            if not redirects:
                found.append([])
            open_ = not redirects
        else:
            token = _word(script, at)
            if token is None:
                return []
            if open_:
                found[-1].append(token)
            at = token.end
    return [tokens for tokens in found if tokens]


def splice(script: str, tokens: Sequence[Token], words: Sequence[str]) -> str:
    """The script with `words` in place of `tokens`; words that stay keep their quoting and the space between them."""
    from difflib import SequenceMatcher  # only an edit has to pay for it

    old = [token.word for token in tokens]
    text = ""
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, list(words), autojunk=False).get_opcodes():
        if tag == "delete":
            continue
        # What stands in the place of something keeps the blanks (or the line break) in front of it.
        gap = script[tokens[a1 - 1].end : tokens[a1].start] if tag != "insert" and a1 else " "
        same = tag == "equal"
        piece = script[tokens[a1].start : tokens[a2 - 1].end] if same else " ".join(map(shlex.quote, words[b1:b2]))
        text += (gap if text else "") + piece
    return script[: tokens[0].start] + text + script[tokens[-1].end :]


def _word(script: str, start: int) -> Token | None:
    """The word that begins at `start`; None for an open quote or a nested command that does not end."""
    text: list[str] = []
    at = start
    while at < len(script) and script[at] not in _BLANK + _OPERATORS:
        char = script[at]
        if char == "'":
            end = script.find("'", at + 1)
            if end < 0:
                return None
            text.append(script[at + 1 : end])
            at = end + 1
        elif char == '"':
            inside = _quoted(script, at + 1)
            if inside is None:
                return None
            text.append(inside[0])
            at = inside[1]
        elif char == "\\":
            text.append("" if script[at + 1 : at + 2] == "\n" else script[at + 1 : at + 2])
            at += 2
        elif script.startswith(("$(", "${"), at) or char == "`":
            end = _nested(script, at)
            if end < 0:
                return None
            text.append(script[at:end])
            at = end
        else:
            text.append(char)
            at += 1
    return Token("".join(text), start, min(at, len(script)))


def _quoted(script: str, at: int) -> tuple[str, int] | None:
    """What stands in double quotes, and the index behind them."""
    text: list[str] = []
    while at < len(script):
        char = script[at]
        if char == '"':
            return "".join(text), at + 1
        if char == "\\" and script[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            text.append(script[at + 1].replace("\n", ""))
            at += 2
            continue
        text.append(char)
        at += 1
    return None


def _nested(script: str, at: int) -> int:
    """Index behind `$(...)`, `${...}` or a command in backquotes; -1 when it does not end."""
    if script[at] == "`":
        return script.find("`", at + 1) + 1 or -1
    opening, closing = script[at + 1], ")" if script[at + 1] == "(" else "}"
    depth = 0
    for end in range(at + 1, len(script)):
        depth += (script[end] == opening) - (script[end] == closing)
        if depth == 0:
            return end + 1
    return -1


def _line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end
