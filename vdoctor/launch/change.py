"""Apply a change to a launch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vdoctor.launch.command import env_spots, variables
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import value as value_of
from vdoctor.launch.words import end_of_options, is_option, normal, spells, width
from vdoctor.model import Change, FlagValue, Launch


def apply(launch: Launch, change: Change, options: OptionTable, version: str | None = None) -> Launch | None:
    """The changed launch; None when the launch has no place for the change: container options of a bare command, an
    option to be removed that stands in the file of --config."""
    if change.container and not launch.container:
        return None
    if any(setting is None and _in_file(launch, flag, options, version) for flag, setting in change.flags.items()):
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


def _in_file(launch: Launch, flag: str, options: OptionTable, version: str | None) -> bool:
    return any(spells(word, flag, options, version) for word in launch.config)


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
            # null takes a key away.
            kept = {key: setting for key, setting in {**before, **after}.items() if after.get(key, 0) is not None}
            value = json.dumps(kept)
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
    for name, value in changes.items():
        launch = _set_variable(launch, name, value)
    return launch


def _set_variable(launch: Launch, name: str, value: str | None) -> Launch:
    """Where the command sets it already, there; else in front, or as an option of the container.

    A home means nothing in a container, whose /tmp is its own.
    """
    spots = [at for at in env_spots(launch.program) if launch.program[at].partition("=")[0] == name]
    if spots:
        launch = replace(launch, program=_edited(launch.program, spots, name, value))
        if value is not None or any(_is_unset(launch.program, at) for at in range(len(launch.program))):
            return launch
    if launch.container:
        inside = value.replace("~/.cache/", "/tmp/", 1) if value is not None and value.startswith("~/") else value
        return replace(launch, container=tuple(_set_container_env(list(launch.container), name, inside)))
    env = dict(launch.env)
    if value is None and name not in env and not spots:
        return _unset(launch, name)
    if value is None:
        env.pop(name, None)
    else:
        env[name] = value
    return replace(launch, env=tuple(env.items()))


def _edited(program: tuple[str, ...], spots: list[int], name: str, value: str | None) -> tuple[str, ...]:
    words = list(program)
    for at in reversed(spots):
        unset = _is_unset(words, at)
        if unset and value is None:
            continue
        if value is not None and at == spots[-1]:
            words[at - 1 if unset else at : at + 1] = [f"{name}={value}"]
        else:
            del words[at - 1 if unset else at : at + 1]
    # `env` that is left with nothing to do stays: it means the same.
    return tuple(words)


def _is_unset(program: Sequence[str], at: int) -> bool:
    return at > 0 and program[at - 1] == "-u" and at in env_spots(program)


def _unset(launch: Launch, name: str) -> Launch:
    """A variable that comes from the outside: `env -u NAME` takes it away."""
    program = launch.program
    at = program.index("env") + 1 if "env" in program else 0
    added = ("-u", name) if at else ("env", "-u", name)
    return replace(launch, program=(*program[:at], *added, *program[at:]))


def _set_container_env(container: list[str], name: str, value: str | None) -> list[str]:
    """Replace `-e NAME=...` where it stands last, else add it before the image."""
    result: list[str] = []
    place: int | None = None
    at = 0
    while at < len(container):
        word = container[at]
        following = container[at + 1] if at + 2 < len(container) else ""
        if word in ("-e", "--env") and following.partition("=")[0] == name:
            place = len(result)
            at += 2
            continue
        joined = word[6:] if word.startswith("--env=") else word[2:] if word[:2] == "-e" and word[:3] != "-e=" else ""
        joined = word[3:] if word[:3] == "-e=" else joined
        if joined and joined.partition("=")[0] == name and at + 1 < len(container):
            place = len(result)
            at += 1
            continue
        result.append(word)
        at += 1
    if value is not None:
        place = len(result) - 1 if place is None else place
        result[place:place] = ["-e", f"{name}={value}"]
    return result


def _set_container(launch: Launch, name: str, setting: str | bool) -> Launch:
    """Set an option of `docker run`: --shm-size, --ipc, --gpus; False removes it."""
    result: list[str] = []
    place: int | None = None
    skip = False
    for at, word in enumerate(launch.container):
        if skip:
            skip = False
            continue
        if word == name or word.startswith(name + "="):
            place = len(result)
            # What follows is its value, unless the image or another option stands there.
            following = launch.container[at + 1] if at + 2 < len(launch.container) else "-"
            skip = word == name and setting is not True and not following.startswith("-")
            continue
        result.append(word)
    if setting is not False:
        place = len(result) - 1 if place is None else place
        result[place:place] = [name] if setting is True else [f"{name}={setting}"]
    return replace(launch, container=tuple(result))


def inverse(launch: Launch, change: Change, options: OptionTable, version: str | None = None) -> Change:
    """The change that takes the changed launch back to this one: same options, variables and container.

    A variable that the launch does not mention is removed again; words may come back in another place.
    """
    flags: dict[str, FlagValue] = {}
    for flag, new in change.flags.items():
        old = value_of(launch, flag, options, version)
        before, after = _object(old), _object(new)
        base = _keyed_base(launch.args, flag, options, version)
        if base is not None and after is not None:
            flags |= {f"{base}.{key}": _key_value(launch.args, f"{base}.{key}") for key in after}
        elif old is False:
            flags["--no-" + flag.removeprefix("--")] = True
        elif before is not None and after is not None:
            flags[flag] = json.dumps({**dict.fromkeys(after), **before})
        else:
            flags[flag] = old
    known = variables(launch)
    env = {name: known.get(name) for name in change.env}
    container = {name: _container_value(launch.container, name) for name in change.container}
    return Change(flags, env, container)


def _keyed_base(args: Sequence[str], flag: str, options: OptionTable, version: str | None) -> str | None:
    """How the command spells an option that it gives key by key: `-cc` of `-cc.level=3`."""
    spots = [word for word in args[: end_of_options(args)] if spells(word, flag, options, version) and _key_of(word)]
    return spots[-1].partition("=")[0].partition(".")[0] if spots and not _key_of(flag) else None


def _key_value(args: Sequence[str], spelling: str) -> str | None:
    found = None
    for at, word in enumerate(args):
        name, equal, joined = word.partition("=")
        if normal(name) == normal(spelling):
            found = joined if equal else args[at + 1] if at + 1 < len(args) else None
    return found


def _container_value(container: Sequence[str], name: str) -> str | bool:
    found: str | bool = False
    for at, word in enumerate(container[:-1]):
        if word.startswith(name + "="):
            found = word.partition("=")[2]
        elif word == name:
            following = container[at + 1] if at + 2 < len(container) else "-"
            found = True if following.startswith("-") else following
    return found
