"""Drives a search: one trial after the other on cleared ground, within the budget, each written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.launch.command import print_text, variables, words
from vdoctor.launch.options import OptionTable
from vdoctor.launch.secrets import hide
from vdoctor.launch.values import address, value
from vdoctor.live.session import Recorder
from vdoctor.live.watcher import Watcher
from vdoctor.model import Change, Finding, Fix, Launch, Report, Trial
from vdoctor.relaunch.book import Book, replay
from vdoctor.relaunch.canary import Prober
from vdoctor.relaunch.fresh import prepare
from vdoctor.relaunch.ground import Holder, holder, memory_back, memory_holders, memory_used
from vdoctor.relaunch.search import Moves, Search
from vdoctor.relaunch.steps import Candidate, Outcome, outcome_of
from vdoctor.relaunch.trial import attempt
from vdoctor.rulebase.schema import RuleBase

Text = Mapping[str, str]
_GIB = 1 << 30
PORT_FINDING = "api.port-in-use"

End = Literal["found", "exhausted", "max-trials", "budget"]


@dataclass(frozen=True, slots=True)
class Limits:
    """`trials`: at most so many starts; `timeout`: seconds for one; `budget`: seconds for all."""

    trials: int
    timeout: float
    budget: float


class Audience(Protocol):
    """Who follows the trials."""

    def begins(self, number: int, candidate: Candidate) -> None:
        """A trial is about to start."""

    def ended(self, number: int, trial: Trial, known: bool) -> None:
        """It is over; `known`: it was made before and not repeated."""

    def watcher(
        self, examination: Examination, recorder: Recorder, stop: Callable[[Examination, float], bool]
    ) -> Watcher:
        """Watches one trial."""


class Driver:
    """Runs the trials of one search."""

    def __init__(
        self,
        search: Search,
        book: Book,
        rules: RuleBase,
        options: OptionTable,
        version: str | None,
        env: Mapping[str, str],
        limits: Limits,
        audience: Audience,
        *,
        measure: bool = False,
    ) -> None:
        self._search = search
        self._book = book
        self._rules = rules
        self._options = options
        self._version = version
        self._env = env
        self._limits = limits
        self._audience = audience
        self._measure = measure
        self._number = 0
        self._started = 0
        self.trials: list[Trial] = []
        self.reports: dict[tuple[str, ...], Report] = {}

    def run(self) -> End:
        """Drive the search to its end or to that of the budget. Raises KeyboardInterrupt when the user ended a trial,
        CannotStart, and UserError when a trial cannot be recorded."""
        self._begun = time.monotonic()
        self._memory = memory_used()
        self._expected = dict(self._memory)
        end = self._drive(self._search.moves(), limited=True)
        # What is proven is proven: the limits are no reason to leave that open.
        self._drive(self._search.control(measure=self._measure), limited=False)
        return "found" if self._search.found is not None and end == "exhausted" else end

    def _drive(self, moves: Moves, *, limited: bool) -> End:
        try:
            candidate = next(moves)
            while True:
                outcome = self._known(candidate)
                if outcome is None:
                    left = self._limits.budget - (time.monotonic() - self._begun)
                    if limited and self._started >= self._limits.trials:
                        return "max-trials"
                    if limited and left <= 0:
                        return "budget"
                    outcome = self._start(
                        candidate, min(self._limits.timeout, left) if limited else self._limits.timeout
                    )
                candidate = moves.send(outcome)
        except StopIteration:
            return "exhausted"

    def _known(self, candidate: Candidate) -> Outcome | None:
        """The outcome of a trial that an earlier run made and recorded."""
        trial = self._book.get(candidate.key)
        if trial is None or trial.session is None:
            return None
        try:
            report = replay(self._book.folder / trial.session, self._rules, self._options)
        except UserError:
            return None
        self._number += 1
        self._keep(candidate, replace(trial, command=print_text(candidate.launch)), report, known=True)
        return outcome_of(report, trial.verdict, trial.seconds)

    def _start(self, candidate: Candidate, timeout: float) -> Outcome:
        self._number += 1
        self._audience.begins(self._number, candidate)
        excess = self._wait_for_memory()
        place = address(candidate.launch, self._options, self._version)
        taken = holder(place)
        if taken is not None:
            return self._refused(candidate, taken)
        self._started += 1
        if not candidate.launch.container:
            prepare(candidate.fix.change)
        folder = self._book.new_folder()
        recorder = Recorder(folder, hide(words(candidate.launch)), dict(_shown(candidate.launch)), {})
        first = self._search.first
        failure = first.findings[0] if first.findings else None
        try:
            result = attempt(
                candidate.launch,
                candidate.fix,
                failure,
                self._env,
                lambda examination, stop: self._audience.watcher(examination, recorder, stop),
                Examination(self._rules, self._options, candidate.launch),
                timeout=timeout,
                prober=Prober(place, self._key(candidate.launch), load=self._measure),
                came=first.came,
                served=first.served,
            )
        except BaseException:
            recorder.close(None, {"id": "", "kind": "crash", "note": "the trial was cut off"})
            raise
        recorder.close(result.exit, {"id": result.trial.finding or "", "kind": "trial", "note": result.trial.verdict})
        if result.interrupted:
            raise KeyboardInterrupt
        trial = replace(result.trial, session=str(folder.relative_to(self._book.folder)))
        if excess:
            trial = replace(trial, reason=_joined(trial.reason, _held(excess)))
        # What the budget cut short may still work: another run tries it again.
        if not (trial.verdict == "timed out" and timeout < self._limits.timeout):
            self._book.add(candidate.key, replace(trial, command=" ".join(hide(trial.command.split(" ")))))
        self._keep(candidate, trial, result.report, known=False)
        return result.outcome

    def _wait_for_memory(self) -> dict[int, int]:
        """Bytes by GPU that did not come back. What somebody took for good is waited for only once."""
        for gpu, held in memory_back(self._expected).items():
            self._expected[gpu] += held
        return memory_back(self._memory, 0.0)

    def _keep(self, candidate: Candidate, trial: Trial, report: Report, *, known: bool) -> None:
        self.trials.append(trial)
        self.reports[candidate.key] = report
        self._audience.ended(self._number, trial, known)

    def _refused(self, candidate: Candidate, taken: Holder) -> Outcome:
        """A stranger holds the port: nothing is started, and the stranger is left alone."""
        same = self._search.first.finding == PORT_FINDING
        reason = port_reason(taken)
        trial = Trial(
            candidate.fix.id,
            candidate.fix.change,
            print_text(candidate.launch),
            "same failure" if same else "other failure",
            0.0,
            PORT_FINDING,
            forward=False,
            reason=reason,
        )
        self.trials.append(trial)
        self._audience.ended(self._number, trial, False)
        return Outcome(trial.verdict, (port_finding(taken),), {}, -1, 0.0)

    def _key(self, launch: Launch) -> str | None:
        given = value(launch, "--api-key", self._options, self._version)
        return (
            given if isinstance(given, str) else variables(launch).get("VLLM_API_KEY") or self._env.get("VLLM_API_KEY")
        )


def port_reason(taken: Holder) -> Text:
    """`port 8000 is held by python (pid 4711)`."""
    who = f"{taken.name or 'a process'} (pid {taken.pid})" if taken.pid is not None else "a process of another user"
    whose = f"{taken.name or '进程'} (pid {taken.pid})" if taken.pid is not None else "其他用户的进程"
    return {
        "en": f"not started: port {taken.port} is held by {who}, which is left alone",
        "zh": f"未启动：端口 {taken.port} 被 {whose} 占用，vdoctor 不会动它",
    }


def port_finding(taken: Holder) -> Finding:
    """The finding that a server on this port would give, with a port that is free."""
    fixes = () if taken.free is None else (Fix("next-port", {}, "lossy", Change({"--port": str(taken.free)})),)
    title = {"en": f"port {taken.port} is taken", "zh": f"端口 {taken.port} 已被占用"}
    return Finding(PORT_FINDING, PORT_FINDING, title, title, "fatal", "certain", "launch", None, (), (), fixes, ())


def _held(excess: Mapping[int, int]) -> Text:
    """Memory that did not come back in time: a result with less room than there should be."""
    rows = [(gpu, held / _GIB, ", ".join(memory_holders(gpu)) or None) for gpu, held in sorted(excess.items())]
    return {
        "en": ", ".join(
            f"GPU {gpu} held {held:.1f} GiB more than before the trials"
            + (f" (now on it: {who}; left alone)" if who else "")
            for gpu, held, who in rows
        ),
        "zh": "，".join(
            f"GPU {gpu} 比验证前多占 {held:.1f} GiB" + (f"（当前占用者：{who}；vdoctor 不会动它）" if who else "")
            for gpu, held, who in rows
        ),
    }


def _joined(*texts: Text | None) -> Text:
    return {lang: "; ".join(text[lang] for text in texts if text) for lang in ("en", "zh")}


def _shown(launch: Launch) -> list[tuple[str, str]]:
    hidden = hide([f"{name}={text}" for name, text in launch.env])
    return [(name, word.partition("=")[2]) for (name, _), word in zip(launch.env, hidden, strict=True)]
