"""A command line, and changes of it, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vdoctor.model.words import FlagValue


@dataclass(frozen=True, slots=True)
class Change:
    """An edit of a launch as data.

    Flags are keyed by their long name; a value of None removes the option, True sets a bare flag.
    """

    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    container: Mapping[str, str | bool] = field(default_factory=dict)  # False removes

    def __bool__(self) -> bool:
        return bool(self.flags or self.env or self.container)


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell that runs the server: `before` ends with `-c`, `script` is its text, `after` follows the script."""

    before: tuple[str, ...]
    script: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line taken apart: ENV... WRAPPER... PROGRAM ARGS..., printable without loss.

    `env` holds the assignments in front; `container` the tokens of a container runtime up to and
    including the image; `program` the tokens up to the server's own arguments; `args` the rest.
    With a `shell`, program and args are those of the server's command inside its script. `config` holds what the file
    of `--config` amounts to, as words; the command beats it.
    """

    env: tuple[tuple[str, str], ...]
    container: tuple[str, ...]
    program: tuple[str, ...]
    args: tuple[str, ...]
    shell: Shell | None = None
    config: tuple[str, ...] = ()
