"""One watched launch: supervisor, sampler, recorder and examination put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from vdoctor.diagnose import Examination
from vdoctor.intake.splitter import LineSplitter
from vdoctor.live.sampler import Sampler
from vdoctor.live.session import Recorder
from vdoctor.live.supervise import Supervisor
from vdoctor.model import Bar, Event, Exit, Report, Sample, Source


class Watcher:
    """Runs a command under examination. Subclass hooks: `on_events`, `on_tick`, `before_write`, `after_write`."""

    def __init__(
        self,
        examination: Examination,
        recorder: Recorder | None,
        *,
        interval: float,
        quiet: bool = False,
        stop_when: Callable[[Examination, float], bool] | None = None,
    ) -> None:
        """`interval`: seconds between two measurements; `quiet` swallows the child's output;
        `stop_when` is asked at each tick whether the child has done its duty."""
        self.examination = examination
        self.recorder = recorder
        self.last_sample: Sample | None = None
        self.last_bar: Bar | None = None
        self.elapsed = 0.0
        self.stop_reason = False
        self._interval = interval
        self._stop_when = stop_when
        self._splitter = LineSplitter()
        self._sampler: Sampler | None = None
        self._supervisor = Supervisor(self, quiet=quiet)

    def run(self, argv: Sequence[str], env: Mapping[str, str]) -> Exit:
        """Start the child and stay with it to its end. Raises CannotStart."""
        end = self._supervisor.run(argv, env)
        # What the recording keeps of it: both must see the same.
        end = replace(end, t=round(end.t, 4))
        if self._sampler is not None:
            self._sampler.stop()
            self._take_samples()
        self._events(self.examination.feed(self._splitter.close(end.t)))
        self.examination.feed([end])
        return end

    def report(self, name: str) -> Report:
        """The report on what was seen so far."""
        source = Source("live", name, self._splitter.lines, self._splitter.bytes)
        return self.examination.report(source)

    # ------------------------------------------------------------------ observer of the supervisor

    def started(self, pid: int) -> None:
        """Begin to measure."""
        self._sampler = Sampler(pid, self._interval, self._supervisor.now)
        self._sampler.start()

    def output(self, t: float, data: bytes) -> None:
        """Record and examine the next bytes."""
        self.elapsed = t
        if self.recorder is not None:
            self.recorder.log(t, data)
        self._events(self.examination.feed(self._splitter.feed(data, round(t, 4))))

    def tick(self, t: float) -> bool:
        """Take the samples; True when the child should be stopped."""
        self.elapsed = t
        self._take_samples()
        self.on_tick(t)
        if self._stop_when is not None and self._stop_when(self.examination, t):
            self.stop_reason = True
        return self.stop_reason

    def before_write(self, target: int) -> None:
        """Output is about to be passed on."""

    def after_write(self, target: int, data: bytes) -> None:
        """Output was passed on."""

    # ------------------------------------------------------------------ hooks

    def on_events(self, events: list[Event]) -> None:
        """New events were examined."""

    def on_tick(self, t: float) -> None:
        """About ten times a second."""

    def _events(self, events: list[Event]) -> None:
        for event in events:
            self.last_bar = event.bar if event.bar is not None else None if event.kind == "record" else self.last_bar
        self.on_events(events)

    def _take_samples(self) -> None:
        for sample in self._sampler.take() if self._sampler else []:
            # One number of digits for the recording and the examination: both must see the same.
            sample = replace(sample, t=round(sample.t, 4))
            last = self.last_sample or sample
            self.last_sample = replace(sample, host=sample.host or last.host, gpus=sample.gpus or last.gpus)
            if self.recorder is not None:
                self.recorder.sample(sample)
            self.examination.feed([sample])
