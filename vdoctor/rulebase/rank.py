"""Hits to findings: one root cause first, its consequences as symptoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vdoctor.model import (
    CONFIDENCES,
    SEVERITIES,
    Change,
    Confidence,
    Evidence,
    Fact,
    Facts,
    Finding,
    Fix,
    FlagValue,
    NotEvaluated,
    Severity,
    phase_of,
)
from vdoctor.rulebase.conditions import all_hold, missing
from vdoctor.rulebase.match import Hit
from vdoctor.rulebase.schema import FixSpec, Rule, RuleBase
from vdoctor.rulebase.template import facts_required, fill

_MAX_EVIDENCE = 3
#: Within so many seconds several processes report one fault; the innermost one is nearest to it.
_BURST_SECONDS = 3.0
#: Families of faults that a command and its model can have side by side.
_OF_THE_COMMAND = ("args.", "api.", "model.", "quant.", "tp.")


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that holds, with the facts as it sees them."""

    rule: Rule
    hits: tuple[Hit, ...]
    facts: Facts

    @property
    def confidence(self) -> Confidence:
        """That of the strongest signal seen."""
        seen = [hit.signal.confidence or self.rule.confidence for hit in self.hits]
        return min(seen, key=CONFIDENCES.index, default=self.rule.confidence)

    @property
    def severity(self) -> Severity:
        return self.rule.severity


def evaluate(
    base: RuleBase, hits: list[Hit], facts: Facts, derive: Callable[[Facts], dict[str, Fact]]
) -> tuple[list[Match], list[NotEvaluated]]:
    """Decide every rule: holds, does not hold, or cannot be decided (and what is missing).

    `derive` adds the facts that follow from a rule's own captures.
    """
    by_rule: dict[str, list[Hit]] = {}
    for hit in _often_enough(hits):
        by_rule.setdefault(hit.rule.id, []).append(hit)
    matches: list[Match] = []
    undecided: list[NotEvaluated] = []
    for rule in base.rules:
        own = by_rule.get(rule.id, [])
        if not own and rule.signals and not rule.foretold_by:
            continue
        merged = dict(facts)
        for hit in _weakest_first(rule, own):
            merged.update(hit.facts)
        merged = derive(merged)
        decided, gaps = _decide(rule, bool(own), merged)
        if decided is True:
            matches.append(Match(rule, tuple(own), merged))
        elif decided is None:
            undecided.append(NotEvaluated(rule.cause, gaps))
    return matches, undecided


def _weakest_first(rule: Rule, hits: list[Hit]) -> list[Hit]:
    """The order in which captures replace each other: the first hit of the strongest signal has the last word."""
    ordered = sorted(hits, key=lambda hit: CONFIDENCES.index(hit.signal.confidence or rule.confidence))
    return ordered[::-1]


def _decide(rule: Rule, seen: bool, facts: Facts) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the rule holds, and what is missing to say so; without a line seen, one group of its facts must hold, too."""
    groups = ((),) if seen or not rule.foretold_by else rule.foretold_by
    answers = [all_hold((*rule.whens, *group), facts) for group in groups]
    if True in answers:
        return True, ()
    open_groups = [group for group, answer in zip(groups, answers, strict=True) if answer is None]
    gaps = (name for group in open_groups for when in (*rule.whens, *group) for name in missing(when, facts))
    return (None if open_groups else False), tuple(dict.fromkeys(gaps))


def _often_enough(hits: list[Hit]) -> list[Hit]:
    counts: dict[int, int] = {}
    for hit in hits:
        counts[id(hit.signal)] = counts.get(id(hit.signal), 0) + 1
    return [hit for hit in hits if counts[id(hit.signal)] >= hit.signal.repeats]


def rank(matches: list[Match], *, apart: bool = False) -> list[Finding]:
    """Findings, best first. Explained rules and wrappers become symptoms of the one that explains them.

    `apart`: nothing was started. Two faults of the command or of the model are then two, whatever one of them would
    explain in a log: each must be mended.
    """
    alone = [match for match in matches if apart and match.rule.cause.startswith(_OF_THE_COMMAND)]
    roots, explained = _separate([match for match in matches if match not in alone])
    symptoms = {
        name: tuple(dict.fromkeys(other.rule.cause for other in reached)) for name, reached in explained.items()
    }
    ordered = _order(roots + alone)
    findings: list[Finding] = []
    for match in ordered:
        own = symptoms.get(match.rule.id, ())
        twin = next((at for at, f in enumerate(findings) if f.id == match.rule.cause and match not in alone), None)
        if twin is None:
            findings.append(_finding(match, own, explained.get(match.rule.id, [])))
        else:
            together = tuple(dict.fromkeys(findings[twin].symptoms + own))
            findings[twin] = replace(findings[twin], symptoms=together)
    return findings


def _separate(matches: list[Match]) -> tuple[list[Match], Mapping[str, list[Match]]]:
    """Which matches stand for themselves, and what each of them explains."""
    explained: dict[str, list[Match]] = {}
    consequences: set[str] = set()
    ordered = _order(matches)
    for match in ordered:
        if match.rule.id in consequences:
            continue
        reached = _reached(match, ordered)
        consequences.update(other.rule.id for other in reached)
        explained[match.rule.id] = reached
    kept = [match for match in matches if match.rule.id not in consequences]
    return kept, explained


def _reached(match: Match, ordered: list[Match]) -> list[Match]:
    """What a match explains, and what that explains in its turn."""
    reached: list[Match] = []
    queue = [match]
    while queue:
        cause = queue.pop(0)
        for other in ordered:
            if other is match or other in reached or other.rule.cause in (match.rule.cause, cause.rule.cause):
                continue
            if _explains(cause, other):
                reached.append(other)
                queue.append(other)
    return reached


def _explains(match: Match, other: Match) -> bool:
    if match.rule.wrapper and not other.rule.wrapper:
        return False
    if other.rule.wrapper and not match.rule.wrapper:
        # A wrapper reports a death or a wait: only something at least as grave can be its cause.
        return SEVERITIES.index(match.severity) <= SEVERITIES.index("stall")
    return any(_named(name, other.rule) for name in match.rule.explains)


def _named(name: str, rule: Rule) -> bool:
    if name.endswith(".*"):
        return rule.cause.startswith(name[:-1])
    return name in (rule.id, rule.cause)


def _order(matches: list[Match]) -> list[Match]:
    """Severity, then certainty, then causality: earliest first, within one burst the innermost process."""
    times = [hit.time for match in matches for hit in match.hits[:1] if hit.time is not None]
    origin = min(times, default=0.0)

    def key(match: Match) -> tuple[int, int, int, int, int, int]:
        first = match.hits[0] if match.hits else None
        time = first.time if first and first.time is not None else origin
        return (
            SEVERITIES.index(match.severity),
            CONFIDENCES.index(match.confidence),
            # What the log shows comes before what only facts say.
            0 if first else 1,
            int((time - origin) // _BURST_SECONDS) if match.severity == "fatal" else 0,
            -first.depth if first else 0,
            first.evidence.line if first else 1 << 30,
        )

    return sorted(matches, key=key)


def _finding(match: Match, symptoms: tuple[str, ...], explained: list[Match]) -> Finding:
    rule = match.rule
    # A cause that was measured shows the lines of what it explains; a forecast has none.
    shown = match.hits or (() if rule.preflight else tuple(hit for other in explained for hit in other.hits))
    first = match.hits[0] if match.hits else None
    step = first.step if first else _watched_step(match)
    phase = (first.phase if first else phase_of(step) if step else None) or (rule.phases[0] if rule.phases else None)
    if rule.phase is not None and rule.phase != phase:
        phase, step = rule.phase, None
    return Finding(
        id=rule.cause,
        rule=rule.id,
        title=_fill_all(rule.text("title"), match.facts),
        why=_fill_all(rule.text("cause"), match.facts),
        severity=match.severity,
        confidence=match.confidence,
        phase=phase,
        step=step,
        evidence=_evidence(shown),
        symptoms=symptoms,
        fixes=tuple(fix for spec in rule.fixes if (fix := build_fix(rule, spec, match.facts))),
        references=rule.references,
    )


def _watched_step(match: Match) -> str | None:
    """Where a stall was watched, for the rules that speak of it."""
    for when in match.rule.whens:
        family = when.fact.partition(".")[0]
        if family in ("stall", "slow") and f"{family}.step" in match.facts:
            return str(match.facts[f"{family}.step"].value)
    return None


def _evidence(hits: tuple[Hit, ...]) -> tuple[Evidence, ...]:
    """The first lines that differ in what they say; ranks repeat each other."""
    kept: list[Evidence] = []
    for hit in hits:
        if len(kept) < _MAX_EVIDENCE and all(hit.evidence.line != one.line for one in kept):
            if not any(hit.signal is other.signal for other in hits[: hits.index(hit)]):
                kept.append(hit.evidence)
    return tuple(kept)


def _fill_all(texts: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """A text whose facts are unknown falls back to its own words without the gaps."""
    filled: dict[str, str] = {}
    for language, text in texts.items():
        whole = fill(text, facts)
        filled[language] = whole if whole is not None else _without_gaps(text, facts)
    return filled


def _without_gaps(text: str, facts: Facts) -> str:
    gaps = {name: Fact("?", "unknown") for name in facts_required(text) if name not in facts}
    return fill(text, {**facts, **gaps}) or text


def build_fix(rule: Rule, spec: FixSpec, facts: Facts) -> Fix | None:
    """The fix with its values; None when its condition does not surely hold or a value is unknown."""
    if all_hold(spec.when, facts) is not True:
        return None
    title = {lang: fill(text, facts) for lang, text in rule.text(f"fix.{spec.id}").items()}
    change = _fill_change(spec.change, facts)
    if change is None or not title or None in title.values():
        return None
    cost = {lang: fill(text, facts) or "" for lang, text in rule.text(f"cost.{spec.id}").items()}
    texts = {lang: text for lang, text in title.items() if text is not None}
    return Fix(spec.id, texts, spec.safety, change, cost or None)


def _fill_change(change: Change, facts: Facts) -> Change | None:
    flags: dict[str, FlagValue] = {}
    for name, value in change.flags.items():
        filled_name = _fill_name(name, facts)
        if filled_name is None:
            return None
        filled = fill(value, facts) if isinstance(value, str) else value
        if isinstance(value, str) and filled is None:
            return None
        for one in filled_name:
            flags[one] = filled
    env: dict[str, str | None] = {}
    for name, setting in change.env.items():
        text = fill(setting, facts) if setting is not None else None
        if setting is not None and text is None:
            return None
        env[name] = text
    container: dict[str, str | bool] = {}
    for name, value in change.container.items():
        filled = fill(value, facts) if isinstance(value, str) else value
        if filled is None:
            return None
        container[name] = filled
    return Change(flags, env, container)


def _fill_name(name: str, facts: Facts) -> tuple[str, ...] | None:
    """`{args.unknown}` may stand for several options at once."""
    if not name.startswith("{"):
        return (name,)
    fact = facts.get(name[1:-1])
    if fact is None:
        return None
    return tuple(str(item) for item in fact.value) if isinstance(fact.value, tuple) else (str(fact.value),)
