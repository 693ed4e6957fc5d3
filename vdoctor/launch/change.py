"""Apply a change to a launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vdoctor.launch.options import OptionTable
from vdoctor.launch.words import end_of_options, is_option, normal, spells, width
from vdoctor.model import Change, FlagValue, Launch


def apply(launch: Launch, change: Change, options: OptionTable, version: str | None = None) -> Launch | None:
    """The changed launch; None when the launch has no place for the change (container options of a
    bare command)."""
    if change.container and not launch.container:
        return None
    editor = _Editor(options, version, model=not launch.program or launch.program[-1] == "serve")
    args = list(launch.args)
    for flag, value in change.flags.items():
        args = editor.set(args, flag, value)
    launch = replace(launch, args=tuple(args))
    if change.env:
        launch = _set_env(launch, change.env)
    for name, setting in change.container.items():
        launch = _set_container(launch, name, setting)
    return launch


class _Editor:
    """Sets options among the words of one server; `model`: the model may be a bare word."""

    def __init__(self, options: OptionTable, version: str | None, model: bool) -> None:
        self._options = options
        self._version = version
        self._model = model

    def set(self, args: list[str], flag: str, value: FlagValue) -> list[str]:
        """Replace the option where it stands (its last occurrence counts for argparse), else add it."""
        end = end_of_options(args)
        spots = [at for at, word in enumerate(args[:end]) if spells(word, flag, self._options, self._version)]
        keyed = [at for at in spots if _key_of(args[at]) and not _key_of(flag)]
        if value is not None and keyed:
            return self._set_keys(args, flag, value, args[keyed[-1]])
        if value is None:
            for at in reversed(spots):
                del args[at : at + self._width(args, at)]
            return args
        if not spots:
            args[end:end] = self._words(flag, value)
            return args
        for at in reversed(spots):
            old = args[at : at + self._width(args, at)]
            args[at : at + len(old)] = self._replace(old, flag, value) if at == spots[-1] else []
        return args

    def _set_keys(self, args: list[str], flag: str, value: FlagValue, word: str) -> list[str]:
        """`--flag.key v` beats `--flag {..}`: the change is written key by key, too."""
        keys = _object(value)
        base = word.partition("=")[0].partition(".")[0]
        if keys is None:
            return self.set(self.set(args, flag, None), flag, value)
        for key, setting in keys.items():
            args = self.set(args, f"{base}.{key}", setting if isinstance(setting, str) else json.dumps(setting))
        return args

    def _replace(self, old: list[str], flag: str, value: FlagValue) -> list[str]:
        name, equal, text = old[0].partition("=")
        if value is True or _is_joined(old[0], self._options, self._version):
            return self._words(flag, value)
        before, after = _object(text if equal else old[-1]), _object(value)
        if before is not None and after is not None:
            value = json.dumps({**before, **after})
        # "--no-x" cannot take a value; a negated spelling gives way to the positive one.
        name = flag if name.startswith("--no-") and not flag.startswith("--no-") else name
        words = self._words(name, value)
        return [f"{words[0]}={words[1]}"] if equal and len(words) == 2 else words

    def _words(self, flag: str, value: FlagValue) -> list[str]:
        if value is True:
            return [flag]
        text = str(value)
        option = self._options.lookup(flag, self._version) or self._options.lookup(flag, None)
        several = option is not None and option.kind == "many" and text[:1] not in ("{", "[")
        if several and not any(is_option(word) for word in text.split()):
            return [flag, *text.split()]
        # argparse would take the value for an option of its own.
        return [f"{flag}={text}"] if is_option(text) else [flag, text]

    def _width(self, args: list[str], at: int) -> int:
        return width(args, at, self._options, self._version, self._model)


def _key_of(word: str) -> str:
    """`--flag.key=v` -> `key`."""
    return word.partition("=")[0].partition(".")[2]


def _is_joined(word: str, options: OptionTable, version: str | None) -> bool:
    """`-O3`: the value is a part of the word."""
    name = normal(word)
    option = options.lookup(name, version)
    return (
        "=" not in word and option is not None and option.kind != "flag" and options.takes_value(name, version) is False
    )


def _object(value: object) -> dict[str, Any] | None:
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _set_env(launch: Launch, changes: Mapping[str, str | None]) -> Launch:
    if launch.container:
        container = list(launch.container)
        for name, value in changes.items():
            container = _set_container_env(container, name, value)
        return replace(launch, container=tuple(container))
    env = dict(launch.env)
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return replace(launch, env=tuple(env.items()))


def _set_container_env(container: list[str], name: str, value: str | None) -> list[str]:
    result: list[str] = []
    skip = False
    for at, word in enumerate(container):
        if skip:
            skip = False
            continue
        following = container[at + 1] if at + 1 < len(container) else ""
        if word in ("-e", "--env") and following.partition("=")[0] == name:
            skip = True
            continue
        joined = word[6:] if word.startswith("--env=") else word[2:] if word[:2] == "-e" else ""
        if joined.removeprefix("=").partition("=")[0] == name:
            continue
        result.append(word)
    if value is not None:
        result[-1:-1] = ["-e", f"{name}={value}"]
    return result


def _set_container(launch: Launch, name: str, setting: str | bool) -> Launch:
    """Set an option of `docker run`: --shm-size, --ipc, --gpus."""
    result: list[str] = []
    skip = False
    for at, word in enumerate(launch.container):
        if skip:
            skip = False
            continue
        if word == name and at + 2 < len(launch.container) and setting is not True:
            skip = True
            continue
        if word == name or word.startswith(name + "="):
            continue
        result.append(word)
    result[-1:-1] = [name] if setting is True else [f"{name}={setting}"]
    return replace(launch, container=tuple(result))
