"""`docker run` as a trial runs it: in the foreground, under a name of its own, and gone afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vdoctor.launch.command import run_options
from vdoctor.model import Launch

#: What would keep a trial from being followed and ended, or clash with the first start: a background, a terminal that a
#: trial has not got, names and files that exist once, restarts behind our back.
_DROPPED = ("--detach", "--interactive", "--tty", "--name", "--cidfile", "--restart", "--rm")
_SHORT = re.compile(r"-(?P<switches>[ditPq]+)(?P<rest>.*)$")
_NEVER_SHORT = "dit"


def as_trial(launch: Launch, name: str) -> Launch:
    """The launch with a container of this name that ends with its client; unchanged without a container."""
    if not launch.container:
        return launch
    before, options, image = run_options(launch.container)
    kept = [word for option in options for word in _kept(option)]
    return replace(launch, container=(*before, "--rm", "--name", name, *kept, image))


def removal(launch: Launch, name: str) -> list[str]:
    """The command that ends and removes the container of a trial, whatever state it is in; empty without a container."""
    if not launch.container:
        return []
    before, _, _ = run_options(launch.container)
    words = list(before[:-2] if before[-2] == "container" else before[:-1])
    # nohup and the like are for the server.
    return [words[-1], "rm", "-f", name]


def dropped(launch: Launch) -> list[str]:
    """Options of the command that a trial goes without, as they stand there."""
    if not launch.container:
        return []
    _, options, _ = run_options(launch.container)
    return [" ".join(option) for option in options if _kept(option) != list(option) and option[0] != "--rm"]


def _kept(option: Sequence[str]) -> list[str]:
    if option[0].partition("=")[0] in _DROPPED:
        return []
    short = _SHORT.match(option[0])
    if short is None:
        return list(option)
    # "-d=true", and letters in front of an option with a value: "-itp 80:80".
    switches = "".join(letter for letter in short["switches"] if letter not in _NEVER_SHORT)
    rest = "" if short["rest"].startswith("=") else short["rest"]
    return [f"-{switches}{rest}", *option[1:]] if switches or rest else list(option[1:])
