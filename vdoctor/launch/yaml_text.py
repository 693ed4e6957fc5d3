"""Lists of words in YAML as text: found and edited in place, so that comments, order and style stay.

No YAML library: what people write in compose and Kubernetes files for a command is a flow list, a block list, a plain
or quoted scalar, or a block scalar; all else is left alone.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vdoctor.launch.shell import commands, splice

# Matched against lines without blanks at their end.
_KEY = re.compile(r"(?P<indent>\s*(?:-\s+)?)(?P<key>[\w.\-]+)\s*:(?:\s+(?P<rest>\S.*))?$")
_ITEM = re.compile(r"(?P<indent>\s*)-(?:\s+(?P<rest>\S.*))?$")
_BLOCK = re.compile(r"[|>][+-]?\d?\s*(?:#.*)?$")
_FLOW = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s,\[\]"'][^,\[\]]*""")
# A plain scalar that YAML would read as something else, or that begins with one of its signs.
_PLAIN = re.compile(r"[A-Za-z/][\w./@:+\-=]*$")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "~"})

Kind = Literal["flow", "list", "scalar", "block"]


@dataclass(frozen=True, slots=True)
class Node:
    """The value of a key: lines `first` to `last` (exclusive), the key's line included. `indent` is the key's column."""

    key: str
    kind: Kind
    indent: int
    first: int
    last: int
    words: tuple[str, ...]


def keys(lines: Sequence[str]) -> list[tuple[int, int, str, str]]:
    """(line, column, key, rest) of every key; columns of keys behind a dash are those of the key itself."""
    found = []
    for at, line in enumerate(lines):
        match = _KEY.match(line.rstrip())
        if match is not None:
            found.append((at, len(match["indent"]), match["key"], uncommented(match["rest"] or "")))
    return found


def node(lines: Sequence[str], at: int) -> Node | None:
    """The list of words at the key in line `at`; None when it is none that can be read."""
    match = _KEY.match(lines[at].rstrip())
    if match is None:
        return None
    indent, key, rest = len(match["indent"]), match["key"], uncommented(match["rest"] or "")
    if rest.startswith("["):
        return _flow(lines, at, indent, key)
    if _BLOCK.match(rest):
        last = _end(lines, at, indent + 1)
        return Node(key, "block", indent, at, last, _split("".join(lines[at + 1 : last]).replace("\n", " ")))
    if not rest:
        return _list(lines, at, indent, key)
    return Node(key, "scalar", indent, at, at + 1, _split(_inner(rest)[1]))


def rewritten(lines: Sequence[str], of: Node, words: Sequence[str]) -> list[str] | None:
    """All lines with `words` for the node's; None when its text cannot be edited in place."""
    old = lines[of.first : of.last]
    if of.kind == "list":
        new: list[str] | None = _new_list(old, of, words)
    elif of.kind == "flow":
        new = _new_flow("".join(old), words)
    else:
        new = _new_text(old, of, words)
    return None if new is None else [*lines[: of.first], *new, *lines[of.last :]]


def quoted(text: str) -> str:
    """A scalar that means just this text."""
    if _PLAIN.match(text) and text.lower() not in _RESERVED and not text.endswith(":"):
        return text
    return json.dumps(text, ensure_ascii=False)


def uncommented(text: str) -> str:
    """Without a comment behind it: `#` after a blank, outside quotes."""
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or text[at - 1] in " [,\t"):
            quote = char
        elif char == "#" and (at == 0 or text[at - 1] in " \t"):
            return text[:at].rstrip()
    return text.rstrip()


def plain(text: str) -> str:
    """What a scalar means."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _end(lines: Sequence[str], at: int, indent: int) -> int:
    """The line behind those below `at` that stand at `indent` or deeper; blank lines at the end do not count."""
    last = at + 1
    for number in range(at + 1, len(lines)):
        text = lines[number].rstrip("\r\n")
        if text.strip() and len(text) - len(text.lstrip()) < indent:
            break
        if text.strip():
            last = number + 1
    return last


def _split(text: str) -> tuple[str, ...]:
    """The words of a command line; several commands are none."""
    found = commands(text)
    return tuple(token.word for token in found[0]) if len(found) == 1 else ()


def _inner(rest: str) -> tuple[str, str]:
    """(quote, what stands between the quotes)."""
    if len(rest) > 1 and rest[0] in "\"'" and rest[-1] == rest[0] and "\\" not in rest:
        return rest[0], rest[1:-1]
    return "", rest


def _flow(lines: Sequence[str], at: int, indent: int, key: str) -> Node | None:
    text = ""
    for number in range(at, len(lines)):
        bare = uncommented(lines[number].rstrip("\r\n"))
        if "]" in bare:
            items = _flow_spots(text + bare[: bare.rindex("]") + 1])
            return Node(key, "flow", indent, at, number + 1, tuple(plain(item[0].strip()) for item in items))
        if bare != lines[number].rstrip("\r\n"):
            # A comment inside the list.
            return None
        text += lines[number]
    return None


def _flow_spots(text: str) -> list[re.Match[str]]:
    """The items of a flow list, which ends with the text."""
    return list(_FLOW.finditer(text, text.index("["), text.rindex("]")))


def _list(lines: Sequence[str], at: int, indent: int, key: str) -> Node | None:
    items, last = _items(lines, at, indent)
    return Node(key, "list", indent, at, last, tuple(word for word, _, _ in items)) if items else None


def _items(lines: Sequence[str], at: int, indent: int) -> tuple[list[tuple[str, int, int]], int]:
    """(word, first line, line behind) of each item of a block list, and the line behind the list."""
    items: list[tuple[str, int, int]] = []
    number, last, column = at + 1, at + 1, -1
    while number < len(lines):
        text = lines[number].rstrip("\r\n")
        if not text.strip() or text.lstrip().startswith("#"):
            number += 1
            continue
        match = _ITEM.match(text.rstrip())
        if match is None or len(match["indent"]) < max(indent - 2, 0) or column not in (-1, len(match["indent"])):
            break
        if column == -1 and len(match["indent"]) < indent and not lines[at].lstrip().startswith("- "):
            break
        column = len(match["indent"])
        rest = uncommented(match["rest"] or "")
        end = number + 1
        if _BLOCK.match(rest):
            end = _end(lines, number, column + 1)
            body = lines[number + 1 : end]
            margin = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
            word = "".join(line[margin:] for line in body)
            word = word if rest[0] == "|" else word.replace("\n", " ")
        else:
            word = plain(rest)
        items.append((word, number, end))
        number = last = end
    return items, last


def _new_list(old: Sequence[str], of: Node, words: Sequence[str]) -> list[str] | None:
    items, _ = _items(old, 0, of.indent)
    result = list(old[: items[0][1]])
    dash = old[items[0][1]][: old[items[0][1]].index("-")]
    newline = "\r\n" if old[0].endswith("\r\n") else "\n"
    matcher = difflib.SequenceMatcher(None, [word for word, _, _ in items], list(words), autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            start = items[a1][1] if a1 == 0 else items[a1 - 1][2]
            result += old[start if a1 else items[0][1] : items[a2 - 1][2]]
            continue
        if tag == "replace" and a2 - a1 == b2 - b1 == 1 and items[a1][2] - items[a1][1] > 1:
            changed = _new_script(old[items[a1][1] : items[a1][2]], items[a1][0], words[b1])
            if changed is None:
                return None
            result += changed
            continue
        result += [f"{dash}- {quoted(word)}{newline}" for word in words[b1:b2]]
    if result and not result[-1].endswith("\n"):
        result[-1] += newline
    return result


def _new_script(old: Sequence[str], before: str, after: str) -> list[str] | None:
    """A block scalar as an item: its first line stays, its text is put in anew with the old margin."""
    body = [line for line in old[1:] if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in body)
    if ">" in old[0] and before.count(" ") != after.count(" ") and len(body) > 1:
        return None
    return [old[0], *(" " * margin + line if line.strip() else line for line in after.splitlines(keepends=True))]


def _new_flow(text: str, words: Sequence[str]) -> list[str]:
    start = text.index("[")
    end = text.rfind("\n", 0, len(text) - 1) + 1
    spots = _flow_spots(text[:end] + uncommented(text[end:]))
    old = [plain(spot[0].strip()) for spot in spots]
    pieces: list[str] = []
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old, list(words), autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(text[spots[a1].start() : spots[a2 - 1].end()].rstrip())
        else:
            pieces += [json.dumps(word, ensure_ascii=False) for word in words[b1:b2]]
    head = text[: spots[0].start()] if spots else text[: start + 1]
    tail = text[spots[-1].end() :] if spots else text[start + 1 :]
    return (head + ", ".join(pieces) + tail).splitlines(keepends=True)


def _new_text(old: Sequence[str], of: Node, words: Sequence[str]) -> list[str] | None:
    """A command line as a scalar."""
    if of.kind == "block":
        text = "".join(old[1:])
        tokens = commands(text.replace("\n", " ").replace("\r", " "))
        if len(tokens) != 1:
            return None
        return [old[0], *splice(text, tokens[0], words).splitlines(keepends=True)]
    match = _KEY.match(old[0].rstrip())
    assert match is not None
    rest = uncommented(match["rest"] or "")
    quote, inner = _inner(rest)
    tokens = commands(inner)
    changed = splice(inner, tokens[0], words) if len(tokens) == 1 else None
    if changed is None or (quote and quote in changed):
        return None
    start = old[0].index(rest, match.start("rest") if match["rest"] else 0)
    return [old[0][:start] + quote + changed + quote + old[0][start + len(rest) :]]
