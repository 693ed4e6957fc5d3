"""Signals against events, as they come."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vdoctor.intake.patterns import PatternSet
from vdoctor.model import Event, Evidence, Fact, phase_of
from vdoctor.rulebase.schema import Rule, RuleBase, Signal

#: Of a signal that repeats, the first hits are kept and the rest counted: repetition proves nothing.
_KEEP = 12


@dataclass(frozen=True, slots=True)
class Hit:
    """A signal seen in the log."""

    rule: Rule
    signal: Signal
    evidence: Evidence
    step: str | None
    phase: str | None
    time: float | None
    facts: dict[str, Fact]
    start: int
    depth: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands: step, which start of the log, how far inside the process is, the stack.

    `sure`: the step was read from the stack, not from the last marker.
    """

    step: str | None
    sure: bool
    start: int
    depth: int
    frames: Callable[[], tuple[str, ...]]


_Compiled = tuple[list[tuple[Rule, Signal]], PatternSet | None]
#: Automata of the rule bases in use. A rule base holds hundreds of literals and serves many logs.
_cache: dict[int, tuple[RuleBase, _Compiled]] = {}


def _compiled(base: RuleBase) -> _Compiled:
    """All signals with a regex, and one automaton over them; kept for the rule bases used last."""
    known = _cache.get(id(base))
    # The entry holds the rule base, so its id cannot have passed to another one.
    if known is not None and known[0] is base:
        return known[1]
    entries = [(rule, signal) for rule in base.rules for signal in rule.signals if signal.regex is not None]
    patterns = PatternSet([s.regex or "" for _, s in entries], [s.literals for _, s in entries]) if entries else None
    while len(_cache) >= 4:
        _cache.pop(next(iter(_cache)))
    _cache[id(base)] = (base, (entries, patterns))
    return entries, patterns


class Matcher:
    """Collects hits. One automaton finds the candidates among all rules."""

    def __init__(self, base: RuleBase) -> None:
        self._entries, self._patterns = _compiled(base)
        self._counts: dict[int, int] = {}
        self._start = 0
        self.hits: list[Hit] = []

    @property
    def signals(self) -> list[Signal]:
        """All signals with a regex."""
        return [signal for _, signal in self._entries]

    def saturated(self, index: int, start: int) -> bool:
        """Another hit of this signal (a place in `signals`) in this start of the server would change nothing."""
        return start <= self._start and self._counts.get(index, 0) >= _KEEP

    def feed(self, event: Event, place: Callable[[], Place]) -> None:
        """Try all signals on the next event; `place` is asked only when one may match."""
        if self._patterns is None or event.bar is not None:
            return
        known: list[Place] = []

        def here_once() -> Place:
            if not known:
                known.append(place())
            return known[0]

        def is_full(index: int) -> bool:
            return self._counts.get(index, 0) >= _KEEP and self.saturated(index, here_once().start)

        for index, found in self._patterns.hits(event.text, is_full):
            rule, signal = self._entries[index]
            here = here_once()
            if not _fits(rule, signal, event, here):
                continue
            if here.start > self._start:
                # A server that restarts in a circle: its latest fault counts.
                self._start = here.start
                self._counts.clear()
                self.hits = [hit for hit in self.hits if hit.start == 0]
            count = self._counts[index] = self._counts.get(index, 0) + 1
            if count <= _KEEP:
                self.hits.append(_hit(rule, signal, event, here, found))


def _fits(rule: Rule, signal: Signal, event: Event, here: Place) -> bool:
    if signal.level and event.level not in signal.level:
        return False
    if signal.process and not re.search(signal.process, event.process or ""):
        return False
    if signal.stack or signal.not_stack:
        stack = "\n".join(here.frames())
        if not stack:
            return not signal.stack and _in_phase(rule, signal, here)
        if signal.stack and not re.search(signal.stack, stack):
            return False
        if signal.not_stack and re.search(signal.not_stack, stack):
            return False
    return _in_phase(rule, signal, here)


def _in_phase(rule: Rule, signal: Signal, here: Place) -> bool:
    phases = signal.phases or rule.phases
    if not phases or here.step is None or (signal.phase and not here.sure):
        return True
    return phase_of(here.step) in phases


def _hit(rule: Rule, signal: Signal, event: Event, here: Place, found: re.Match[str]) -> Hit:
    source = f"log:{event.line}"
    facts = {name: Fact(value, source) for name, value in (signal.set or {}).items()}
    for name, group in (signal.gives or {}).items():
        if found[group] is not None:
            facts[name] = Fact(_typed(found[group]), source)
    evidence = Evidence(event.line, event.process, event.shown.strip())
    step = here.step if here.sure or signal.phase in (None, here.step and phase_of(here.step)) else None
    phase = phase_of(step) if step else signal.phase
    return Hit(rule, signal, evidence, step, phase, event.time, facts, here.start, here.depth)


def _typed(text: str) -> str | int | float:
    """`75` is a number, `26,112` too, `0.9` a float; all else stays text."""
    plain = text.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", text) else text
    if re.fullmatch(r"-?\d{1,18}", plain):
        return int(plain)
    if re.fullmatch(r"-?\d{1,18}\.\d{1,18}", plain):
        return float(plain)
    return text
