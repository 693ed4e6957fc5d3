"""A server at work: requests at hand, tokens that come."""

from __future__ import annotations

from vdoctor.model import Sample

#: Names of /metrics that count work done (`vllm:` and `vllm_` before them, `_total` behind them, moved over releases).
_DONE = ("generation_tokens", "prompt_tokens", "iteration_tokens", "request_success")
_AT_HAND = ("num_requests_running", "num_requests_waiting")


class Serving:
    """Follows /metrics, /health and the lines of a server that is ready. Times on the caller's clock."""

    def __init__(self) -> None:
        #: requests running or waiting; None: unknown
        self.requests: int | None = None
        #: since when there is work without a break; last time that a token or an answer came
        self.since: float | None = None
        self.moved_at = 0.0
        #: since when /health, which answered before, gives no answer
        self.deaf_since: float | None = None
        self._heard = False
        self._counters: dict[str, float] = {}
        self._by_metrics = False

    def line(self, t: float) -> None:
        """A line that is news."""
        self.moved_at = t

    def sample(self, sample: Sample, t: float, logged: int | None) -> None:
        """Take metrics and health of a sample, where there are any; `logged` is what the log says of requests at hand."""
        requests = logged
        if sample.health is not None:
            self._heard = self._heard or sample.health > 0
            self.deaf_since = (
                None if sample.health or not self._heard else t if self.deaf_since is None else self.deaf_since
            )
        if sample.metrics is not None:
            known = {name: value for name, value in sample.metrics.items() if any(part in name for part in _DONE)}
            if any(value != self._counters.get(name) for name, value in known.items()):
                self.moved_at = t
            self._counters = known
            at_hand = [v for name, v in sample.metrics.items() if any(part in name for part in _AT_HAND)]
            if at_hand:
                self._by_metrics = True
                requests = int(sum(at_hand))
            self.requests = requests
        elif not self._by_metrics:
            self.requests = requests
        if not self.requests:
            self.since = None
        elif self.since is None:
            self.since = t

    def quiet_for(self, t: float) -> float | None:
        """Seconds in which requests were at hand and nothing came of them; None without work."""
        return None if self.since is None else t - max(self.since, self.moved_at)
