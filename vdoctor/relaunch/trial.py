"""One relaunch with one change: does the server get ready now?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vdoctor.diagnose import Examination
from vdoctor.launch.command import print_text, words
from vdoctor.live.watcher import Watcher
from vdoctor.model import Finding, Fix, Launch, Report, Trial

#: After "ready" the server must live so long: some die on their first scheduler step.
_SETTLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """A trial and the report on the relaunched server."""

    trial: Trial
    report: Report


def attempt(
    launch: Launch,
    fix: Fix,
    failure: Finding,
    env: Mapping[str, str],
    watcher_of: Callable[[Examination, Callable[[Examination, float], bool]], Watcher],
    examination: Examination,
    *,
    timeout: float,
) -> Attempt:
    """Run the changed `launch` until it is ready, fails, or `timeout` seconds have passed.

    `failure` is what the unchanged launch died of; `watcher_of` makes the watcher for an examination and
    a stop condition (so that the caller chooses what a person sees). The server is stopped afterwards;
    none of its processes is left. Raises CannotStart.
    """
    ready_at: list[float] = []

    def done(now: Examination, t: float) -> bool:
        if now.timeline.ready and not ready_at:
            ready_at.append(t)
        return t > timeout or (bool(ready_at) and t - ready_at[0] >= _SETTLE_SECONDS)

    watcher = watcher_of(examination, done)
    end = watcher.run(words(launch), {**env, **dict(launch.env)})
    report = watcher.report("trial")
    lived = bool(ready_at) and watcher.stop_reason
    seconds = ready_at[0] if lived else end.t
    if lived:
        verdict = "confirmed"
    elif watcher.stop_reason:
        verdict = "timed out"
    else:
        verdict = "same failure" if report.findings and report.findings[0].id == failure.id else "other failure"
    found = None if lived or not report.findings else report.findings[0].id
    trial = Trial(fix.id, fix.change, print_text(launch), verdict, seconds, found)  # type: ignore[arg-type]
    return Attempt(trial, report)


def with_trial(report: Report, failure: Finding, trial: Trial) -> Report:
    """The first report, with the trial; a fix that was seen to work makes the finding `confirmed`."""
    findings = tuple(
        replace(finding, confidence="confirmed") if finding is failure and trial.verdict == "confirmed" else finding
        for finding in report.findings
    )
    return replace(report, findings=findings, trials=(*report.trials, trial))
