"""Apply a change to a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdoctor.launch.options import OptionTable
from vdoctor.model import Change, FlagValue, Launch


def apply(launch: Launch, change: Change, options: OptionTable, version: str | None = None) -> Launch | None:
    """The changed launch; None when the launch has no place for the change (container options of a
    bare command)."""
    if change.container and not launch.container:
        return None
    args = list(launch.args)
    for flag, value in change.flags.items():
        args = _set_flag(args, flag, value, options, version)
    launch = replace(launch, args=tuple(args))
    if change.env:
        launch = _set_env(launch, change.env)
    for name, setting in change.container.items():
        launch = _set_container(launch, name, setting)
    return launch


def _set_flag(args: list[str], flag: str, value: FlagValue, options: OptionTable, version: str | None) -> list[str]:
    """Replace the option where it stands (its last occurrence counts for argparse), else append it."""
    spots = [at for at, word in enumerate(args) if _same(word, flag, options, version)]
    result = list(args)
    for at in reversed(spots):
        last = at == spots[-1]
        width = _width(result, at, options, version)
        if value is None or not last:
            del result[at : at + width]
        elif value is True:
            result[at : at + width] = [flag]
        elif "=" in result[at]:
            result[at] = f"{result[at].partition('=')[0]}={value}"
        else:
            result[at : at + width] = [result[at], str(value)]
    if not spots and value is not None:
        result += [flag] if value is True else [flag, str(value)]
    return result


def _normal(word: str) -> str:
    """`--max_model_len=1` and `--max-model-len` are one option to vLLM's parser."""
    name = word.partition("=")[0]
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def _same(word: str, flag: str, options: OptionTable, version: str | None) -> bool:
    if not word.startswith("-") or word in ("-", "--") or _is_number(word):
        return False
    name = _normal(word)
    if name == _normal(flag):
        return True
    left, right = options.lookup(name, version), options.lookup(flag, version)
    return left is not None and right is not None and left.name == right.name


def _width(args: list[str], at: int, options: OptionTable, version: str | None) -> int:
    """Number of words of the option at `at`, its values included."""
    if "=" in args[at]:
        return 1
    option = options.lookup(_normal(args[at]), version)
    following = at + 1
    if option is not None and option.kind == "flag":
        return 1
    if option is not None and option.kind == "many":
        while following < len(args) and not _is_option(args[following]):
            following += 1
        return following - at
    if following < len(args) and not _is_option(args[following]):
        return 2
    return 1


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _is_number(word)


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
        if word.startswith("--env=") and word[6:].partition("=")[0] == name:
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
