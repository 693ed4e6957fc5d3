"""Whether a server is ready: what its log says against what its /health answers."""

from __future__ import annotations

from vdoctor.model import Fact, FactValue, Sample


class Readiness:
    """`feed` samples, `say` that the log says so. Times in seconds since the launch."""

    def __init__(self) -> None:
        self._first_answer: float | None = None
        self._said: float | None = None
        self._last: tuple[float, int] | None = None
        self._asked_since: float | None = None

    def restart(self) -> None:
        """The server starts again."""
        self.__init__()  # type: ignore[misc]

    def feed(self, sample: Sample) -> None:
        """Take the next sample."""
        if sample.health is None:
            return
        self._last = (sample.t, sample.health)
        if sample.health == 200:
            self._asked_since = None
            self._first_answer = self._first_answer if self._first_answer is not None else sample.t
        elif self._asked_since is None:
            self._asked_since = sample.t

    def say(self, t: float | None) -> None:
        """The log says that the server is ready; `t` None: it has no times."""
        if self._said is None:
            self._said = t if t is not None else 0.0

    @property
    def answers(self) -> bool:
        """/health has answered 200 in this start."""
        return self._first_answer is not None

    @property
    def facts(self) -> dict[str, Fact]:
        """`server.ready_by` is `health`, `log` or `log and health`; times only where /health was asked."""
        found: dict[str, tuple[FactValue, str]] = {}
        if self._first_answer is not None:
            found["server.ready_by"] = ("log and health" if self._said is not None else "health", "health")
            found["server.health_after_s"] = (round(self._first_answer, 1), "health")
        elif self._said is not None:
            found["server.ready_by"] = ("log", "log")
        if self._last is not None:
            found["server.health"] = (self._last[1], "health")
            if self._said is not None and self._asked_since is not None:
                silent = self._last[0] - max(self._asked_since, self._said)
                found["server.unanswered_s"] = (round(max(0.0, silent)), "health")
        return {name: Fact(value, source) for name, (value, source) in found.items()}
