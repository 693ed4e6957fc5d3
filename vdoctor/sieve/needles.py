"""What a line of a serving log must hold to mean anything: the literals of all patterns that read records.

Needles are looked for in shapes (lines without their digits and the letters a to f). A literal that is in a line
leaves its own shape in the shape of the line, so a shape without any needle cannot match any pattern.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from vdoctor.facts import death, log
from vdoctor.intake import stacks
from vdoctor.intake.patterns import Need, needs, required_literals
from vdoctor.rulebase.match import Matcher
from vdoctor.startup import outcome, timeline
from vdoctor.startup.markers import MARKERS

#: Deleted to get the shape of a line: counts, times, addresses, hexadecimal ids.
VARYING = b"0123456789abcdef"

_Shaped = bytes | tuple[tuple["_Shaped", ...], ...]
#: rule: a signal, by its place in the matcher; serving: says nothing new once the process serves; statistics: vLLM's
#: periodic line; fact, marker, end: a pattern of the log's facts, the timeline, the outcome; form: always matters.
CheckKind = Literal["rule", "serving", "statistics", "fact", "marker", "end", "form"]


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One pattern that a line with its needle may match; `index` is that of a rule's signal."""

    kind: CheckKind
    regex: str = ""
    index: int = -1

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled once."""
        return _compiled(self.regex)

    @property
    def literal(self) -> str:
        """The longest text that is in every match; empty when there are alternatives only."""
        return _longest(self.regex)


@functools.cache
def _longest(regex: str) -> str:
    return max((need for need in needs(regex) if isinstance(need, str)), key=len, default="")


@functools.cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


# Bars, records inside a record, Ray's counts, tracebacks, argument lists: read by hand-written code, not by one pattern.
_FORMS = (
    "Traceback (most recent call last)",
    "across cluster]",
    "args: ",
    "Completed",
    *(f"%{' ' * blanks}|" for blanks in range(9)),
    *(f"{end}{level} " for end in (")", "it]", "/s]") for level in ("DEBUG", "INFO", "WARNING", "ERROR")),
)


def shape(text: bytes) -> bytes:
    """The line without what varies from one to the next."""
    return text.translate(None, VARYING)


class Needles:
    """All needles of a rule base; `checks` gives the patterns that a shape may match."""

    def __init__(self, matcher: Matcher) -> None:
        owners: dict[bytes, list[Check]] = {}
        #: As they stand in the log.
        self.literals: set[str] = set()

        def add(check: Check, literals: Collection[str]) -> None:
            self.literals.update(literals)
            for literal in literals:
                needle = shape(literal.encode())
                if not needle:
                    raise ValueError(f"{literal!r} leaves no shape")
                owners.setdefault(needle, []).append(check)

        for index, signal in enumerate(matcher.signals):
            add(Check("rule", signal.regex or "", index), signal.literals)
        for marker in MARKERS:
            kind: CheckKind = "serving" if marker.role == "serving" else "marker"
            add(Check(kind, marker.pattern), required_literals(marker.pattern))
        for pattern in log.patterns():
            add(Check("fact", pattern), required_literals(pattern))
        for pattern in (*outcome.PATTERNS, *timeline.PATTERNS, *death.PATTERNS, *stacks.PATTERNS):
            add(Check("end", pattern), required_literals(pattern))
        add(Check("statistics"), ("Avg prompt throughput: ",))
        add(Check("form"), _FORMS)
        self._checks = [tuple(checks) for checks in owners.values()]
        self._automaton = BytesAhoCorasick(list(owners), matchkind=MatchKind.Standard)

    def checks(self, text: bytes) -> tuple[Check, ...]:
        """The patterns of which a literal may be in a line with this shape; empty: the line means nothing."""
        found = self._automaton.find_matches_as_indexes(text, overlapping=True)
        if not found:
            return ()
        checks = dict.fromkeys(check for hit in found for check in self._checks[hit[0]])
        return tuple(check for check in checks if not check.regex or _possible(check.regex, text))


def _possible(regex: str, text: bytes) -> bool:
    """Every literal that a match must hold has left its shape."""
    return _all_in(_wanted(regex), text)


def _all_in(wanted: tuple[_Shaped, ...], text: bytes) -> bool:
    return all(
        need in text if isinstance(need, bytes) else any(_all_in(branch, text) for branch in need) for need in wanted
    )


@functools.cache
def _wanted(regex: str) -> tuple[_Shaped, ...]:
    return _shaped(needs(regex))


def _shaped(wanted: tuple[Need, ...]) -> tuple[_Shaped, ...]:
    return tuple(shape(n.encode()) if isinstance(n, str) else tuple(_shaped(branch) for branch in n) for n in wanted)
