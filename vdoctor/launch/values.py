"""What a launch sets: the value of an option or a variable, and where its server listens."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vdoctor.launch.options import Option, OptionTable
from vdoctor.launch.words import end_of_options, is_option, model_at, normal
from vdoctor.model import Launch

_DEFAULT_PORT = 8000
_PUBLISHED = re.compile(r"(?:(?P<address>[\d.]+|\[[\da-fA-F:]+\]):)?(?P<host>\d+):(?P<inside>\d+)(?:/tcp)?$")


@dataclass(frozen=True, slots=True)
class Given:
    """One option as it is given. `name`: its full name, or as written where no release has it; `written`: with dashes
    and without value or key; `key`: of `--flag.key`; `value`: None for a bare one, several with blanks between."""

    name: str
    written: str
    key: str
    value: str | None
    option: Option | None

    @property
    def on(self) -> bool:
        """False for the --no- form of a switch."""
        return not self.written.startswith("--no-") or self.name.startswith("--no-")


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


def given(launch: Launch, options: OptionTable, version: str | None = None) -> Iterator[Given]:
    """Every option of the launch in the order in which argparse sees them: those of the file of --config first, so that
    of one option the last counts."""
    yield from options_in(launch.config, options, version)
    yield from options_in(launch.args, options, version)


def options_in(args: Sequence[str], options: OptionTable, version: str | None = None) -> Iterator[Given]:
    """Every option among the words of a server, in any spelling: `--a=b`, `--a_b`, short forms, `-O3`, unique beginnings."""
    end = end_of_options(args)
    for at, word in enumerate(args[:end]):
        if not is_option(word):
            continue
        head, equal, joined = word.partition("=")
        head, _, key = head.partition(".")
        written = normal(head)
        option = options.lookup(written, version, allow_abbrev=True) or options.lookup(written, None)
        name = option.name if option is not None else written
        yield Given(name, written, key, joined if equal else _behind(args, at, written, key, option, options), option)


def _behind(
    args: Sequence[str], at: int, written: str, key: str, option: Option | None, options: OptionTable
) -> str | None:
    """The value in the words behind an option, or stuck to its letter."""
    following = args[at + 1] if at + 1 < len(args) else "--"
    if option is None or (option.kind == "flag" and not key):
        return None
    if written[:2] != "--" and len(written) > 2 and options.takes_value(written, None) is False:
        return written[2:]
    if is_option(following) or following == "--":
        return None
    if option.kind == "many" and not key:
        return " ".join(itertools.takewhile(lambda one: one != "--" and not is_option(one), args[at + 1 :]))
    return following


def value(launch: Launch, flag: str, options: OptionTable, version: str | None = None) -> str | bool | None:
    """What the command gives to an option, the last one where it stands twice, several values with blanks between;
    True for a bare switch, False for its --no- form, None where it is not there. The file of --config counts where
    the command is silent."""
    wanted, found = _full_name(flag, options, version), None
    for one in given(launch, options, version):
        if one.key or wanted not in (one.name, one.written):
            continue
        bare = one.on or flag.startswith("--no-")
        found = bare if one.value is None else one.value
    return found


def model_of(launch: Launch, options: OptionTable) -> str | None:
    """The model: --model of the command, its bare word, or the model of the file of --config; None where none is named."""
    named = [one.value for one in options_in(launch.args, options) if one.name == "--model" and one.value]
    if named:
        return named[-1]
    bare = not launch.program or launch.program[-1] == "serve"
    at = model_at(launch.args, options, None) if bare else None
    return launch.args[at] if at is not None else text_of(launch, "--model", options)


def text_of(launch: Launch, flag: str, options: OptionTable, version: str | None = None) -> str | None:
    """The value of an option that takes one; None where it is not there or bare."""
    found = value(launch, flag, options, version)
    return found if isinstance(found, str) and found else None


def last_values(launch: Launch, options: OptionTable, version: str | None = None) -> dict[str, str]:
    """The last value of each option, "" for a bare one; a switch that is off is left out. An option of the file of
    --config counts as the command's own, and the file itself is left out when it is known."""
    found: dict[str, str] = {}
    for one in given(launch, options, version):
        if one.key:
            found.setdefault(one.name, "")
        elif one.on:
            found[one.name] = one.value or ""
        else:
            found.pop(one.name, None)
    if launch.config:
        found.pop("--config", None)
    return found


def object_of(launch: Launch, flag: str, options: OptionTable, version: str | None = None) -> dict[str, Any] | None:
    """The JSON object of an option, with what is given key by key (`--flag.key v`); None where it is not there, empty
    where it is no object."""
    found: dict[str, Any] | None = None
    for one in given(launch, options, version):
        if one.name != flag:
            continue
        read = _json(one.value or "")
        if one.key:
            found = {**(found or {}), one.key: one.value if read is None else read}
        else:
            found = read if isinstance(read, dict) else {}
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _full_name(flag: str, options: OptionTable, version: str | None) -> str:
    option = options.lookup(flag, version) or options.lookup(flag, None)
    return option.name if option is not None else normal(flag)


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
