"""All that a ticket holds beside the log, read in one place."""

from __future__ import annotations

from typing import Protocol

from vdoctor.facts import environment, system
from vdoctor.facts.environment import EnvironmentFacts
from vdoctor.facts.nvidia_smi import NvidiaSmiFacts
from vdoctor.facts.snippets import SnippetFacts
from vdoctor.facts.system import SystemFacts
from vdoctor.model import Event, Fact, Facts

#: What people and tools write has shorter lines; a longer one is data.
_LONGEST = 2000


def patterns() -> list[str]:
    """All patterns of tables whose literals must be worked out."""
    return [spot.pattern for spot in (*environment.SPOTS, *system.SPOTS) if not spot.literals]


class _Reader(Protocol):
    """Reads one kind of text."""

    @property
    def facts(self) -> dict[str, Fact]: ...

    def feed(self, event: Event) -> None: ...


class TicketFacts:
    """Fed with all events; looks at those that are no records of vLLM."""

    def __init__(self) -> None:
        # The order is that of trust: what was asked of the machine comes before what was meant to be started.
        self._readers: tuple[_Reader, ...] = (EnvironmentFacts(), NvidiaSmiFacts(), SystemFacts(), SnippetFacts())

    @property
    def facts(self) -> dict[str, Fact]:
        """What is known so far."""
        known: dict[str, Fact] = {}
        for reader in self._readers:
            for name, fact in reader.facts.items():
                known.setdefault(name, fact)
        return _visible(known)

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if event.kind in ("record", "bar") or len(event.text) > _LONGEST:
            return
        for reader in self._readers:
            reader.feed(event)


def together(ticket: Facts, launch: Facts, log: Facts) -> dict[str, Fact]:
    """All facts together. What vLLM printed was in force; the command comes next, the rest of the ticket last."""
    merged = {**ticket, **launch}
    bare = "launch.layer" in launch and launch["launch.layer"].value == "bare"
    if bare and "launch.layer" in ticket:
        # The command is then the one inside of the container.
        merged["launch.layer"] = ticket["launch.layer"]
    merged.update(log)
    device = merged.get("launch.device")
    if device is not None and device.value != "cuda" and "gpu.cc" not in log:
        # A GPU that is there but not used decides nothing.
        merged.pop("gpu.cc", None)
    return merged


def _visible(known: dict[str, Fact]) -> dict[str, Fact]:
    """CUDA_VISIBLE_DEVICES hides GPUs from vLLM."""
    wanted, there = known.get("env.CUDA_VISIBLE_DEVICES"), known.get("gpu.count")
    if wanted is not None and there is not None and isinstance(there.value, int):
        entries = [entry for entry in str(wanted.value).split(",") if entry.strip()]
        if 0 < len(entries) < there.value:
            known["gpu.count"] = Fact(len(entries), wanted.source)
    return known
