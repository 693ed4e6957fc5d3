"""The core in one place: observations + facts + rules -> report.

`Examination` is fed as observations come and can be asked at any time. Live watching, a saved log,
a session and a fixture differ only in where the observations come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vdoctor.facts.derive import derive, generation
from vdoctor.facts.launch import launch_facts
from vdoctor.facts.log import LogFacts
from vdoctor.facts.motion import motion_facts, needs_hub
from vdoctor.facts.progress import ProgressFacts
from vdoctor.facts.ticket import TicketFacts, together
from vdoctor.facts.unknown_options import unknown_options
from vdoctor.facts.watched import WatchedFacts
from vdoctor.intake.reader import EventReader
from vdoctor.launch import command as commands
from vdoctor.launch.options import OptionTable
from vdoctor.model import (
    Event,
    Exit,
    Fact,
    Facts,
    Finding,
    Launch,
    Line,
    Motion,
    Observation,
    Report,
    Sample,
    Source,
    Traceback,
    Verdict,
    phase_of,
)
from vdoctor.rulebase import ends
from vdoctor.rulebase.forecast import weighed
from vdoctor.rulebase.match import Hit, Matcher
from vdoctor.rulebase.place import place_of, where
from vdoctor.rulebase.rank import Match, evaluate, rank
from vdoctor.rulebase.remedies import with_commands
from vdoctor.rulebase.schema import RuleBase
from vdoctor.rulebase.unknown import nearest_rule, root_traceback, unknown_finding
from vdoctor.startup.ledger import Ledger
from vdoctor.startup.markers import step_of_stack
from vdoctor.startup.outcome import Outcome
from vdoctor.startup.progress import Progress
from vdoctor.startup.stranger import Stranger
from vdoctor.startup.timeline import Timeline

#: Rules on what Kubernetes tells of a server's end, behind its own last words -> whether they are about one that served.
_TOLD_BEHIND = {"proc.probe-serving": True, "proc.terminated-probe": False}


class Examination:
    """One server under examination."""

    def __init__(
        self,
        rules: RuleBase,
        options: OptionTable,
        launch: Launch | None = None,
        facts: Facts | None = None,
        stall_after: float | None = None,
    ) -> None:
        """`stall_after`: seconds without movement that make a stall, in place of those of each step."""
        self._rules = rules
        self._options = options
        self._launch = launch
        self._given = dict(facts or {})
        self._reader = EventReader()
        self._matcher = Matcher(rules)
        self._log_facts = LogFacts()
        self._progress = ProgressFacts()
        self._motion = Progress(stall_after)
        self._ticket_facts = TicketFacts()
        self._outcome = Outcome()
        self._stranger = Stranger()
        self._watched = WatchedFacts()
        self._starts = 0
        self._start_line = 0
        self.timeline = Timeline()
        self.ledger = Ledger(self.timeline)
        self.exit: Exit | None = None

    def feed(self, observations: Iterable[Observation]) -> list[Event]:
        """Take the next observations in order; returns the events read from them."""
        events: list[Event] = []
        for observation in observations:
            if isinstance(observation, Line):
                self._watched.arrived = observation.arrived
                for event in self._reader.read((observation,)):
                    self._take(event)
                    events.append(event)
                    if observation.arrived is not None:
                        self._motion.line(event, observation.arrived, self.timeline.furthest)
            elif isinstance(observation, Sample):
                self.ledger.feed(observation)
                orderly = self.timeline.shutdown_line is not None and not self._died(True)
                self._watched.feed(observation, orderly=orderly)
                if self._motion.step != self.timeline.furthest or not self._motion.is_measured:
                    self._motion.hub = needs_hub(self.launch(), self._options)
                self._motion.sample(observation)
            else:
                self.exit = observation
        return events

    def watched(self) -> tuple[EventReader, Matcher, ProgressFacts, Stranger]:
        """What a sieve asks, besides the timeline, before it leaves a line out."""
        return self._reader, self._matcher, self._progress, self._stranger

    def glance(self, event: Event) -> None:
        """A line of statistics that a sieve leaves out: only what follows the load over time is told of it."""
        self._progress.feed(event)
        self._watched.glance(event)

    def _take(self, event: Event) -> None:
        self.timeline.feed(event)
        if self.timeline.starts != self._starts:
            self._starts = self.timeline.starts
            self.timeline.broken = False
            if self._starts > 1:
                self._outcome.restart()
                self._log_facts.restart()
                self._watched.restart()
                self._start_line = event.line
        self._log_facts.feed(event)
        self._progress.feed(event)
        self._ticket_facts.feed(event)
        self._watched.feed_event(event, ready=self.timeline.ready)
        self._outcome.feed(event)
        self.timeline.broken = self.timeline.broken or self._outcome.is_broken
        self._stranger.feed(event)
        self._matcher.feed(event, lambda: place_of(event, self._reader, self.timeline))

    # ------------------------------------------------------------------ answer

    @property
    def ready(self) -> bool:
        """The log says that the server is ready, or /health does."""
        return self.timeline.ready or self._watched.answers

    @property
    def motion(self) -> Motion | None:
        """Hung, slow, or on its way; None when nothing was measured. After the end: how it stood, if not well."""
        if self.exit is None:
            return self._motion.verdict()
        return self._motion.final(self.exit.asked is not None)

    def report(self, source: Source) -> Report:
        """The report on what was seen so far."""
        launch = self.launch()
        facts = self._facts(launch)
        matches, undecided = evaluate(self._rules, self._current(), facts, self._derive)
        kept = weighed(matches, self.timeline.furthest, self.timeline.served, self._outcome.is_death)
        findings = rank(kept, apart=source.kind == "check")
        verdict = self._verdict(findings)
        if verdict == "failed" and not any(self._is_shown(f) for f in findings):
            findings = self._with_unknown(findings)
        if verdict in ("incomplete", "stalled") and self._may_guess():
            extra = self._ends(findings, facts)
            # A stall says more than a remark of the same name.
            told = {finding.id for finding in extra}
            remarks = [f for f in findings if f.severity == "info" and f.id not in told]
            findings = [f for f in findings if f.severity != "info"] + extra + remarks
        # The failure of an earlier start says nothing about the command of the last one.
        own = launch if self._launch is not None or not self._is_earlier() else None
        findings = [with_commands(f, own, facts, self._options) for f in findings]
        first = findings[0] if findings else None
        phase, step = where(verdict, first, first is not None and self._is_wrapper(first), self.timeline.furthest)
        return Report(
            source=source,
            verdict=verdict,
            phase=phase,
            step=step,
            findings=tuple(findings),
            not_evaluated=tuple(undecided),
            timeline=self.timeline.spans(),
            phases=self.timeline.phases(),
            facts=facts,
            elapsed=self.exit.t if self.exit else self.timeline.elapsed(self.motion.t if self.motion else None),
            generation=generation(facts, self.timeline.v2_runner_seen),
            command=tuple(commands.print_words(launch)) if launch else None,
            memory=self.ledger.memory(facts),
            looks_like=self._stranger.guess() if verdict == "not_vllm" else None,
            exit=self.exit,
            motion=self.motion,
        )

    def launch(self) -> Launch | None:
        """The start command: given, typed in the log, or rebuilt from vLLM's printed arguments."""
        if self._launch is not None and commands.editable(self._launch):
            return self._launch
        if self._log_facts.command:
            return commands.parse_text(self._log_facts.command)
        if self._log_facts.arguments:
            return commands.from_arguments(self._log_facts.arguments)
        # A start script: it can be shown, not edited.
        return self._launch

    def _facts(self, launch: Launch | None) -> dict[str, Fact]:
        asked = launch_facts(launch, self._options) if launch else {}
        stated = self._log_facts.facts if self._is_earlier() else self._log_facts.current
        said = together(self._ticket_facts.facts, asked, stated)
        facts = self.ledger.facts() | said | self._progress.facts
        facts.update(motion_facts(self.motion, self._motion.frames, self._motion.file_lock))
        facts.update(self._watched.facts(self.exit, not self._outcome.is_death, self.motion))
        facts.update(self._given)
        if self.exit is not None and self.exit.asked is None:
            facts.setdefault("process.exit_code", Fact(self.exit.status, "exit"))
        return self._derive(facts)

    def _derive(self, facts: Facts) -> dict[str, Fact]:
        return derive(unknown_options(facts, self._options))

    def _current(self) -> list[Hit]:
        """Hits of the last start; of the one before when the last one shows no fault yet."""
        hits = self._matcher.hits if self._stranger.is_near or self.timeline.seen else []
        last = max((hit.start for hit in hits), default=0)
        if self.timeline.ready and last < self.timeline.starts:
            return []
        # What a server complains of when it is ended in the middle of a stall is no cause.
        until = self._motion.last_stall.line if self.exit is not None and self._is_stalled() else 1 << 60
        return [hit for hit in hits if hit.start in (last, 0) and hit.evidence.line <= until and self._counts(hit)]

    def _is_earlier(self) -> bool:
        """The faults shown are those of a start before the last one."""
        return 0 < max((hit.start for hit in self._current()), default=0) < self.timeline.starts

    def _counts(self, hit: Hit) -> bool:
        """What a server survived on its way to ready was no fault, and what dies after an orderly stop is noise."""
        severity, line, ready = hit.rule.severity, hit.evidence.line, self.timeline.ready_line
        if ready is not None and line < ready and (severity == "stall" or (severity == "fatal" and self._lives())):
            return False
        shutdown = self.timeline.shutdown_line
        if _TOLD_BEHIND.get(hit.rule.id, self.timeline.ready) is not self.timeline.ready:
            return False
        return severity == "info" or shutdown is None or line < shutdown or hit.rule.id in _TOLD_BEHIND

    def _lives(self) -> bool:
        """Ready, and no sign of death since: what looked fatal before was not."""
        ready = self.timeline.ready_line or 0
        ended = self.exit is not None and self.exit.status != 0 and self.exit.asked is None
        return not ended and (self._outcome.last_death_line or 0) < ready

    def _is_wrapper(self, finding: Finding) -> bool:
        rule = self._rules.get(finding.rule)
        return rule is not None and rule.wrapper

    def _is_shown(self, finding: Finding) -> bool:
        """A fault that answers what happened: no wrapper, no forecast from facts."""
        rule = self._rules.get(finding.rule)
        forecast = rule is not None and rule.preflight and not finding.evidence
        return finding.severity == "fatal" and not forecast and not self._is_wrapper(finding)

    def _verdict(self, findings: Sequence[Finding]) -> Verdict:
        grave = {finding.severity for finding in findings if finding.confidence != "possible"}
        ready = self.ready
        asked = self.exit is not None and self.exit.asked is not None
        if "fatal" in grave or (self.exit is not None and self.exit.status != 0 and not asked):
            return "failed"
        # A server that the user stops dies with tracebacks of its own making.
        if not asked and self._died(ready):
            return "failed"
        # What was ready and ended by itself, and up to then answered nobody, was not well.
        still = ready and self.motion is not None and self.motion.state == "stalled"
        if still or ("stall" in grave and not ready) or self._is_stalled():
            return "stalled"
        if ready:
            return "degraded" if grave & {"degraded", "stall"} else "healthy"
        if self.timeline.seen or findings or self._stranger.is_vllm:
            return "incomplete"
        return "not_vllm"

    def _is_stalled(self) -> bool:
        """Seen to stand still; a child that ended by itself got over it, one way or another."""
        by_itself = self.exit is not None and self.exit.asked is None
        motion = None if by_itself else self.motion
        return motion is not None and motion.state == "stalled"

    def _died(self, ready: bool) -> bool:
        if self._outcome.death_line is not None:
            shutdown = self.timeline.shutdown_line
            # Children that complain after an orderly shutdown began are noise.
            return shutdown is None or self._outcome.death_line < shutdown
        return self._outcome.traceback_line is not None and not ready and self._stranger.is_vllm

    def _tracebacks(self) -> list[Traceback]:
        """Tracebacks of the current start; those after which it went on were caught, unless all were."""
        current = [block for block in self._reader.tracebacks() if block.first_line >= self._start_line]
        after = [block for block in current if block.last_line >= self.timeline.progress_line]
        return after or current

    def _with_unknown(self, findings: list[Finding]) -> list[Finding]:
        root = root_traceback(self._tracebacks())
        if root is None or any(root.first_line <= e.line <= root.last_line for f in findings for e in f.evidence):
            return findings
        step = step_of_stack(root.frames) or self.timeline.furthest
        unknown = unknown_finding(root, phase_of(step) if step else None, step)
        rule = nearest_rule(self._rules, f"{root.exception}: {root.message}")
        if rule is not None:
            guess = rank([Match(rule, (), self._facts(self.launch()))])[0]
            unknown = replace(guess, confidence="possible", evidence=unknown.evidence, phase=unknown.phase, step=step)
        symptoms = tuple(f.id for f in findings if self._is_wrapper(f))
        rest = [f for f in findings if not self._is_wrapper(f)]
        return [replace(unknown, symptoms=symptoms), *rest]

    def _may_guess(self) -> bool:
        """Nobody ended it on purpose, or because it stood still; nobody saw what it does or waits for; and it is not
        known that it ended by itself: such a server does not hang.
        """
        if self.exit is not None and self.exit.asked is None and self._motion.saw_server:
            return False
        motion = self.motion
        if motion is not None and (motion.kind not in (None, "unknown") or motion.doing not in (None, "waiting")):
            return False
        return self.exit is None or self.exit.asked is None or self._is_stalled()

    def _ends(self, findings: Sequence[Finding], facts: Facts) -> list[Finding]:
        """A log that just stops: what hangs most often at this point."""
        matches = ends.matches(self._rules, self.timeline.furthest, self.timeline.last_marker, facts)
        known = {finding.id for finding in findings if finding.severity != "info"}
        extra = [finding for finding in rank(matches) if finding.id not in known]
        step = self.timeline.furthest
        phase = phase_of(step) if step else None
        return [replace(f, phase=phase or f.phase, step=step, confidence="possible") for f in extra]
