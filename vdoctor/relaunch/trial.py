"""One relaunch with one change: does the server get ready now, and does it answer?"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vdoctor.diagnose import Examination
from vdoctor.launch.command import environment, print_text, words
from vdoctor.launch.container import as_trial, removal
from vdoctor.live.watcher import Watcher
from vdoctor.model import Exit, Finding, Fix, Launch, Report, Trial
from vdoctor.relaunch.canary import Prober
from vdoctor.relaunch.load import Measured
from vdoctor.relaunch.steps import Outcome, TrialVerdict, furthest, outcome_of

#: After it answered, the server must live so long: some die on their first scheduler step.
SETTLE_SECONDS = 1.0

WatcherOf = Callable[[Examination, Callable[[Examination, float], bool]], Watcher]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A trial, the report on the relaunched server, and how it ended (`asked`: the user wanted an end)."""

    trial: Trial
    report: Report
    exit: Exit
    measured: Measured | None = None

    @property
    def outcome(self) -> Outcome:
        """What a search needs to know of it."""
        return outcome_of(self.report, self.trial.verdict, self.trial.seconds)

    @property
    def interrupted(self) -> bool:
        """The user ended it: it proves nothing."""
        return self.exit.asked not in (None, "stop")


class Duty:
    """Tells a watcher when the server has done what a trial wants of it."""

    def __init__(self, timeout: float, prober: Prober | None) -> None:
        self._timeout = timeout
        self._prober = prober
        self._passed_at: float | None = None
        self.ready_at: float | None = None
        self.failed = False
        self.stalled = False
        self.lived = False
        #: The time was up while it was asked for text.
        self.unanswered = False
        self.watcher: Watcher | None = None

    def done(self, now: Examination, t: float) -> bool:
        """Whether to stop the server: it passed and lives, it failed the canary, or its time is up.

        A trial that the user ends is stopped like any other: with a grace, and then for certain.
        """
        if self.watcher is not None and self.watcher.asked:
            return True
        if now.timeline.ready and self.ready_at is None:
            self.ready_at = t
        prober = self._prober
        if prober is None:
            if self.ready_at is not None and self._passed_at is None:
                self._passed_at = t
        else:
            if self.ready_at is not None:
                prober.told_ready.set()
            if prober.state == "failed":
                self.failed = True
                return True
            if prober.state in ("answered", "skipped") and self._passed_at is None:
                self._passed_at = t
                self.ready_at = t if self.ready_at is None else self.ready_at
        motion = now.motion
        if self._passed_at is None and motion is not None and motion.state == "stalled":
            # It was seen to hang: the rest of its time would tell no more.
            self.stalled = True
            return True
        self.lived = self._passed_at is not None and t - self._passed_at >= SETTLE_SECONDS
        if t > self._timeout and not self.lived:
            # What the canary hears from a server that is being stopped is not its answer.
            self.unanswered |= prober is not None and prober.asking and prober.state == "waiting"
            return True
        return self.lived


def attempt(
    launch: Launch,
    fix: Fix,
    failure: Finding | None,
    env: Mapping[str, str],
    watcher_of: WatcherOf,
    examination: Examination,
    *,
    timeout: float,
    prober: Prober | None = None,
    came: int = -1,
    served: bool = False,
) -> Attempt:
    """Run the changed `launch` until it is ready and answers, fails, or `timeout` seconds have passed.

    `failure` is what the unchanged launch died of, or suffers from where it `served`; `came` the index in STEPS of how far it came; `watcher_of` makes the
    watcher for an examination and a stop condition (so that the caller chooses what a person sees); without `prober` no
    completion is asked for. The server is stopped afterwards; none of its processes is left, and no container of it, which
    runs in the foreground under a name of its own. Raises CannotStart.
    """
    duty = Duty(timeout, prober)
    watcher = duty.watcher = watcher_of(examination, duty.done)
    if prober is not None:
        prober.start()
    try:
        name = f"vdoctor-trial-{uuid.uuid4().hex[:12]}"
        end = watcher.run(words(as_trial(launch, name)), environment(launch, env), removal(launch, name))
    finally:
        if prober is not None:
            prober.stop()
    report = watcher.report("trial")
    verdict = _verdict(duty, watcher.stop_reason, report, failure, served)
    found = None if verdict == "confirmed" or not report.findings else report.findings[0].id
    measured = prober.measured if prober is not None else None
    reason = prober.reason if prober is not None else None
    if duty.unanswered:
        reason = {"en": "ready, but a completion got no answer in time", "zh": "已就绪，但补全请求在限时内没有应答"}
    trial = Trial(
        fix.id,
        fix.change,
        print_text(launch),
        verdict,
        duty.ready_at if verdict == "confirmed" and duty.ready_at is not None else end.t,
        found,
        step=outcome_of(report, verdict, 0.0).step,
        forward=None if verdict == "confirmed" else furthest(report) > came,
        reason=reason,
        tokens_per_second=measured.tokens_per_second if measured else None,
        latency=measured.latency if measured else None,
    )
    return Attempt(trial, report, end, measured)


def _verdict(duty: Duty, stopped: bool, report: Report, failure: Finding | None, served: bool) -> TrialVerdict:
    if duty.lived and stopped:
        # Serving is no news where the first start did: what it suffered from must be gone.
        if served and failure is not None and any(finding.id == failure.id for finding in report.findings):
            return "same failure"
        return "confirmed"
    if stopped and not duty.failed and not duty.stalled:
        return "timed out"
    leading = report.findings[0].id if report.findings else None
    return "same failure" if failure is not None and leading == failure.id else "other failure"


def with_trial(report: Report, failure: Finding, trial: Trial) -> Report:
    """The first report, with the trial; a fix that was seen to work makes the finding `confirmed`."""
    findings = tuple(
        replace(finding, confidence="confirmed") if finding is failure and trial.verdict == "confirmed" else finding
        for finding in report.findings
    )
    return replace(report, findings=findings, trials=(*report.trials, trial))
