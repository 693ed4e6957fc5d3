"""A change as an edit of a compose or Kubernetes file: a unified diff that keeps comments and style.

vdoctor starts nothing from such a file; the edit is for a person to apply.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from vdoctor.launch.change import apply
from vdoctor.launch.command import parse, words
from vdoctor.launch.options import OptionTable
from vdoctor.launch.yaml_text import Node, keys, node, plain, quoted, rewritten
from vdoctor.model import Change

_COMMANDS = ("entrypoint", "command", "args")
#: docker run option -> key of a compose service.
_COMPOSE_KEYS = {"--shm-size": "shm_size", "--ipc": "ipc", "--privileged": "privileged"}


@dataclass(frozen=True, slots=True)
class Server:
    """A container of a file that runs vLLM: its keys stand at `indent`, between two lines."""

    kind: Literal["compose", "kubernetes"]
    indent: int
    first: int
    last: int
    image: int | None
    nodes: tuple[Node, ...]

    @property
    def argv(self) -> list[str]:
        """All words of its command."""
        return [word for one in self.nodes for word in one.words]


@dataclass(frozen=True, slots=True)
class Edit:
    """The edited text and its diff; `left` says what of the change has no place in the file."""

    text: str
    diff: str
    left: Change = field(default_factory=Change)


def servers(text: str) -> list[Server]:
    """The containers that run vLLM, in order of the file."""
    lines = text.splitlines(keepends=True)
    kind: Literal["compose", "kubernetes"] = (
        "compose" if any(line.startswith("services:") for line in lines) else "kubernetes"
    )
    found = []
    seen: set[int] = set()
    for at, indent, key, _ in keys(lines):
        if key not in ("image", *_COMMANDS) or at in seen:
            continue
        first, last = _mapping(lines, at, indent)
        here = [entry for entry in keys(lines[first:last]) if entry[1] == indent]
        seen.update(first + entry[0] for entry in here)
        image = next((first + entry[0] for entry in here if entry[2] == "image"), None)
        nodes = [one for entry in here if entry[2] in _COMMANDS and (one := node(lines, first + entry[0])) is not None]
        nodes.sort(key=lambda one: _COMMANDS.index(one.key))
        server = Server(kind, indent, first, last, image, tuple(nodes))
        if nodes and ("vllm" in " ".join(server.argv) or (image is not None and "vllm" in lines[image])):
            found.append(server)
    return found


def edit(
    text: str, change: Change, options: OptionTable, version: str | None = None, name: str = "file"
) -> Edit | None:
    """The file with a change in its first vLLM container; None when there is none, or none that can be edited so."""
    lines = text.splitlines(keepends=True)
    found = servers(text)
    if not found:
        return None
    server = found[0]
    edited = _flags(lines, server, change, options, version)
    if edited is None:
        return None
    for variable, value in change.env.items():
        edited = _env(edited, _again(edited, server), variable, value)
    left: dict[str, str | bool] = {}
    for option, setting in change.container.items():
        if server.kind == "compose" and option in _COMPOSE_KEYS:
            text_of = "true" if setting is True else str(setting)
            edited = _key(edited, _again(edited, server), _COMPOSE_KEYS[option], text_of)
        else:
            left[option] = setting
    diff = "".join(difflib.unified_diff(lines, edited, f"a/{name}", f"b/{name}"))
    return Edit("".join(edited), diff, Change(container=left))


def _mapping(lines: Sequence[str], at: int, indent: int) -> tuple[int, int]:
    """First line and line behind the mapping whose key stands at a line and column."""

    def column(line: str) -> int:
        """Of its first key; a dash opens a mapping two columns further."""
        bare = line.rstrip("\r\n")
        start = len(bare) - len(bare.lstrip())
        body = bare.lstrip()
        return start + (len(body) - len(body[1:].lstrip()) if body.startswith("- ") else 0)

    first = at
    while first > 0 and not lines[first].lstrip().startswith("- " if column(lines[first]) == indent else "\0"):
        above = lines[first - 1]
        if above.strip() and not above.lstrip().startswith("#"):
            start = len(above) - len(above.lstrip())
            if column(above) < indent and start < indent - (2 if above.lstrip().startswith("- ") else 0):
                break
            if start < indent and not above.lstrip().startswith("- "):
                break
        first -= 1
    last = at + 1
    while last < len(lines):
        line = lines[last]
        if line.strip() and not line.lstrip().startswith("#"):
            start = len(line) - len(line.lstrip())
            # A list may stand at the column of its key; a dash further left opens the next container.
            if start < indent:
                break
        last += 1
    return first, last


def _again(lines: Sequence[str], server: Server) -> Server:
    """The same container after an edit."""
    found = servers("".join(lines))
    return next((one for one in found if one.indent == server.indent and one.first == server.first), server)


def _flags(
    lines: list[str], server: Server, change: Change, options: OptionTable, version: str | None
) -> list[str] | None:
    if not change.flags:
        return lines
    launch = parse(["docker", "run", "image", *server.argv])
    changed = apply(launch, Change(flags=change.flags), options, version)
    if changed is None:
        return None
    new = words(changed)[3:]
    *before, last = server.nodes
    head = [word for one in before for word in one.words]
    if new[: len(head)] == head:
        return rewritten(lines, last, new[len(head) :])
    tail = list(last.words)
    if len(before) == 1 and new[len(new) - len(tail) :] == tail:
        return rewritten(lines, before[0], new[: len(new) - len(tail)])
    return None


def _env(lines: list[str], server: Server, name: str, value: str | None) -> list[str]:
    key = "environment" if server.kind == "compose" else "env"
    here = [
        (server.first + at, indent) for at, indent, found, _ in keys(lines[server.first : server.last]) if found == key
    ]
    place = next((at for at, indent in here if indent == server.indent), None)
    margin = " " * server.indent
    if place is None:
        if value is None:
            return lines
        at = (server.image if server.image is not None else server.nodes[0].first) + 1
        return [*lines[:at], f"{margin}{key}:\n", *_entry(server, margin + "  ", name, value, "list"), *lines[at:]]
    end = place + 1
    while end < server.last and (not lines[end].strip() or _is_below(lines[end], server.indent)):
        end += 1
    entries = lines[place + 1 : end]
    style = "list" if any(line.lstrip().startswith("- ") for line in entries) else "mapping"
    kept = _without(entries, name, style)
    first = next((line for line in entries if line.strip()), margin + "  ")
    dent = first[: len(first) - len(first.lstrip())]
    added = [] if value is None else _entry(server, dent, name, value, style)
    return [*lines[: place + 1], *added, *kept, *lines[end:]]


def _is_below(line: str, indent: int) -> bool:
    column = len(line) - len(line.lstrip())
    return column > indent or (column == indent and line.lstrip().startswith("- "))


def _entry(server: Server, dent: str, name: str, value: str, style: str) -> list[str]:
    if server.kind == "kubernetes":
        # Kubernetes wants text: a number has to be quoted.
        return [f"{dent}- name: {name}\n", f"{dent}  value: {_text(value)}\n"]
    return [f"{dent}- {quoted(f'{name}={value}')}\n"] if style == "list" else [f"{dent}{name}: {_text(value)}\n"]


def _text(value: str) -> str:
    shown = quoted(value)
    return shown if shown.startswith('"') or not any(char.isdigit() for char in value[:1]) else f'"{value}"'


def _without(entries: Sequence[str], name: str, style: str) -> list[str]:
    """The entries less that of one variable, with the lines below it."""
    kept: list[str] = []
    gone: int | None = None
    for line in entries:
        body = line.strip()
        column = len(line) - len(line.lstrip())
        if gone is not None and body and (column > gone):
            continue
        gone = None
        bare = plain(body.removeprefix("- ").strip()) if style == "list" else body
        is_it = bare.partition("=")[0] == name or bare.partition(":")[0].strip() == name
        is_it = is_it or (bare.startswith("name:") and plain(bare.partition(":")[2].strip()) == name)
        if body and is_it:
            gone = column
            continue
        kept.append(line)
    return kept


def _key(lines: list[str], server: Server, key: str, value: str) -> list[str]:
    for at, indent, found, _ in keys(lines[server.first : server.last]):
        if found == key and indent == server.indent:
            line = server.first + at
            head = lines[line][: lines[line].index(":") + 1]
            return [*lines[:line], f"{head} {quoted(value)}\n", *lines[line + 1 :]]
    at = (server.image if server.image is not None else server.nodes[0].first) + 1
    return [*lines[:at], f"{' ' * server.indent}{key}: {quoted(value)}\n", *lines[at:]]
