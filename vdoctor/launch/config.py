"""The file of `vllm serve --config`: what it amounts to, as words. Its contents are passed in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from packaging.version import Version

from vdoctor.launch.options import OptionTable, parse_version
from vdoctor.launch.values import value
from vdoctor.model import Launch

_ENTRY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z][\w\-.]*)\s*:(?:\s+(?P<value>.*))?$")
_ITEM = re.compile(r"\s*-\s+(?P<value>.*)$")
_FLAG_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NUMBER = re.compile(r"[-+]?\d{1,18}(?:\.\d{1,18})?(?:[eE][-+]?\d{1,2})?$")
#: From this release on `key: false` asks for --no-key, where there is one; 0.26 and before ignore it.
_NEGATES = Version("0.29")


def path(launch: Launch, options: OptionTable, version: str | None = None) -> str | None:
    """The file that the command names."""
    found = value(launch, "--config", options, version)
    return found if isinstance(found, str) else None


def configured(launch: Launch, text: str, options: OptionTable | None = None, version: str | None = None) -> Launch:
    """The launch with the file's settings known; options of the command itself beat them. With `options`, what is set
    to false counts as the release counts it (of an unknown version: as the newest)."""
    found: list[str] = []
    for key, setting in entries(text):
        flag = "--" + key
        if setting is False:
            option = options.lookup(flag, version) if options is not None and _negates(version) else None
            found += [f"--no-{key}"] if option is not None and option.negatable else []
        else:
            found += _as_words(flag, setting)
    return replace(launch, config=tuple(found))


def words(text: str) -> list[str]:
    """The YAML of such a file as options: `port: 80` -> `--port 80`, `enforce-eager: true` -> `--enforce-eager`, a
    mapping below a key -> JSON; what is false or not understood is left out."""
    return [word for key, setting in entries(text) for word in _as_words("--" + key, setting)]


def _as_words(flag: str, setting: Any) -> list[str]:
    if setting is True:
        return [flag]
    if setting in (False, None, "", []):
        return []
    if isinstance(setting, list):
        return [flag, *setting]
    return [flag, json.dumps(setting) if isinstance(setting, dict) else setting]


def _negates(version: str | None) -> bool:
    release = parse_version(version)
    return release is None or Version(release.base_version) >= _NEGATES


def entries(text: str) -> Iterator[tuple[str, Any]]:
    """(key, setting) of each key at the left edge: text, truth value, list of texts, mapping, or None."""
    lines = [bare for line in text.splitlines() if (bare := _uncommented(line)).strip()]
    for at, line in enumerate(lines):
        entry = _ENTRY.match(line)
        if entry is None or entry["indent"]:
            continue
        key, below = entry["key"].replace("_", "-"), _below(lines, at)
        setting: Any = _scalar(entry["value"] or "")
        if setting == "" and below:
            items = [item for one in below if (item := _ITEM.match(one)) is not None]
            if len(items) == len(below):
                values = [_scalar(item["value"]) for item in items]
                setting = [one for one in values if isinstance(one, str)]
            else:
                setting = _mapping(below)
        yield key, setting


def _below(lines: Sequence[str], at: int) -> list[str]:
    """The lines that belong to a key: deeper ones, and items at its own column."""
    found = []
    for line in lines[at + 1 :]:
        if line[0] != " " and not line.startswith("- "):
            break
        found.append(line)
    return found


def _mapping(lines: Sequence[str], depth: int = 0) -> dict[str, Any] | None:
    """Lines of one indentation, and what is deeper below each; None for anything else than keys with plain values."""
    found: dict[str, Any] = {}
    edge = len(lines[0]) - len(lines[0].lstrip(" "))
    at = 0
    while at < len(lines):
        entry = _ENTRY.match(lines[at])
        if entry is None or len(entry["indent"]) != edge or depth > 20:
            return None
        end = at + 1
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip(" ")) > edge:
            end += 1
        if end > at + 1:
            found[entry["key"]] = _mapping(lines[at + 1 : end], depth + 1)
            if entry["value"] or found[entry["key"]] is None:
                return None
        else:
            found[entry["key"]] = _typed(entry["value"] or "")
        at = end
    return found


def _typed(text: str) -> Any:
    """A scalar inside a mapping, as JSON would have it."""
    setting = _scalar(text)
    if isinstance(setting, str) and setting == text.strip() and (_NUMBER.match(setting) or setting[:1] in "[{"):
        try:
            return json.loads(setting)
        except ValueError:
            return setting
    return None if setting == "" and text.strip()[:1] not in ("'", '"') else setting


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
