"""Settings that make a server say why it dies. They change neither what it does nor how fast."""

from __future__ import annotations

from collections.abc import Mapping

from vdoctor.launch.command import variables
from vdoctor.model import Launch

#: NCCL names the cause of "unhandled system error" only at this level; without a fault handler a Python process that
#: dies of SIGBUS or SIGSEGV says nothing.
SETTINGS = {"NCCL_DEBUG": "WARN", "PYTHONFAULTHANDLER": "1"}


def added(env: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """What to add to the child's environment: nothing that the user set, nothing for what runs in a container."""
    if launch.container:
        return {}
    own = variables(launch)
    return {name: value for name, value in SETTINGS.items() if name not in env and name not in own}
