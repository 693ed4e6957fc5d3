"""Facts that need several lines: how long a state of the server lasts, how fast the shards come."""

from __future__ import annotations

import re

from vdoctor.model import Event, Fact

_STATS = re.compile(
    r"Avg prompt throughput: (?P<prompt>\d{1,15}(?:\.\d{1,9})?) tokens/s, "
    r"Avg generation throughput: (?P<generation>\d{1,15}(?:\.\d{1,9})?) tokens/s, Running: (?P<running>\d{1,15}) reqs"
)


#: The number of requests that go on while none begins; and whether requests stand and not one token comes.
Load = tuple[int | None, bool | None]


def load(text: str) -> Load | None:
    """What a line of statistics says of the load; None when it is none."""
    if "prompt throughput: 0" not in text and "Avg prompt throughput: " in text:
        return (None, None)
    found = _STATS.search(text)
    return _load(found) if found else None


def _load(found: re.Match[str]) -> Load:
    prompt, generation, running = float(found["prompt"]), float(found["generation"]), int(found["running"])
    lone = running if running and not prompt and generation else None
    return lone, True if running and not prompt and not generation else None


class _Lasting:
    """Since when a condition holds without a break; seconds on the log's clock."""

    def __init__(self) -> None:
        self._key: object = None
        self._since: float | None = None
        self._until: float | None = None

    def feed(self, key: object, time: float | None) -> None:
        """`key` names the state; None: the condition does not hold."""
        if key is None or key != self._key:
            self._key, self._since = key, time if key is not None else None
        self._until = time

    @property
    def seconds(self) -> int | None:
        """How long it held at the last line; None when it does not hold or has just begun."""
        if self._since is None or self._until is None or self._until <= self._since:
            return None
        return round(self._until - self._since)


class ProgressFacts:
    """Follows vLLM's periodic statistics and the bar of the checkpoint shards."""

    def __init__(self) -> None:
        self._lone = _Lasting()
        self._silent = _Lasting()
        self._line = 0
        #: That of the last line; a row of lines with one load counts by its first and its last line alone.
        self.load: Load = (None, None)
        self._shard: tuple[float, int] | None = None

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if event.bar is not None:
            bar = event.bar
            if "checkpoint shards" in bar.desc and bar.done and bar.elapsed:
                self._shard = (round(bar.elapsed / bar.done, 1), event.line)
            return
        if "Avg prompt throughput" not in event.text:
            return
        found = _STATS.search(event.text)
        if found is None:
            return
        self._line = event.line
        lone, silent = self.load = _load(found)
        self._lone.feed(lone, event.time)
        self._silent.feed(silent, event.time)

    def interrupt(self) -> None:
        """The load was another one for a while."""
        self._lone.feed(None, None)
        self._silent.feed(None, None)

    @property
    def facts(self) -> dict[str, Fact]:
        """What holds at the last line."""
        source = f"log:{self._line}"
        found = {
            name: Fact(state.seconds, source)
            for name, state in (("serving.lone_s", self._lone), ("serving.silent_s", self._silent))
            if state.seconds is not None
        }
        if self._shard is not None:
            found["weights.seconds_per_shard"] = Fact(self._shard[0], f"log:{self._shard[1]}")
        return found
