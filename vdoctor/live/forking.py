"""How a keeper comes to be: a fork of vdoctor that does nothing else."""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable, Mapping, Sequence

from vdoctor.live.child import Child, close_others
from vdoctor.live.inlet import Inlet
from vdoctor.live.keeper import Keeper
from vdoctor.live.link import Link, pair
from vdoctor.live.output import write_all
from vdoctor.live.ring import Ring


def fork_keeper(start: Callable[[], Child | Inlet], *, quiet: bool) -> tuple[int, Link, Ring]:
    """Fork a keeper whose child `start` makes; its process id and the ways to it. The first message is STARTED or REFUSED."""
    ring = Ring()
    ours, theirs = pair()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours, ring
    status = 1
    try:
        ours.close()
        gc.disable()
        # Out of the reach of Ctrl-C and of whoever kills our group; in our session, as all helpers of ours.
        os.setpgid(0, 0)
        close_others(theirs.fileno())
        status = Keeper(theirs, ring, quiet).run(start, parent)
    except BaseException:
        if os.environ.get("VDOCTOR_DEBUG"):
            write_all(2, memoryview(traceback.format_exc().encode()))
    finally:
        # Nothing of vdoctor's own that would run at an orderly exit belongs here.
        os._exit(status)
    raise AssertionError


def start_child(argv: Sequence[str], env: Mapping[str, str], farewell: Sequence[str] = ()) -> Callable[[], Child]:
    """How a keeper makes a child of a command."""
    return lambda: Child(argv, env, farewell)
