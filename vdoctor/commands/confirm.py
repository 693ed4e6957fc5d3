"""vdoctor confirm: relaunch a recorded failing launch with the smallest change that works, and prove it."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vdoctor.commands.config_file import with_config
from vdoctor.commands.confirming import Confirming
from vdoctor.commands.examine import check_output, emit, examine_session, render, tell, terminal_width, use_color
from vdoctor.commands.manifest import edit_manifest
from vdoctor.commands.place import at
from vdoctor.commands.privacy import redactor_for, tell_redaction
from vdoctor.commands.streams import draw, show
from vdoctor.commands.verdicts import concluded
from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.intake.clean import clean
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import editable, parse, print_text
from vdoctor.launch.config import path as config_path
from vdoctor.launch.container import dropped
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import address, value
from vdoctor.live.child import CannotStart
from vdoctor.live.packed import is_packed
from vdoctor.live.session import Recorder, Session, is_session
from vdoctor.live.watcher import Watcher
from vdoctor.model import Change, Launch, Report, Trial
from vdoctor.relaunch import fresh
from vdoctor.relaunch.book import Book
from vdoctor.relaunch.consent import Mode, permission, refusal
from vdoctor.relaunch.driver import PORT_FINDING, Driver, End, Limits, port_reason
from vdoctor.relaunch.ground import Holder, holder
from vdoctor.relaunch.search import Search
from vdoctor.relaunch.steps import Candidate, Outcome, Step, compose, hypotheses, outcome_of
from vdoctor.report.json import pick
from vdoctor.report.status import status_line
from vdoctor.report.text import describe
from vdoctor.report.words import word
from vdoctor.rulebase.schema import RuleBase
from vdoctor.store import load_rules

_INTERVAL = 0.5
_MAX_CONFIG = 4 << 20


def confirm(
    session: Path,
    wish: Confirming,
    *,
    manifest: Path | None = None,
    form: str,
    output: str | None,
    lang: str,
    rules: Sequence[Path],
    color: bool,
    verbose: bool,
    redact: bool | None = None,
) -> int:
    """Search for a change with which the launch of `session` works; 0 proven, 1 none proven.

    With a `manifest` nothing is started: the edit of that file for the first fix is printed."""
    if manifest is not None:
        return edit_manifest(session, manifest, wish.only, output, lang, load_rules(rules))
    if not is_session(session):
        raise UserError(f"{session}: is no session", "vdoctor watch -- COMMAND records one")
    if is_packed(session) and not wish.dry_run:
        raise UserError(
            f"{session}: is a packed session: what its command needs is hidden in it",
            "confirm the folder that vdoctor watch recorded",
        )
    check_output(output)
    report, proven = confirm_session(session, wish, lang=lang, rules=load_rules(rules))
    if report is not None:
        colored = use_color(color, sys.stdout.isatty()) and output in (None, "-")
        redactor, width = redactor_for(form, output, redact), terminal_width(1)
        emit(render([report], form, lang, color=colored, verbose=verbose, width=width, redactor=redactor), output)
        tell_redaction(redactor, lang)
    return 0 if proven else 1


def confirm_session(folder: Path, wish: Confirming, *, lang: str, rules: RuleBase) -> tuple[Report | None, bool]:
    """The report on a session with its trials, and whether a launch was proven; None for a plan (and whether there is one)."""
    options = option_tables.load()
    report = examine_session(folder, rules, options)
    if report.verdict in ("healthy", "not_vllm"):
        raise UserError(
            f"{folder}: shows no failing start of vLLM ({report.verdict})",
            "vdoctor analyze " + shlex.quote(str(folder)),
        )
    session = Session(folder)
    folder = folder.absolute()
    with at(session.cwd, lang):
        return _relaunched(folder, session, report, options, wish, lang, rules)


def _relaunched(
    folder: Path,
    session: Session,
    report: Report,
    options: OptionTable,
    wish: Confirming,
    lang: str,
    rules: RuleBase,
) -> tuple[Report | None, bool]:
    launch = parse([*(f"{name}={text}" for name, text in session.env.items()), *session.command])
    version = str(report.facts["vllm.version"].value) if "vllm.version" in report.facts else None
    launch = with_config(
        launch, options, version, lambda why: tell(f"vdoctor: {clean(why)}; its settings are not known\n")
    )
    served = report.verdict == "degraded"
    first = outcome_of(report, "other failure", report.elapsed or 0.0, served=served)
    why = refusal(launch)
    if why is not None:
        tell(f"vdoctor: {word('refused', lang).format(reason=pick(why, lang))}\n")
        if editable(launch):
            _plan(launch, first, options, version, wish, lang)
        return report, False
    if wish.dry_run:
        return None, _plan(launch, first, options, version, wish, lang)
    return _search(folder, report, launch, first, options, version, wish, lang, rules)


def confirm_after(folder: Path, report: Report, wish: Confirming, *, lang: str, rules: RuleBase, color: bool) -> None:
    """For `watch`: search after a start that failed, and tell the result on standard error."""
    if wish.mode == "never" or report.verdict not in ("failed", "stalled"):
        return
    if report.exit is not None and report.exit.asked is not None:
        return
    found, _ = confirm_session(folder, wish, lang=lang, rules=rules)
    if found is not None and found.trials:
        draw("\n" + render([found], "text", lang, color=color, verbose=False, width=terminal_width(2)))


def _search(
    folder: Path,
    report: Report,
    launch: Launch,
    first: Outcome,
    options: OptionTable,
    version: str | None,
    wish: Confirming,
    lang: str,
    rules: RuleBase,
) -> tuple[Report, bool]:
    can_ask = wish.mode == "ask" and sys.stdin.isatty() and sys.stderr.isatty()
    allowed = permission(wish.mode, (lambda step: _ask(step, lang)) if can_ask else None)
    base = _way_around(holder(address(launch, options, version)), first, wish.mode)
    book = Book(folder)
    cache = fresh.folder(os.environ, book.changes()) if not launch.container else None
    search = Search(launch, first, options, version, allowed=allowed, only=wish.only, base=base, cache=cache)
    limits = Limits(wish.max_trials, wish.trial_timeout, wish.budget * 60)
    driver = Driver(search, book, rules, options, version, os.environ, limits, _Screen(lang), measure=wish.measure)
    if goes_without := dropped(launch):
        told = word("trial_container", lang).format(options=" ".join(goes_without))
        tell(f"vdoctor: {told}\n")
    try:
        end = driver.run()
    except CannotStart as error:
        raise UserError(str(error), "run confirm where the command can be run") from None
    except KeyboardInterrupt:
        tell(f"\nvdoctor: {_go_on(folder, wish, lang)}\n")
        raise
    finally:
        if cache is not None:
            fresh.tidy(cache)
    report = concluded(report, search, driver, options, measured=wish.measure)
    _tell_rest(search, end, len(driver.trials), folder, wish, options, version, lang)
    return report, search.found is not None


def _way_around(taken: Holder | None, first: Outcome, mode: Mode) -> tuple[Step, ...]:
    """A port that a stranger holds now, though the start did not fail of it: another one for all trials, with `auto`."""
    if taken is None or first.finding == PORT_FINDING:
        return ()
    if mode != "auto" or taken.free is None:
        raise UserError(port_reason(taken)["en"], "end it yourself, or let --confirm auto take another port")
    cost = {"en": "Clients must use the new port.", "zh": "客户端要改用新端口。"}
    return (Step("next-port", Change({"--port": str(taken.free)}), "lossy", {}, cost, PORT_FINDING),)


def _plan(
    launch: Launch, first: Outcome, options: OptionTable, version: str | None, wish: Confirming, lang: str
) -> bool:
    """Print the commands that would be tried if each failed like the first; nothing is started. False for none."""
    search = Search(launch, first, options, version, allowed=lambda step: step.safety != "manual", only=wish.only)
    moves = search.moves()
    show(word("plan", lang).format(trials=wish.max_trials))
    for number in range(wish.max_trials):
        try:
            sent = Outcome("same failure", first.findings, first.facts, first.came)
            candidate = moves.send(sent) if number else next(moves)
        except StopIteration:
            return number > 0
        asks = any(step.safety != "safe" for step in candidate.steps) and wish.mode != "auto"
        show(f"  # {candidate.fix.id}" + (f" ({word('plan_asks', lang)})" if asks else ""))
        show(f"  {print_text(candidate.launch)}")
    return True


def _ask(step: Step, lang: str) -> bool:
    cost = pick(step.cost, lang) if step.cost else "-"
    tell(word("ask", lang).format(change=describe(step.change, lang), cost=cost))
    return sys.stdin.readline().strip().lower() in ("y", "yes", "是")


def _go_on(folder: Path, wish: Confirming, lang: str) -> str:
    """The command that goes on from here: what was allowed and asked for is so again; limits begin anew."""
    words = ["vdoctor", "confirm"]
    words += ["--confirm", wish.mode] if wish.mode != "ask" else []
    words += ["--measure"] if wish.measure else []
    words += [part for one in wish.only for part in ("--fix", one)]
    return word("resume", lang).format(command=clean(shlex.join([*words, str(folder)])))


def _tell_rest(
    search: Search,
    end: End,
    trials: int,
    folder: Path,
    wish: Confirming,
    options: OptionTable,
    version: str | None,
    lang: str,
) -> None:
    """What was not tried, and where to go on."""
    go_on = _go_on(folder, wish, lang)
    lines: list[str] = []
    if search.gone:
        lines.append(f"vdoctor: {word('gone', lang)}")
    elif search.found is None:
        lines.append(f"vdoctor: {word('none_proven', lang).format(trials=trials)}: {word('end_' + end, lang)}")
        if search.lead is not None and search.lead[1].came > search.first.came:
            candidate, outcome = search.lead
            lead = word("lead", lang).format(step=outcome.step)
            lines.append(f"  {lead} {describe(candidate.fix.change, lang)}")
        elif search.lead is not None:
            lines.append("  " + word("no_lead", lang).format(step=search.first.step or "launch"))
        if end in ("max-trials", "budget"):
            lines.append("  " + go_on)
        if wish.only and not trials:
            ids = dict.fromkeys(step.id for step in hypotheses(search.first))
            lines.append("  " + word("fix_ids", lang).format(ids=" ".join(ids) or "-"))
        if search.withheld:
            lines.append(f"  {word('withheld', lang)}:")
            for step in search.withheld:
                changed = compose(search.launch, (step,), options, version)
                cost = f"  # {word('price', lang)}: {pick(step.cost, lang)}" if step.cost else ""
                lines.append(f"    {print_text(changed) if changed else describe(step.change, lang)}{cost}")
    elif end in ("max-trials", "budget"):
        lines.append("vdoctor: " + word("found_early", lang).format(why=word("end_" + end, lang)))
        lines.append("  " + go_on)
    if search.found is None and (stuck := _in_file(search.launch, search.first, options, version)):
        file = config_path(search.launch, options, version)
        lines.append("  " + word("in_file", lang).format(file=clean(str(file)), options=" ".join(stuck)))
    if lines:
        tell("\n".join(lines) + "\n")


def _in_file(launch: Launch, first: Outcome, options: OptionTable, version: str | None) -> list[str]:
    """Options that fixes take away and that stand in the file of --config."""
    gone = [flag for step in hypotheses(first) for flag, setting in step.change.flags.items() if setting is None]
    return [flag for flag in dict.fromkeys(gone) if value(replace(launch, args=()), flag, options, version) is not None]


class _Screen:
    """Tells each trial on standard error."""

    def __init__(self, lang: str) -> None:
        self._lang = lang

    def begins(self, number: int, candidate: Candidate) -> None:
        """Name the change."""
        change = describe(candidate.fix.change, self._lang) or word("unchanged", self._lang)
        tell(word("trial_begins", self._lang).format(number=number, change=clean(change)) + "\n")

    def ended(self, number: int, trial: Trial, known: bool) -> None:
        """Tell what came of it."""
        text = word(trial.verdict, self._lang)
        if known:
            tell("vdoctor: " + word("trial_known", self._lang).format(number=number, verdict=text) + "\n")
            return
        rest = [part for part in (trial.finding, pick(trial.reason, self._lang) if trial.reason else None) if part]
        tell(f"  {text} ({trial.seconds:.1f} s)" + (f": {', '.join(rest)}" if rest else "") + "\n")

    def watcher(
        self, examination: Examination, recorder: Recorder, stop: Callable[[Examination, float], bool]
    ) -> Watcher:
        """One that keeps the server's output to itself."""
        return _Quiet(examination, recorder, stop)


class _Quiet(Watcher):
    """Shows phase, time and memory of a trial in one line, where a terminal is."""

    def __init__(
        self, examination: Examination, recorder: Recorder, stop: Callable[[Examination, float], bool]
    ) -> None:
        super().__init__(examination, recorder, interval=_INTERVAL, quiet=True, stop_when=stop)
        self._terminal = sys.stderr.isatty()
        self._drawn = 0.0

    def run(self, *arguments: Any) -> Any:
        """Watch to the end, and clear the line."""
        try:
            return super().run(*arguments)
        finally:
            if self._terminal:
                draw("\r\x1b[2K")

    def on_tick(self, t: float) -> None:
        """Redraw the line a few times a second."""
        if self._terminal and time.monotonic() - self._drawn > 0.25:
            self._drawn = time.monotonic()
            step = self.examination.timeline.furthest
            draw(f"\r\x1b[2K{status_line(step, t, self.last_sample, self.last_bar, terminal_width(2))}")
