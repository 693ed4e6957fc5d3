"""The report for a terminal. Everything from a log is shown as text, never as markup."""

from __future__ import annotations

import io
import shlex
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from vdoctor.intake.clean import clean
from vdoctor.model import Change, Finding, Fix, Report
from vdoctor.report import ledger
from vdoctor.report.fact_words import place
from vdoctor.report.json import pick
from vdoctor.report.motion import motion_line
from vdoctor.report.proof import is_gone, proof_lines
from vdoctor.report.unseen import unseen_lines
from vdoctor.report.words import word

_STYLES = {
    "failed": "bold red",
    "stalled": "bold yellow",
    "degraded": "bold yellow",
    "incomplete": "bold yellow",
    "healthy": "bold green",
    "not_vllm": "bold yellow",
}
_MARKS = {"failed": "✗", "stalled": "◼", "degraded": "!", "incomplete": "…", "healthy": "✓", "not_vllm": "?"}
_BAR_WIDTH = 28
_MAX_EVIDENCE = 240


class Shown(Text):
    """Text of a log, a session or a rule: whatever is in it, no control sequence reaches the terminal."""

    def __init__(self, text: str = "", style: str = "") -> None:
        super().__init__(clean(text), style)

    def append(self, text: Text | str, style: str | Style | None = None) -> Shown:
        """Add text behind what is there."""
        super().append(clean(text) if isinstance(text, str) else text, style)
        return self


def render(report: Report, *, lang: str = "en", color: bool = False, width: int = 100, verbose: bool = False) -> str:
    """The whole report as text with a final newline."""
    console = Console(
        file=io.StringIO(),
        width=max(width, 40),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        legacy_windows=False,
    )
    _head(console, report, lang)
    # What was proven takes the place of what might help; before and after stand beside each other there.
    brief = report.proof is not None and not verbose
    shown = replace(report, findings=tuple(replace(one, fixes=()) for one in report.findings)) if brief else report
    _body(console, shown, lang, verbose)
    if report.phases and not brief:
        _timeline(console, report, lang)
    if report.memory and not brief:
        _memory(console, report, lang)
    if report.trials:
        _trials(console, report, lang)
    if report.not_evaluated and (verbose or report.source.kind == "check"):
        _undecided(console, report, lang)
    out = console.file
    assert isinstance(out, io.StringIO)
    # rich pads wrapped lines to the full width: nobody wants that in a ticket.
    return "".join(line.rstrip(" ") + "\n" for line in out.getvalue().rstrip("\n").split("\n"))


def _head(console: Console, report: Report, lang: str) -> None:
    checked = report.source.kind == "check"
    said = word(_checked(report) if checked else report.verdict, lang)
    head = Shown(f"{_MARKS[report.verdict]} {said}", style=_STYLES[report.verdict])
    if report.phase and not checked:
        head.append(
            f" {word('in', lang)} {report.step or report.phase}"
            if lang == "en"
            else f"，{word('in', lang)} {report.step or report.phase}"
        )
    parts = []
    if "vllm.version" in report.facts:
        parts.append(
            f"vLLM {report.facts['vllm.version'].value}" + (f" {report.generation}" if report.generation else "")
        )
    if "model.name" in report.facts:
        parts.append(str(report.facts["model.name"].value))
    if report.exit is not None and report.exit.asked is None:
        parts.append(word("exit", lang).format(status=report.exit.status))
        if report.exit.signal:
            parts.append(word("killed_by", lang).format(signal=report.exit.signal))
    if parts:
        head.append("  ·  " + "  ·  ".join(parts), style="dim")
    console.print(head, overflow="fold")
    if report.motion is not None and report.motion.state != "progressing":
        console.print(Shown(motion_line(report.motion, lang)))
    for line in unseen_lines(report, lang):
        console.print(Shown(line, style="dim"))
    if report.looks_like:
        console.print(Shown(word("looks_like", lang).format(what=report.looks_like)))


def _checked(report: Report) -> str:
    """The word for the verdict of a look: no more certain than what was found, or than what could be looked at."""
    if report.verdict == "healthy" and report.not_evaluated:
        return "check_partly"
    if report.verdict == "failed" and all(one.confidence != "certain" for one in report.findings):
        return "check_likely"
    return f"check_{report.verdict}"


def _body(console: Console, report: Report, lang: str, verbose: bool) -> None:
    if not report.findings:
        if key := _silence(report):
            console.print(Shown(word(key, lang)))
        return
    first, *others = report.findings
    _finding(console, first, lang, verbose)
    if others:
        # What a look found has no order of cause and effect: all of it must be mended.
        checked = report.source.kind == "check"
        if not checked:
            console.print()
            console.print(Shown(word("also", lang), style="bold"))
        for finding in others:
            if verbose or checked:
                _finding(console, finding, lang, verbose)
            else:
                line = Shown("  ")
                line.append(pick(finding.title, lang))
                line.append(f"  {finding.id} · {word(finding.confidence, lang)}", style="dim")
                if finding.evidence:
                    line.append(f" · {_at(finding.evidence[0].line, lang)}", style="dim")
                console.print(line)


def _silence(report: Report) -> str:
    """The word for a report without findings."""
    if report.verdict == "healthy":
        # The head of a check says so already, and more exactly.
        return "" if report.source.kind == "check" else "nothing_wrong"
    if report.exit is not None and report.exit.signal == "SIGKILL" and report.exit.asked is None:
        return "sigkill"
    return "no_rule" if report.verdict in ("failed", "stalled", "incomplete") else ""


def _finding(console: Console, finding: Finding, lang: str, verbose: bool) -> None:
    console.print()
    title = Shown(pick(finding.title, lang), style="bold")
    title.append(f"  {finding.id} · {word(finding.confidence, lang)}", style="not bold dim")
    console.print(title)
    console.print(Padding(Shown(pick(finding.why, lang)), (0, 0, 0, 2)))
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for evidence in finding.evidence[: None if verbose else 2]:
        text = evidence.text if verbose or len(evidence.text) <= _MAX_EVIDENCE else evidence.text[:_MAX_EVIDENCE] + " …"
        where = _at(evidence.line, lang) if evidence.line else place(evidence.process or "", lang)
        rows.add_row(word("proof", lang), Shown(f"{where}: {text}"))
    if finding.symptoms:
        rows.add_row(word("explains", lang), Shown(", ".join(finding.symptoms)))
    if rows.row_count:
        console.print(Padding(rows, (0, 0, 0, 2)))
    for number, fix in enumerate(finding.fixes, 1):
        _fix(console, number, fix, lang)
    if verbose:
        for reference in finding.references:
            console.print(Padding(Shown(reference, style="dim"), (0, 0, 0, 2)))
        console.print(Padding(Shown(word("more", lang).format(rule=finding.rule), style="dim"), (0, 0, 0, 2)))


def _fix(console: Console, number: int, fix: Fix, lang: str) -> None:
    line = Shown()
    line.append(f"{word('fix', lang)} {number}", style="green")
    line.append(f" ({word(fix.safety, lang)}): {pick(fix.title, lang)}")
    console.print(Padding(line, (0, 0, 0, 2)))
    if fix.cost:
        console.print(Padding(Shown(f"{word('price', lang)}: {pick(fix.cost, lang)}", style="dim"), (0, 0, 0, 4)))
    if fix.command:
        # Commands are pasted: one line, never wrapped or cut by us.
        console.print(Shown(f"    {fix.command}", style="cyan"), soft_wrap=True)
    elif fix.change:
        console.print(Shown(f"    {describe(fix.change, lang)}", style="cyan"), soft_wrap=True)


def describe(change: Change, lang: str = "en") -> str:
    """A change as fragments to type: `NCCL_P2P_DISABLE=1  --max-model-len 8192  without --quantization`."""
    parts: list[str] = []
    gone: list[str] = []
    for name, setting in change.env.items():
        parts.append(f"unset {name}" if setting is None else f"{name}={shlex.quote(setting)}")
    for name, option in change.container.items():
        parts.append(name if option is True else f"{name}={option}")
    for name, value in change.flags.items():
        if value is None:
            gone.append(name)
        else:
            parts.append(name if value is True else f"{name} {shlex.quote(str(value))}")
    if gone:
        parts.append(f"{word('without', lang)} {' '.join(gone)}")
    return "  ".join(parts)


def _at(line: int, lang: str) -> str:
    return f"第 {line} 行" if lang == "zh" else f"line {line}"


def _timeline(console: Console, report: Report, lang: str) -> None:
    """One row a phase: start, duration, bar."""
    known = [phase for phase in report.phases if phase.start is not None]
    if not known:
        return
    total = report.elapsed or 0.0
    ready = next((s.start for s in report.timeline if s.step == "runtime.ready" and s.start is not None), None)
    console.print()
    label = word("total", lang) if ready is not None else word("so_far", lang)
    console.print(
        Shown(f"{word('timeline', lang)} ({label}: {ready if ready is not None else total:.1f} s)", style="bold")
    )
    span = ready if ready else total
    # The figures take 42 columns; what is left of a narrow terminal is the bar's.
    room = max(0, min(_BAR_WIDTH, console.width - 43))
    for phase in known:
        start = phase.start or 0.0
        end = phase.end if phase.end is not None else min(span, total) if phase.phase == "runtime" else total
        took = max(0.0, end - start)
        # Logs that were put together run backwards: a phase may begin before the first line.
        left = min(room, max(0, round(room * start / span))) if span else 0
        size = max(1, round(room * took / span)) if span else 1
        bar = " " * left + "━" * max(1, min(size, room - left)) if room else ""
        name = f"  {phase.phase}" + " " * max(1, 16 - cell_len(phase.phase))
        console.print(Shown(f"{name}{start:8.1f} s {took:8.1f} s  ").append(bar, style="blue"))


def _memory(console: Console, report: Report, lang: str) -> None:
    rows = ledger.lines(report.memory, lang)
    parted = bool(rows)
    log = report.memory.get("log")
    if log and not parted:
        rows.append("  " + "  ".join(f"{name} {value:.2f}" for name, value in log.items() if isinstance(value, float)))
    for gpu in report.memory.get("gpus", []):
        peak, total = gpu.get("used_peak"), gpu.get("total")
        if peak is not None and total is not None and not parted:
            name = f"GPU {gpu['index']} {gpu.get('name') or ''}".rstrip()
            rows.append("  " + word("gpu_row", lang).format(name=name, used=gpu.get("used"), peak=peak, total=total))
    host = report.memory.get("host")
    if host:
        rows.append("  " + word("host_row", lang).format(peak=host["rss_peak"]))
    if rows:
        console.print()
        console.print(Shown(word("memory", lang), style="bold"))
        for row in rows:
            console.print(Shown(row))


def _trials(console: Console, report: Report, lang: str) -> None:
    console.print()
    console.print(Shown(word("trials", lang), style="bold"))
    for number, trial in enumerate(report.trials, 1):
        style = "green" if trial.verdict == "confirmed" else "red"
        line = Shown(f"  {number}. ")
        line.append(word(trial.verdict, lang), style=style)
        line.append(f" ({trial.seconds:.1f} s): {describe(trial.change, lang) or word('unchanged', lang)}")
        if trial.verdict == "other failure":
            moved = f" ({word('forward' if trial.forward else 'sideways', lang)})" if trial.forward is not None else ""
            line.append(f" -> {trial.finding or trial.step or '?'}{moved}")
        if trial.reason:
            line.append(f"; {pick(trial.reason, lang)}")
        console.print(line)
        if trial.verdict == "confirmed" and report.proof is None and not is_gone(report):
            console.print(Shown(f"    {trial.command}", style="cyan"), soft_wrap=True)
    if is_gone(report):
        console.print(Shown(f"  {word('gone', lang)}"))
    styles = {"title": "bold green", "command": "cyan", "minus": "red", "plus": "green", "plain": ""}
    if report.proof is not None:
        console.print()
    for style, text in proof_lines(report, lang):
        console.print(Shown(text, style=styles[style]), soft_wrap=True)


def _undecided(console: Console, report: Report, lang: str) -> None:
    console.print()
    reasons = dict.fromkeys(one.reason for one in report.not_evaluated if one.reason)
    for reason in reasons:
        console.print(Shown(f"{word('not_looked_at', lang)}: {reason}", style="dim"))
    if not reasons:
        facts = sorted({name for one in report.not_evaluated for name in one.missing})
        text = word("missing_facts", lang).format(count=len(report.not_evaluated), facts=", ".join(facts))
        console.print(Shown(text, style="dim"))
