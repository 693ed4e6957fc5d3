"""A start command taken apart and printed back."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vdoctor.launch.shell import commands, script_at, splice
from vdoctor.model import Launch, Shell

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_RUNTIMES = frozenset({"docker", "podman", "nerdctl"})
# `docker run` options without a value; every other long one takes the next word unless it holds "=".
_RUN_SWITCHES = frozenset(
    [
        "--rm",
        "--detach",
        "--interactive",
        "--tty",
        "--publish-all",
        "--privileged",
        "--init",
        "--read-only",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--sig-proxy",
        "--quiet",
        "--replace",
        "--disable-content-trust",
    ]
)
# Short switches may be joined ("-itd"), a value may stick to its letter ("-p8000:8000").
_SHORT_SWITCHES = re.compile(r"-[ditPq]+$")
_SHORT_WITH_VALUE = re.compile(r"-[ditPq]*[^ditPq\-]\S")
# What a container is told to run instead of the server of its image: a program, not a model.
_OTHER_PROGRAMS = re.compile(
    r"(?:\S*/)?(?:ba|da|z|k)?sh$|(?:\S*/)?(?:python[\d.]*|ray|torchrun|env|sleep|nvidia-smi|vllm)$"
)
_WRAPPERS = frozenset({"sudo", "exec", "time", "nohup"})
# Redirections, pipes and comments belong to the shell, not to the server; "<your model>" holds a place.
_SHELL = re.compile(r"[|;]|&(?:$|[&>])|[\d&]?>|<(?!\w[^<>]*>$)|#")


def parse(argv: Sequence[str]) -> Launch:
    """Words of a command to a Launch; `print_words` gives the same words back.

    A command that starts no vLLM server that can be recognised becomes a launch whose `args` are empty: it can be
    shown, but not edited. A server inside `sh -c '...'` is found there.
    """
    words = list(argv)
    env: list[tuple[str, str]] = []
    at = 0
    while at < len(words) and _ASSIGNMENT.match(words[at]):
        name, _, value = words[at].partition("=")
        env.append((name, value))
        at += 1
    words = words[at:]
    image = _image(words)
    container = tuple(words[: image + 1]) if image is not None else ()
    rest = words[len(container) :]
    # An image whose entry point is `vllm` is told to serve.
    end = 1 if container and rest[:1] == ["serve"] else _program_end(rest)
    if end is None:
        inside = _in_shell(rest)
        if inside is not None:
            return Launch(tuple(env), container, *inside)
        # The official image starts the server itself: its words are the server's arguments.
        end = 0 if container and not (rest and _OTHER_PROGRAMS.match(rest[0])) else len(rest)
    return Launch(tuple(env), container, tuple(rest[:end]), tuple(rest[end:]))


def _in_shell(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], Shell] | None:
    """Program and arguments of the server in the script that a shell is told to run."""
    at = script_at(words)
    if at is None:
        return None
    for tokens in commands(words[at]):
        inner = [token.word for token in tokens]
        end = _program_end(inner)
        if end is not None:
            return tuple(inner[:end]), tuple(inner[end:]), Shell(tuple(words[:at]), words[at], tuple(words[at + 1 :]))
    return None


def parse_text(text: str) -> Launch | None:
    """A command as typed; None when the quoting is broken or it is empty."""
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        return None
    for at, word in enumerate(words):
        if _SHELL.match(word):
            words = words[:at]
            break
        if word.endswith(";"):
            words = [*words[:at], word.rstrip(";")]
            break
    return parse(words) if any(word not in _WRAPPERS for word in words) else None


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
            args += [flag, *map(_word, value)]
        else:
            word = _word(value)
            args += [f"{flag}={word}"] if word.startswith("-") and isinstance(value, str) else [flag, word]
    return Launch((), (), ("vllm", "serve"), tuple(args))


def _word(value: object) -> str:
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            pass
    return str(value)


def words(launch: Launch) -> list[str]:
    """The words to execute, without the environment assignments."""
    if launch.shell is None:
        return [*launch.container, *launch.program, *launch.args]
    shell = launch.shell
    return [*launch.container, *shell.before, _script(launch, shell), *shell.after]


def _script(launch: Launch, shell: Shell) -> str:
    """The script with the server's command as it is now; the very text where nothing changed."""
    now = [*launch.program, *launch.args]
    for tokens in commands(shell.script):
        old = [token.word for token in tokens]
        if _program_end(old) is not None:
            return shell.script if old == now else splice(shell.script, tokens, now)
    return shell.script


def environment(launch: Launch, env: Mapping[str, str]) -> dict[str, str]:
    """The environment in which to execute the words: what a shell makes of the printed command."""
    home = env.get("HOME")
    given = {name: f"{home}{value[1:]}" if home and _in_home(value) else value for name, value in launch.env}
    return {**env, **given}


def _in_home(value: str) -> bool:
    return value == "~" or value.startswith("~/")


def print_words(launch: Launch) -> list[str]:
    """All words, assignments in front."""
    return [*(f"{name}={value}" for name, value in launch.env), *words(launch)]


def print_text(launch: Launch) -> str:
    """One line for a POSIX shell. `A=~/x` in front is left to it: it stood there unquoted, or came from a rule."""
    assignments = [
        f"{name}=~{shlex.quote(value[1:]) if value[1:] else ''}" if _in_home(value) else f"{name}={shlex.quote(value)}"
        for name, value in launch.env
    ]
    return " ".join([*assignments, shlex.join(words(launch))])


def variables(launch: Launch) -> dict[str, str | None]:
    """The variables that the command sets for the server (None: unsets); of one name the innermost holds."""
    found: dict[str, str | None] = dict(launch.env)
    for at, word in enumerate(launch.container[:-1]):
        name, joined = word, ""
        if word in ("-e", "--env"):
            joined = launch.container[at + 1]
        elif word.startswith("--env="):
            joined = word[6:]
        elif word.startswith("-e") and len(word) > 2:
            joined = word[2:].removeprefix("=")
        name, equal, value = joined.partition("=")
        if equal:
            found[name] = value
    for spot in env_spots(launch.program):
        name, equal, value = launch.program[spot].partition("=")
        found[name] = value if equal else None
    return found


def env_spots(program: Sequence[str]) -> list[int]:
    """Indexes of the words that set (`A=b`) or, behind `env -u`, unset a variable in front of the server."""
    spots: list[int] = []
    active = True
    unset = False
    for at, word in enumerate(program):
        if unset:
            spots.append(at)
            unset = False
        elif active and _ASSIGNMENT.match(word):
            spots.append(at)
        elif word.rsplit("/", 1)[-1] in ("env", "sudo"):
            active = True
        elif active and at and word == "-u":
            unset = True
        elif not word.startswith("-"):
            active = False
    return spots


def editable(launch: Launch) -> bool:
    """Whether options can be changed: the server's own arguments are known."""
    if not launch.program:
        return bool(launch.container)
    if launch.container and launch.program == ("serve",):
        return True
    return _program_end(launch.program) == len(launch.program)


def _image(words: Sequence[str]) -> int | None:
    """Index of the image in `docker run OPTIONS IMAGE ...`; None when it is no such command."""
    at = 0
    while at < len(words) and (words[at] in _WRAPPERS or (at and re.match(r"-[EHSn]$", words[at]))):
        at += 1
    if len(words) <= at + 1 or words[at].rsplit("/", 1)[-1] not in _RUNTIMES:
        return None
    at += 1
    if words[at] == "container":
        at += 1
    if at >= len(words) or words[at] != "run":
        return None
    at += 1
    while at < len(words):
        if not words[at].startswith("-"):
            return at
        at += _run_width(words[at])
    return None


def _run_width(word: str) -> int:
    """Words that an option of `docker run` takes, itself included."""
    short = _SHORT_SWITCHES.match(word) or (word[1:2] != "-" and _SHORT_WITH_VALUE.match(word))
    return 1 if word in _RUN_SWITCHES or "=" in word or short else 2


def run_options(container: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """`docker run OPTIONS IMAGE` taken apart: the words up to `run`, each option with its value, the image."""
    at = list(container).index("run") + 1
    before, options = tuple(container[:at]), []
    while at < len(container) - 1:
        width = _run_width(container[at])
        options.append(tuple(container[at : min(at + width, len(container) - 1)]))
        at += width
    return before, options, container[-1]


def _program_end(words: Sequence[str]) -> int | None:
    """Index after the words that name the server: `vllm serve`, `-m vllm.entrypoints...`, a script."""
    words = list(words)
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
