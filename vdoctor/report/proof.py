"""The proof of a fix as text: the difference of the commands, before and after, the price."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from vdoctor.model import PHASES, PhaseTime, Proof, Report
from vdoctor.report.json import pick
from vdoctor.report.words import word


def words_diff(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    """(mark, words): what was taken out (`-`) and put in (`+`), in the order of the commands.

    An option stays beside its value: `-` `--max-model-len 65536`, `+` `--max-model-len 29952`.
    """
    from difflib import SequenceMatcher

    old, new = _pairs(before), _pairs(after)
    rows: list[tuple[str, str]] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            rows += [("-", shlex.join(pair)) for pair in old[a1:a2]]
            rows += [("+", shlex.join(pair)) for pair in new[b1:b2]]
    return rows


def _pairs(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Options with the word behind them, all else alone."""
    pairs: list[tuple[str, ...]] = []
    for one in words:
        last = pairs[-1] if pairs else ()
        if len(last) == 1 and last[0].startswith("-") and "=" not in last[0] and not one.startswith("-"):
            pairs[-1] = (*last, one)
        else:
            pairs.append((one,))
    return pairs


def proof_lines(report: Report, lang: str) -> Iterator[tuple[str, str]]:
    """(style, line): style is one of title, command, minus, plus, plain. The command comes last, to be pasted."""
    proof = report.proof
    if proof is None:
        return
    change = report.trials[proof.trial].change
    yield from _table(report, proof, lang)
    for mark, text in words_diff(proof.before, proof.after):
        yield ("minus" if mark == "-" else "plus"), f"  {mark} {text}"
    if proof.minimal and sum(map(len, (change.flags, change.env, change.container))) > 1:
        yield "plain", "  " + word("proof_minimal", lang)
    for price in proof.price:
        yield "plain", f"  {word('price', lang)}: {pick(price, lang)}"
    yield "title", word("proof_title", lang)
    yield "command", "  " + report.trials[proof.trial].command


def is_gone(report: Report) -> bool:
    """The unchanged command got ready in a trial: a change that worked, too, shows nothing."""
    unchanged = any(trial.fix == "unchanged" and trial.verdict == "confirmed" for trial in report.trials)
    return unchanged and report.proof is None


def working(report: Report) -> str | None:
    """The command that was seen to work, as small as it was made: that of the proof, else the last one; None for none."""
    if report.proof is not None:
        return report.trials[report.proof.trial].command
    if is_gone(report):
        return None
    return next((trial.command for trial in reversed(report.trials) if trial.verdict == "confirmed"), None)


def _table(report: Report, proof: Proof, lang: str) -> Iterator[tuple[str, str]]:
    rows: list[tuple[str, str, str]] = []
    for phase in PHASES[:-1]:
        old, new = (_took(phases, phase, lang) for phases in (report.phases, proof.phases))
        if (old, new) != ("-", "-"):
            rows.append((phase, old, new))
    rows += [(f"{name} GiB", *pair) for name, pair in _memory(report, proof)]
    if rows:
        rows.insert(0, ("", word("before", lang), word("after", lang)))
    for name, first, second in rows:
        yield "plain", f"  {name}{' ' * (24 - cell_len(name))}{_right(first)}{_right(second)}"


def _right(text: str) -> str:
    return " " * (12 - cell_len(text)) + text


def _memory(report: Report, proof: Proof) -> Iterator[tuple[str, tuple[str, str]]]:
    before, after = report.memory.get("log") or {}, proof.memory.get("log") or {}
    for name in dict.fromkeys([*before, *after]):
        pair = [before.get(name), after.get(name)]
        if any(isinstance(one, float) for one in pair):
            yield name, (_gib(pair[0]), _gib(pair[1]))
    peaks = [_peak(report.memory), _peak(proof.memory)]
    if any(peaks):
        of = "GPU" if any(one.get("gpus") for one in (report.memory, proof.memory)) else "host"
        yield f"peak, {of},", (_gib(peaks[0]), _gib(peaks[1]))


def _peak(memory: object) -> float | None:
    """The highest use of any GPU; of the process tree where there is none."""
    if not isinstance(memory, dict):
        return None
    used = [gpu.get("used_peak") for gpu in memory.get("gpus", []) if gpu.get("used_peak") is not None]
    host = memory.get("host") or {}
    return max(used) if used else host.get("rss_peak")


def _took(phases: Sequence[PhaseTime], name: str, lang: str) -> str:
    """How long a phase took; that it was not left; `-` where it was not entered or the log has no times."""
    for phase in phases:
        if phase.phase == name and phase.start is not None:
            return word("failed", lang) if phase.end is None else f"{phase.end - phase.start:.1f} s"
    return "-"


def _gib(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else "-"
