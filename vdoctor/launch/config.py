"""The file of `vllm serve --config`: what it amounts to, as words. Its contents are passed in."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import value
from vdoctor.model import Launch

_ENTRY = re.compile(r"(?P<key>[A-Za-z][\w\-.]*)\s*:(?:\s+(?P<value>.*))?$")
_ITEM = re.compile(r"\s*-\s+(?P<value>.*)$")
_FLAG_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def path(launch: Launch, options: OptionTable, version: str | None = None) -> str | None:
    """The file that the command names."""
    found = value(launch, "--config", options, version)
    return found if isinstance(found, str) else None


def configured(launch: Launch, text: str) -> Launch:
    """The launch with the file's settings known; options of the command itself beat them."""
    return replace(launch, config=tuple(words(text)))


def words(text: str) -> list[str]:
    """The flat YAML of such a file as options: `port: 80` -> `--port 80`, `enforce-eager: true` -> `--enforce-eager`.

    Nested mappings become JSON where they are written in one line; what is not understood is left out.
    """
    found: list[str] = []
    key: str | None = None
    for line in text.splitlines():
        bare = _uncommented(line)
        entry = _ENTRY.match(bare)
        item = _ITEM.match(bare)
        if entry is not None:
            key = None
            flag = "--" + entry["key"].replace("_", "-")
            setting = _scalar(entry["value"] or "")
            if setting is True:
                found.append(flag)
            elif isinstance(setting, str) and setting:
                found += [flag, setting]
            elif setting == "":
                key = flag
        elif item is not None and key is not None:
            setting = _scalar(item["value"])
            if isinstance(setting, str):
                found += [setting] if found[-1:] and key in found else [key, setting]
    return found


def _scalar(text: str) -> str | bool:
    text = text.strip()
    lowered = text.lower()
    if lowered in _FLAG_WORDS:
        return _FLAG_WORDS[lowered]
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return "" if lowered in ("null", "~") else text


def _uncommented(line: str) -> str:
    """The line without its comment: `#` at the start or behind a blank, outside quotes."""
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (at == 0 or line[at - 1] in " \t"):
            return line[:at].rstrip()
    return line.rstrip()
