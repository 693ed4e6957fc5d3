"""One watched server: where its output comes from, sampler, recorder and examination put together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from vdoctor.diagnose import Examination
from vdoctor.launch.endpoint import Endpoint
from vdoctor.live.backlog import Backlog, Gap, Item, Output, Rest
from vdoctor.live.hooks import Hooks
from vdoctor.live.late import Late
from vdoctor.live.observer import Observer
from vdoctor.live.probes import Probes
from vdoctor.live.sampler import Sampler
from vdoctor.live.skipping import SkippingSplitter, late_lines
from vdoctor.live.speed import Speed
from vdoctor.live.supervise import Supervisor
from vdoctor.live.words import words_of
from vdoctor.model import Bar, Event, Exit, Fact, Motion, Report, Sample, Source

if TYPE_CHECKING:
    from vdoctor.live.session import Recorder
    from vdoctor.rulebase.schema import RuleBase

#: Output may wait for its examination as long as that takes no longer than this: a death is told within a second.
_BEHIND_SECONDS = 0.5
_LEAST, _MOST = 128 << 10, 8 << 20
#: While more comes than can be examined, examination leaves this multiple of its time to the child, so long after it.
_REST, _FLOOD_SECONDS = 2.0, 0.5
#: More bytes a second are beyond anything that can be followed; then it leaves much more.
_TORRENT, _LONG_REST = 16 << 20, 30.0
#: Bytes a second, until the speed of this machine is known.
_FIRST_RATE = 1 << 20


class Feed(Protocol):
    """Where output comes from: a Supervisor with a child or standard input, or a Follower of files and processes."""

    def follow(self, observer: Observer, *, tick: float = ...) -> Exit | None:
        """Stay to the end; None when nobody knows how it ended."""

    def now(self) -> float:
        """Seconds since the launch."""

    def say(self, text: str) -> None:
        """Whole lines for standard error."""

    def show(self, lines: Sequence[str]) -> None:
        """Lines below the output on a terminal."""

    def stop(self) -> None:
        """End the child, or the following."""


class Watcher(Hooks):
    """Watches a server under examination. What a subclass may add: `Hooks`."""

    def __init__(
        self,
        examination: Examination,
        recorder: Recorder | None,
        *,
        interval: float,
        quiet: bool = False,
        stop_when: Callable[[Examination, float], bool] | None = None,
        measure_after_ready: float | None = None,
        rules: RuleBase | None = None,
        endpoint: Endpoint | str = "the command is not known",
    ) -> None:
        """`interval`: seconds between two measurements; `endpoint`: where the server answers, or why it is not asked; `quiet` swallows the child's output;
        `stop_when` is asked at each tick whether the child has done its duty; measurements end so many seconds after
        the server got ready (None: with the server); lines that `rules` look for are kept longest in a flood of output."""
        self.examination = examination
        self.recorder = recorder
        self.last_sample: Sample | None = None
        self.last_bar: Bar | None = None
        self.elapsed = 0.0
        self.stop_reason = False
        self.ready_at: float | None = None
        self.facts: dict[str, Fact] = {}
        #: The output comes from where it stays: it can wait for its examination.
        self.patient = False
        self._interval = interval
        self._quiet = quiet
        self._stop_when = stop_when
        self._measure_after_ready = measure_after_ready
        self._splitter = SkippingSplitter()
        self._sampler: Sampler | None = None
        self._probes: Probes | None = None
        self._endpoint = endpoint
        self._samples: list[Sample] = []
        self._backlog = Backlog(lambda: words_of(rules) if rules is not None else ())
        self._late = Late(lambda: words_of(rules) if rules is not None else ())
        self._rate: float = _FIRST_RATE
        self._flood_until = self._rest_until = 0.0
        self._speed = Speed()
        self._lost = 0
        self.told_failure = False
        #: How often stacks were taken and examined: what they show may change what there is to say.
        self.dumps = 0
        self.feed: Feed | None = None

    def run(self, argv: Sequence[str], env: Mapping[str, str], farewell: Sequence[str] = ()) -> Exit:
        """Start the child and stay with it to its end; `farewell`: see Supervisor.start. Raises CannotStart."""
        supervisor = Supervisor(quiet=self._quiet)
        supervisor.start(argv, env, farewell)
        end = self.follow(supervisor)
        assert end is not None
        return end

    def follow(self, feed: Feed) -> Exit | None:
        """Stay with what was started already."""
        self.feed = feed
        end = feed.follow(self)
        t = round(feed.now(), 4)
        # What the recording keeps of it: both must see the same.
        end = replace(end, t=round(end.t, 4)) if end is not None else None
        if self._sampler is not None:
            self._sampler.stop()
            self._take_samples(end.t if end else t, end=True)
        if self._probes is not None:
            self._keep(self._probes.finish(t), end.t if end else t)
        self._flood_until = 0.0
        while self.work(60.0):
            pass
        self._events(self.examination.feed(self._splitter.close(end.t if end else t)))
        if self._splitter.skipped and (end is None or (end.status and end.asked is None)):
            self._look_again(end.t if end else t)
        if end is not None:
            self.examination.feed([end])
        self._note("watch.skipped_bytes", self._splitter.skipped)
        self._note("watch.lost_bytes", self._lost)
        return end

    def measure_with(self, sampler: Sampler) -> None:
        """A sampler that was started with the child, before there was a watcher."""
        self._sampler = sampler

    def report(self, name: str) -> Report:
        """The report on what was seen so far."""
        source = Source("live", name, self._splitter.lines, self._splitter.size)
        report = self.examination.report(source)
        return replace(report, facts={**report.facts, **self.facts}) if self.facts else report

    @property
    def asked(self) -> bool:
        """The user wants an end."""
        return isinstance(self.feed, Supervisor) and self.feed.asked is not None

    @property
    def motion(self) -> Motion | None:
        """Whether the start moves, as the examination sees it now."""
        return self.examination.motion

    @property
    def behind(self) -> bool:
        """Output waits for its examination."""
        return self._backlog.waiting > 0

    # ------------------------------------------------------------------ observer of the feed

    def started(self, pid: int) -> None:
        """Begin to measure the tree below `pid`; 0: there is none."""
        if pid and self._sampler is None:
            assert self.feed is not None
            self._sampler = Sampler(pid, self._interval, self.feed.now)
            self._sampler.start()
        if pid and self._probes is None:
            assert self.feed is not None
            self._probes = Probes(
                pid,
                self.feed.now,
                endpoint=self._endpoint,
                step=lambda: self.examination.timeline.furthest,
                motion=lambda: self.examination.motion,
                after_ready=self._measure_after_ready,
            )
        self.on_started(pid)

    def output(self, t: float, data: bytes, *, old: bool = False) -> None:
        """Record the next bytes; they are examined when there is time."""
        self.elapsed = t
        self._take_samples(t)
        t = round(t, 4)
        if self.recorder is not None:
            self.recorder.log(t, data, old=old)
            self._warn()
        self._backlog.output(None if old else t, data)
        limit = int(min(max(self._rate * _BEHIND_SECONDS, _LEAST), _MOST))
        self._speed.feed(len(data))
        if self._backlog.waiting > 2 * limit and not self.patient:
            self._backlog.shrink(limit)
            self._flood_until = time.perf_counter() + _FLOOD_SECONDS

    def died(self, end: Exit) -> None:
        """What there is to say of the end need not wait for the processes that outlive the child."""
        if end.asked is not None or self._splitter.skipped:
            return
        self._take_samples(end.t, end=True)
        if self._probes is not None:
            self._keep(self._probes.tick(end.t), end.t)
        self._flood_until = 0.0
        while self.work(60.0):
            pass
        # What they still say belongs to the recording before the end: for the examination it is not over yet.
        self.examination.exit = end
        try:
            self.on_died(self.report(""))
        finally:
            self.examination.exit = None

    def lost(self, length: int) -> None:
        """Bytes that were passed on while the recording hung."""
        self._lost += length

    def work(self, seconds: float) -> bool:
        """Examine what waits, for about so long; True when there is more."""
        begun = now = time.perf_counter()
        if begun < self._flood_until and begun < self._rest_until:
            return False
        size = done = 0
        piece = max(4096, min(int(self._rate * seconds / 4), 1 << 18))
        while now - begun < seconds:
            item = self._backlog.take(piece)
            if item is None:
                break
            done += 1
            size += len(item.data) if isinstance(item, Output) else 0
            self._examine(item)
            now = time.perf_counter()
        if size > 8192:
            # Half the old value: one slow traceback is no trend.
            self._rate += (size / max(now - begun, 1e-6) - self._rate) / 2
        self._rest_until = now + (_LONG_REST if self._speed.rate > _TORRENT else _REST) * (now - begun)
        return done > 0 and len(self._backlog) > 0

    def tick(self, t: float) -> bool:
        """Take the samples; True when the child should be stopped."""
        self.elapsed = t
        self._take_samples(t)
        if self._probes is not None:
            self._keep(self._probes.tick(t), t)
            self._note_unseen(self._probes)
        if self.examination.ready and self.ready_at is None:
            self.ready_at = t
        self._stop_measuring(t)
        self.on_tick(t)
        if self._stop_when is not None and self._stop_when(self.examination, t):
            self.stop_reason = True
        return self.stop_reason

    # ------------------------------------------------------------------ inside

    def _look_again(self, t: float) -> None:
        """The line that says why it died may be in what came too fast."""
        if self.recorder is None or self.recorder.failed is not None:
            return
        with contextlib.suppress(OSError):
            for one in self._late.search(self.recorder.folder / "log.txt"):
                data = self.recorder.late(t, *one)
                self._events(self.examination.feed(late_lines(data, one.line)))

    def _examine(self, item: Item) -> None:
        if isinstance(item, Output):
            self._events(self.examination.feed(self._splitter.feed(item.data, item.t)))
        elif isinstance(item, Gap):
            self._late.note(item.start, item.length, self._splitter.lines + 1)
            self._splitter.skip(item.length, item.newlines)
            if self.recorder is not None:
                self.recorder.skip(self.elapsed, item.start, item.length)
        elif isinstance(item, Rest):
            self._splitter.pass_over(item.length)
        else:
            self.examination.feed([item])
            self.dumps += isinstance(item, Sample) and bool(item.stacks)

    def _events(self, events: list[Event]) -> None:
        for event in events:
            self.last_bar = event.bar if event.bar is not None else None if event.kind == "record" else self.last_bar
        self.on_events(events)

    def _take_samples(self, latest: float, *, end: bool = False) -> None:
        """Samples up to that moment go into the queue, between the output before and after them; a replay has the
        same order. At the `end` all of them."""
        fresh = self._sampler.take() if self._sampler else []
        if self._probes is not None:
            for sample in fresh:
                self._probes.see(sample)
        self._samples += fresh
        while self._samples and (end or self._samples[0].t <= latest):
            self._keep([self._samples.pop(0)], latest)

    def _keep(self, samples: Sequence[Sample], latest: float) -> None:
        for sample in samples:
            # One number of digits for the recording and the examination: both must see the same.
            sample = replace(sample, t=round(min(sample.t, latest), 4), asked=self.asked)
            last = self.last_sample or sample
            self.last_sample = replace(sample, host=sample.host or last.host, gpus=sample.gpus or last.gpus)
            if self.recorder is not None:
                self.recorder.sample(sample)
            self._backlog.put(sample)

    def _stop_measuring(self, t: float) -> None:
        after = self._measure_after_ready
        if after is not None and self._sampler is not None and self.ready_at is not None and t - self.ready_at >= after:
            self._sampler.stop()
            self._take_samples(t, end=True)
            self._sampler = None

    def _note_unseen(self, probes: Probes) -> None:
        before = len(self.facts)
        for name, reason in probes.unseen.items():
            self._note(name, reason)
        if len(self.facts) > before:
            self.on_unseen()

    def _note(self, name: str, value: int | str) -> None:
        if value and name not in self.facts:
            self.facts[name] = Fact(value, "watch")
            if self.recorder is not None:
                self.recorder.fact(name, self.facts[name])

    def _warn(self) -> None:
        if self.recorder is not None and self.recorder.failed is not None and not self.told_failure:
            self.told_failure = True
            self.on_record_failed(self.recorder.failed)
