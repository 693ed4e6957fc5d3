"""Where stuck processes stand, by the names of their functions."""

from __future__ import annotations

from collections.abc import Sequence

from vdoctor.model import Stack

#: Of each thread the innermost functions tell where it waits.
_FRAMES = 16


def innermost(stacks: Sequence[Stack], pid: int | None) -> str:
    """Function names, innermost first, one a line: of the process `pid`, where there is no stack of it of all."""
    own = [stack for stack in stacks if stack.pid == pid] or list(stacks)
    names = (frame.partition(" ")[0] for stack in own for frame in reversed(stack.frames[-_FRAMES:]))
    return "\n".join(dict.fromkeys(names))
