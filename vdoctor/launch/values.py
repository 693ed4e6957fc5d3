"""What a launch sets: the value of an option or a variable, and where its server listens."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from vdoctor.launch.options import OptionTable
from vdoctor.launch.words import end_of_options, is_option, normal, spells
from vdoctor.model import Launch

_DEFAULT_PORT = 8000
_PUBLISHED = re.compile(r"(?:(?P<address>[\d.]+|\[[\da-fA-F:]+\]):)?(?P<host>\d+):(?P<inside>\d+)(?:/tcp)?$")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server of a launch can be reached from this machine."""

    host: str
    port: int
    secure: bool = False

    @property
    def url(self) -> str:
        """`http://127.0.0.1:8000`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def value(launch: Launch, flag: str, options: OptionTable, version: str | None = None) -> str | bool | None:
    """What the command gives to an option, the last one where it stands twice, several values with blanks between;
    True for a bare switch, False for its --no- form, None where it is not there. The file of --config counts where
    the command is silent."""
    given = _given(launch.args, flag, options, version)
    return given if given is not None or not launch.config else _given(launch.config, flag, options, version)


def _given(args: Sequence[str], flag: str, options: OptionTable, version: str | None) -> str | bool | None:
    found: str | bool | None = None
    for at, word in enumerate(args[: end_of_options(args)]):
        if not spells(word, flag, options, version) or "." in normal(word):
            continue
        name, equal, joined = word.partition("=")
        option = options.lookup(normal(name), version) or options.lookup(normal(name), None)
        following = args[at + 1] if at + 1 < len(args) else "--"
        if equal:
            found = joined
        elif option is not None and option.kind == "flag":
            found = not normal(name).startswith("--no-") or flag.startswith("--no-")
        elif is_option(following) or following == "--":
            found = True
        elif option is not None and option.kind == "many":
            found = " ".join(itertools.takewhile(lambda one: one != "--" and not is_option(one), args[at + 1 :]))
        else:
            found = following
    return found


def address(launch: Launch, options: OptionTable, version: str | None = None) -> Address | None:
    """Where to ask the server; None where the command does not tell (a socket file, a container's own network)."""
    if value(launch, "--uds", options, version) is not None:
        return None
    text = value(launch, "--port", options, version)
    port = int(text) if isinstance(text, str) and text.isdecimal() and 0 < int(text) < 65536 else None
    if port is None and text is not None:
        return None
    host = value(launch, "--host", options, version)
    secure = isinstance(value(launch, "--ssl-keyfile", options, version), str)
    if launch.container:
        published = _published(launch.container, port or _DEFAULT_PORT)
        return Address("127.0.0.1", published, secure) if published else None
    shown = host if isinstance(host, str) and host not in ("", "0.0.0.0") else "127.0.0.1"
    return Address("::1" if shown == "::" else shown, port or _DEFAULT_PORT, secure)


def _published(container: tuple[str, ...], inside: int) -> int | None:
    """The port of the host that leads to a port of the container."""
    for at, word in enumerate(container[:-1]):
        name, equal, joined = word.partition("=")
        text = joined if equal else container[at + 1]
        if name in ("--network", "--net") and text == "host":
            return inside
        if name in ("-p", "--publish"):
            found = _PUBLISHED.match(text)
        elif word.startswith("-p") and len(word) > 2:
            found = _PUBLISHED.match(word[2:])
        else:
            continue
        if found is not None and int(found["inside"]) == inside:
            return int(found["host"])
    return None
