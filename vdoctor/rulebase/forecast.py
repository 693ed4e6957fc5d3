"""Rules that hold by facts alone: they foretell a failure that the log does not show (yet)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vdoctor.model import PHASES, phase_of
from vdoctor.rulebase.rank import Match
from vdoctor.rulebase.schema import Rule


def is_forecast(match: Match) -> bool:
    """A fault by facts alone, without a line that shows it."""
    return match.rule.preflight and not match.hits and match.severity in ("fatal", "stall")


def weighed(matches: Iterable[Match], furthest: str | None, served: bool, died: bool) -> list[Match]:
    """The matches without those forecasts that the start itself refutes: it served, or it came past the phases
    in which the rule sees it fail. Where it died of something else, a forecast is no longer certain.
    """
    kept: list[Match] = []
    for match in matches:
        if not is_forecast(match):
            kept.append(match)
        elif not served and not _past(match.rule, furthest):
            kept.append(_doubted(match) if died else match)
    return kept


def _past(rule: Rule, furthest: str | None) -> bool:
    if furthest is None or not rule.phases:
        return False
    return PHASES.index(phase_of(furthest)) > max(PHASES.index(phase) for phase in rule.phases)


def _doubted(match: Match) -> Match:
    doubt = match.confidence == "certain"
    return replace(match, rule=replace(match.rule, confidence="likely")) if doubt else match
