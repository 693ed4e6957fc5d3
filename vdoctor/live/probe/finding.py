"""What a look at the machine gave: facts, and what could not be looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vdoctor.model import Fact, FactValue


@dataclass(slots=True)
class Seen:
    """Facts with their source, and reasons for those that are missing.

    `things` are for looks that need more than facts of each other: what the target's Python answered, the model's files.
    """

    facts: dict[str, Fact] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    things: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: FactValue | None, source: str) -> None:
        """A fact; None is no fact."""
        if value is not None:
            self.facts[name] = Fact(value, source)

    def miss(self, what: str, reason: str) -> None:
        """`what` could not be looked at."""
        self.unknown[what] = reason

    def merge(self, other: Seen) -> None:
        """Take over what another look found."""
        self.facts.update(other.facts)
        self.unknown.update(other.unknown)
        self.things.update(other.things)


Look = Callable[[], Seen]


def look(
    looks: Mapping[str, Look],
    *,
    seconds: float,
    slow: Callable[[Sequence[str]], None] | None = None,
    patience: float = 1.0,
) -> Seen:
    """Run all looks side by side; one that fails or takes longer than `seconds` is "not evaluated" with the reason.

    `slow` is called once with the names of those that are still at work after `patience` seconds. A look that hangs (a
    dead network file system) is left behind in a daemon thread.
    """
    found: dict[str, Seen] = {}
    threads = {}
    for name, one in looks.items():
        threads[name] = threading.Thread(target=_run, args=(name, one, found), daemon=True, name=f"look-{name}")
        threads[name].start()
    _join(threads, patience)
    late = [name for name, thread in threads.items() if thread.is_alive()]
    if late and slow is not None:
        slow(late)
    _join(threads, max(0.0, seconds - patience))
    whole = Seen()
    for name in looks:
        if name in found:
            whole.merge(found[name])
        else:
            whole.miss(name, f"no answer within {seconds:g} s")
    return whole


def _join(threads: Mapping[str, threading.Thread], seconds: float) -> None:
    import time

    end = time.monotonic() + seconds
    for thread in threads.values():
        thread.join(max(0.0, end - time.monotonic()))


def _run(name: str, one: Look, found: dict[str, Seen]) -> None:
    try:
        found[name] = one()
    except Exception as error:
        # Whatever a broken machine answers: it must not hide what the other looks find.
        failed = Seen()
        failed.miss(name, f"{type(error).__name__}: {error}")
        found[name] = failed
