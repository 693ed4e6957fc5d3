"""Hung, or just slow? The verdict on the movement of a start, from lines and samples alone."""

from __future__ import annotations

from vdoctor.model import Event, HostSample, Motion, Sample, Stack, phase_of
from vdoctor.startup import patience as limits
from vdoctor.startup.frames import file_lock, innermost
from vdoctor.startup.gpus import GpuPulse
from vdoctor.startup.heartbeat import Heartbeats
from vdoctor.startup.last_stall import LastStall
from vdoctor.startup.pace import Meter, Network, Progressed
from vdoctor.startup.pulse import WINDOW, Pulse
from vdoctor.startup.serving import Serving
from vdoctor.startup.stall import (
    HUB_STEPS,
    Cause,
    Standing,
    dead_cause,
    doing,
    group_cause,
    idle_cause,
    is_short_of_memory,
    stopped_cause,
)
from vdoctor.startup.tree import Tree

#: Where no sample came for longer (the machine slept, vdoctor was stopped), that time proves nothing.
_GAP = 5.0
#: Older measurements of the processes say nothing about now.
_STALE = 15.0
#: A server is slow in reading or downloading only after so many seconds of it.
_EARLY = 60.0
_AT_WORK = ("runtime.ready", "runtime.serving")


class Progress:
    """Fed with events and samples in order; may be asked at any time, and answers from what it was fed alone."""

    def __init__(self, stall_after: float | None = None) -> None:
        """`stall_after`: seconds without movement that make a stall, in place of those of each step."""
        self._stall_after = stall_after
        #: files may come over the network: the model is not known to be a local directory
        self.hub = True
        self._tree = Tree()
        self._gpus = GpuPulse()
        self._heartbeats = Heartbeats()
        self._serving = Serving()
        self._bar = Progressed()
        self._download, self._network = Meter(), Network()
        self._t = self._clock = 0.0
        self._measured: float | None = None
        self._host: HostSample | None = None
        self._line_at: float | None = None
        self._step: str | None = None
        self._step_at = 0.0
        self._stacks: tuple[Stack, ...] = ()
        self.last_stall = LastStall()
        self._last_line = 0

    @property
    def step(self) -> str | None:
        """The step that the server had come to at the last line."""
        return self._step

    @property
    def is_measured(self) -> bool:
        """The processes were seen."""
        return self._measured is not None

    @property
    def saw_server(self) -> bool:
        """Its processes ran here: what was watched is the server, not a `cat` or a client that shows its log."""
        return self._tree.was_server

    # ------------------------------------------------------------------ feeding

    def line(self, event: Event, t: float, step: str | None) -> None:
        """Take an event that arrived `t` seconds after the launch, when the server had come to `step`."""
        self._advance(t)
        self._last_line = event.line
        if event.process and event.pid is not None:
            self._tree.call(event.pid, event.process)
        moved = self._heartbeats.is_news(event)
        if step != self._step:
            # A request that fails because the server goes down is no step forward.
            served = self._step in _AT_WORK
            self._step, self._step_at = step, self._clock
            self._heartbeats.new_step()
            self._bar.restart()
            if not served:
                self.last_stall.forget()
                if step in _AT_WORK:
                    # It got ready without those that ended on the way.
                    self._tree.dead.clear()
            moved = True
        if event.bar is not None:
            moved = self._bar.feed(self._clock, event.bar)
            if moved:
                self.last_stall.forget()
        if moved or self._line_at is None:
            self._line_at = self._clock
            self._serving.line(self._clock)

    def sample(self, sample: Sample) -> None:
        """Take a measurement."""
        self._advance(sample.t)
        if sample.asked:
            self.last_stall.ask(self._clock, self.verdict())
        elif sample.stacks:
            self._stacks = sample.stacks
        self._gpus.feed(self._clock, sample.gpus, set(self._tree.pulses))
        self._serving.sample(sample, self._clock, self._heartbeats.requests)
        if sample.host is not None and sample.host.tree:
            self._measured, self._host = self._clock, sample.host
            self._tree.feed(self._clock, sample.host)
            self._download.feed(self._clock, sample.host.downloading)
            self._network.feed(self._clock, sample.host)
            now = self.verdict()
            self.last_stall.feed(now, self._clock, self._tree, self._last_line)
            if self.last_stall.motion is None:
                self._stacks = ()

    def _advance(self, t: float) -> None:
        # The clock of all marks: it does not count the time in which nobody looked.
        self._clock += min(max(0.0, t - self._t), _GAP)
        self._t = max(self._t, t)

    # ------------------------------------------------------------------ answers

    def verdict(self) -> Motion | None:
        """Whether the server moves; None before anything was measured or printed at a known time."""
        if self._line_at is None and self._measured is None:
            return None
        if not self._sees():
            return self._by_lines()
        # A server that was there before we came: nobody saw its start.
        at_work = self._step in _AT_WORK or (self._step is None and self._tree.has_engine)
        return self._stopped() or (self._at_work() if at_work else self._starting())

    def final(self, asked: bool) -> Motion | None:
        """The verdict at the end of the child; where somebody asked for the end, the stall that he ended.

        Whoever is told to stop says a few more words: that is no movement of the start.
        """
        if asked and (stall := self.last_stall.at_end(self._clock)):
            return stall
        now = self.last_stall.asked[1] if asked and self.last_stall.asked else self.verdict()
        wanted = ("stalled", "slow") if asked else ("stalled",)
        return now if now is not None and now.state in wanted else None

    @property
    def frames(self) -> str:
        """Function names of the processes that are stuck, innermost first, one a line; empty when none were taken."""
        stall = self.last_stall.motion
        return innermost(self._stacks, stall.pid if stall else None)

    @property
    def file_lock(self) -> str | None:
        """The frame in which a stuck process waits for a file lock."""
        return file_lock(self._stacks)

    # ------------------------------------------------------------------ what is seen

    def _sees(self) -> bool:
        """Whether the processes of the server are before our eyes: not those of Ray, a container or another host."""
        if self._measured is None or self._clock - self._measured > _STALE or not self._tree.is_server:
            return False
        if self._step is None and not self._tree.is_vllm:
            return False
        return self._tree.is_whole

    def _limit(self) -> limits.Patience:
        return limits.patience(self._step, self._stall_after)

    def _dead(self, quiet: float) -> Motion | None:
        """An engine or a rank is gone, and `quiet` for so long: what the others do brings the server no further."""
        if not self._tree.dead or quiet < (limits.DEAD if self._stall_after is None else self._stall_after):
            return None
        return self._stalled(dead_cause(self._tree), quiet, tuple(name for _, name in self._tree.named(None)))

    def _quiet_since(self, pulses: list[Pulse], *, processor: bool) -> float:
        """Last time that anything moved; use of the processor counts when `processor`."""
        marks = [0.0, self._line_at or 0.0, self._tree.changed_at]
        marks += [mark for mark in (self._gpus.memory_at, self._download.moved_at) if mark is not None]
        if self._step in HUB_STEPS and self.hub:
            marks.append(self._network.moved_at or 0.0)
        for pulse in pulses:
            marks += [pulse.moved_at, pulse.busy_at] if processor else [pulse.moved_at]
        return max(marks)

    # ------------------------------------------------------------------ verdicts

    def _by_lines(self) -> Motion:
        """Without a view of the processes: silence alone never proves a stall."""
        if self._step in _AT_WORK:
            return Motion(self._t, "progressing", self._step, 0.0, doing="serving")
        quiet = self._clock - (self._line_at or 0.0)
        state = "slow" if quiet >= self._limit().long else "progressing"
        return Motion(self._t, state, self._step, quiet, percent=self._bar.percent, eta=self._bar.left(self._clock))  # type: ignore[arg-type]

    def _stopped(self) -> Motion | None:
        """A stopped process stops all that wait for it, however busy they look."""
        found = stopped_cause(self._tree, self._clock, self._stall_after)
        return self._stalled(*found) if found else None

    def _at_work(self) -> Motion:
        """A server that is ready: only requests at hand of which nothing comes can be a stall."""
        if stall := self._dead(self._clock - self._tree.left_at):
            return stall
        quiet, limit = self._serving.quiet_for(self._clock), self._limit()
        if quiet is None:
            return self._deaf() or Motion(self._t, "progressing", self._step, 0.0, doing="serving")
        behind = limits.BEHIND_SERVING if self._stall_after is None else self._stall_after
        if standing := self._group(quiet, behind, limit.spin):
            return self._standing(standing, quiet)
        idle = self._clock - self._quiet_since(list(self._tree.pulses.values()), processor=True)
        if min(quiet, idle) >= limit.idle:
            return self._all_idle(min(quiet, idle))
        state = "slow" if quiet >= limit.long else "progressing"
        return Motion(self._t, state, self._step, quiet, doing="serving")  # type: ignore[arg-type]

    def _deaf(self) -> Motion | None:
        """A front end that answered before and no longer does, without being busy."""
        front = self._tree.front
        if front is None or self._serving.deaf_since is None:
            return None
        silent = self._clock - max(self._serving.deaf_since, front.busy_at)
        if silent < self._limit().idle:
            return None
        waiting = tuple(name for _, name in self._tree.named(front))
        return self._stalled(Cause("deaf", front), silent, waiting)

    def _starting(self) -> Motion:
        limit = self._limit()
        runtime = self._step is not None and phase_of(self._step) == "runtime"
        workers = self._tree.working(everybody=runtime)
        quiet = self._clock - self._quiet_since(workers, processor=False)
        if standing := self._group(quiet, limit.spin, limit.spin):
            return self._standing(standing, quiet)
        if stall := self._dead(quiet):
            return stall
        moved = self._quiet_since(workers, processor=True)
        if self._gpus.busy_at is not None and not self._gpus.full_for(self._clock):
            moved = max(moved, self._gpus.busy_at)
        elif self._gpus.full_for(self._clock) and not self._tree.groups():
            # One process that waits for its GPU to compute.
            moved = self._clock
        idle = self._clock - moved
        return self._all_idle(idle) if idle >= limit.idle else self._moving(idle)

    def _group(self, quiet: float, behind: float, spin: float) -> Standing | None:
        for ranks in self._tree.groups():
            full = self._gpus.full_for(self._clock) >= spin
            if found := group_cause(ranks, self._clock, quiet, behind, spin, self._step, full):
                return found
        return None

    def _standing(self, standing: Standing, quiet: float) -> Motion:
        pulse = standing.cause.pulse
        alone = self._clock - max(pulse.busy_at, pulse.moved_at) if pulse else quiet
        return self._stalled(standing.cause, alone, tuple(self._tree.name(p) for p in standing.waiting))

    def _all_idle(self, idle: float) -> Motion:
        broadcast = self._heartbeats.broadcast_wait
        cause = idle_cause(self._tree, self._step, self._host, self.hub, broadcast)
        if self._tree.groups() and self._gpus.full_for(self._clock) >= idle:
            # The ranks sleep until their GPUs are done, and these wait for each other.
            cause = Cause("collective", None)
        if cause.kind in ("download", "unknown") and file_lock(self._stacks):
            # From outside a wait for a lock looks like one for the network.
            cause = cause._replace(kind="lock")
        waiting = self._tree.named(cause.pulse) if cause.pulse else self._tree.named(None)
        return self._stalled(cause, idle, tuple(name for _, name in waiting))

    def _stalled(self, cause: Cause, seconds: float, waiting: tuple[str, ...]) -> Motion:
        name, pid = (self._tree.name(cause.pulse), cause.pulse.pid) if cause.pulse else (None, None)
        who = cause.name or name
        return Motion(self._t, "stalled", self._step, seconds, cause.kind, who, pid, waiting, percent=self._bar.percent)

    def _moving(self, idle: float) -> Motion:
        what = doing(self._tree, self._clock, self._step, self._is_downloading())
        rate = self._rate(what)
        ends = self._tree.deepest()
        pulse = ends[0] if len(ends) == 1 else None
        slow = self._is_slow(what, rate, idle)
        short = slow and is_short_of_memory(self._host)
        return Motion(
            self._t,
            "slow" if slow else "progressing",
            self._step,
            idle,
            "memory" if short else None,
            self._tree.name(pulse) if pulse else None,
            pulse.pid if pulse else None,
            doing=what,
            percent=self._bar.percent,
            rate=rate,
            eta=self._bar.left(self._clock),
        )

    def _is_downloading(self) -> bool:
        """Unfinished files grow, or the step waits for the hub and bytes arrive."""
        if self._download.rate > 0:
            return True
        if not self.hub or self._step not in HUB_STEPS or self._network.rate <= 0:
            return False
        unfinished = bool(self._host and self._host.downloading)
        return self._network.is_own or unfinished or self._step == "weight_load.download"

    def _rate(self, what: str) -> float | None:
        if what == "downloading":
            return max(self._download.rate, self._network.rate) or None
        if what != "reading":
            return None
        if self._clock - self._step_at < WINDOW:
            # What came before is not the weights.
            return None
        return sum(p.read_rate for p in self._tree.pulses.values() if not p.is_helper) or None

    def _is_slow(self, what: str, rate: float | None, idle: float) -> bool:
        limit, took = self._limit(), self._clock - self._step_at
        if idle >= limits.patience(self._step, self._stall_after).idle / 2:
            return True
        if what in ("reading", "downloading") and took >= _EARLY:
            if rate is None and what == "reading":
                # From the page cache, and from a file system in user space, nothing is counted as read: memory grows,
                # by what is read and by where it is copied to.
                rate = sum(p.growth_rate for p in self._tree.deepest())
            return (rate or 0.0) < (limits.SLOW_READ if what == "reading" else limits.SLOW_DOWNLOAD)
        return took >= limit.long
