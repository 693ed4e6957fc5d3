"""A start command taken apart and printed back."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vdoctor.model import Launch

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_RUNTIMES = frozenset({"docker", "podman", "nerdctl"})
# `docker run` options without a value; every other one takes the next word unless it holds "=".
_RUN_SWITCHES = frozenset(
    [
        "--rm",
        "-d",
        "--detach",
        "-i",
        "--interactive",
        "-t",
        "--tty",
        "-it",
        "-ti",
        "-dit",
        "-itd",
        "-P",
        "--publish-all",
        "--privileged",
        "--init",
        "--read-only",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--sig-proxy",
        "-q",
        "--quiet",
    ]
)


def parse(argv: Sequence[str]) -> Launch:
    """Words of a command to a Launch; `print_words` gives the same words back.

    A command that starts no vLLM server that can be recognised (a script, `sh -c`) becomes a
    launch whose `args` are empty: it can be shown, but not edited.
    """
    words = list(argv)
    env: list[tuple[str, str]] = []
    at = 1 if words[:1] == ["env"] and len(words) > 1 and _ASSIGNMENT.match(words[1]) else 0
    while at < len(words) and _ASSIGNMENT.match(words[at]):
        name, _, value = words[at].partition("=")
        env.append((name, value))
        at += 1
    words = words[at:]
    image = _image(words)
    container = tuple(words[: image + 1]) if image is not None else ()
    rest = words[len(container) :]
    end = _program_end(rest)
    if end is None:
        # The official image starts the server itself: its words are the server's arguments.
        end = 0 if container else len(rest)
    return Launch(tuple(env), container, tuple(rest[:end]), tuple(rest[end:]))


def parse_text(text: str) -> Launch | None:
    """A command as typed; None when the quoting is broken or it is empty."""
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        return None
    while words[:1] and words[0] in ("sudo", "exec", "time"):
        words = words[1:]
    # Redirections and background marks belong to the shell, not to the server.
    for at, word in enumerate(words):
        if word in ("|", "||", "&&", ";", "&") or re.match(r"\d?>{1,2}|\d>&\d", word):
            words = words[:at]
            break
    return parse(words) if words else None


def from_arguments(arguments: Mapping[str, Any]) -> Launch | None:
    """The command that gives vLLM's printed `non-default args`; None without a model."""
    model = arguments.get("model_tag") or arguments.get("model")
    if not isinstance(model, str):
        return None
    args: list[str] = [model]
    for name, value in arguments.items():
        if name in ("model", "model_tag", "subparser", "dispatch_function", "config") or value is None:
            continue
        flag = "--" + name.replace("_", "-")
        if value is True:
            args.append(flag)
        elif value is False:
            args.append("--no-" + name.replace("_", "-"))
        elif isinstance(value, list | tuple):
            args += [flag, *(str(item) for item in value)]
        elif isinstance(value, dict):
            args += [flag, json.dumps(value)]
        else:
            args += [flag, str(value)]
    return Launch((), (), ("vllm", "serve"), tuple(args))


def words(launch: Launch) -> list[str]:
    """The words to execute, without the environment assignments."""
    return [*launch.container, *launch.program, *launch.args]


def print_words(launch: Launch) -> list[str]:
    """All words, assignments in front."""
    return [*(f"{name}={value}" for name, value in launch.env), *words(launch)]


def print_text(launch: Launch) -> str:
    """One line for a POSIX shell."""
    assignments = [f"{name}={shlex.quote(value)}" for name, value in launch.env]
    return " ".join([*assignments, shlex.join(words(launch))])


def editable(launch: Launch) -> bool:
    """Whether options can be changed: the server's own arguments are known."""
    return bool(launch.args) or bool(launch.container) or launch.program[-1:] == ("serve",)


def _image(words: Sequence[str]) -> int | None:
    """Index of the image in `docker run OPTIONS IMAGE ...`; None when it is no such command."""
    at = 1 if words[:1] == ["sudo"] else 0
    if len(words) <= at + 1 or words[at].rsplit("/", 1)[-1] not in _RUNTIMES:
        return None
    at += 1
    if words[at] == "container":
        at += 1
    if at >= len(words) or words[at] != "run":
        return None
    at += 1
    while at < len(words):
        word = words[at]
        if not word.startswith("-"):
            return at
        at += 1 if word in _RUN_SWITCHES or "=" in word else 2
    return None


def _program_end(words: Sequence[str]) -> int | None:
    """Index after the words that name the server: `vllm serve`, `-m vllm.entrypoints...`, a script."""
    for at, word in enumerate(words):
        if word.rsplit("/", 1)[-1] in ("vllm", "vllm.exe") and words[at + 1 : at + 2] == ["serve"]:
            return at + 2
        if word == "-m" and at + 1 < len(words):
            module = words[at + 1]
            if module in ("vllm", "vllm.entrypoints.cli.main") and words[at + 2 : at + 3] == ["serve"]:
                return at + 3
            if module.startswith("vllm.entrypoints."):
                return at + 2
        if word.endswith("/vllm/entrypoints/openai/api_server.py"):
            return at + 1
    return None
