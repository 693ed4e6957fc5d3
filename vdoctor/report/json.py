"""The JSON report, schema `vdoctor.report/1`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from vdoctor import __version__
from vdoctor.model import Change, Fact, Finding, Fix, Motion, NotEvaluated, PhaseTime, Proof, Report, Span, Trial

SCHEMA = "vdoctor.report/1"
#: Characters that JSON leaves as they are, and a terminal obeys: DEL, the second set of controls, marks of direction.
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printed(data: Any, indent: int | None = 1, *, ascii_only: bool = False) -> str:
    """Data as JSON in which nothing can reach a terminal as a command: such characters are written as escapes."""
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def to_dict(report: Report, lang: str = "en") -> dict[str, Any]:
    """The report as plain data; texts in one language."""
    return {
        "schema": SCHEMA,
        "vdoctor": __version__,
        "source": {
            "kind": report.source.kind,
            "name": report.source.name,
            "lines": report.source.lines,
            "bytes": report.source.bytes,
        },
        "engine": {
            "name": "vllm",
            "version": _value(report.facts, "vllm.version"),
            "generation": report.generation,
            "model": _value(report.facts, "model.name"),
            "command": list(report.command) if report.command is not None else None,
        },
        "verdict": report.verdict,
        "phase": report.phase,
        "step": report.step,
        "looks_like": report.looks_like,
        "findings": [_finding(finding, lang) for finding in report.findings],
        "not_evaluated": [_undecided(one) for one in report.not_evaluated],
        "timeline": [_span(span) for span in report.timeline],
        "phases": [_phase(phase) for phase in report.phases],
        "elapsed": _round(report.elapsed),
        "memory": dict(report.memory),
        "exit": _exit(report),
        "motion": _motion(report.motion),
        "trials": [_trial(trial, lang) for trial in report.trials],
        "proof": _proof(report.proof, lang) if report.proof is not None else None,
        "facts": {name: _fact(fact) for name, fact in sorted(report.facts.items())},
    }


def change_dict(change: Change) -> dict[str, Any]:
    """`{"flags": {"--x": "1", "--y": null}, "env": {}, "container": {}}`; null removes."""
    return {"flags": dict(change.flags), "env": dict(change.env), "container": dict(change.container)}


def _finding(finding: Finding, lang: str) -> dict[str, Any]:
    return {
        "id": finding.id,
        "rule": finding.rule,
        "title": pick(finding.title, lang),
        "severity": finding.severity,
        "confidence": finding.confidence,
        "phase": finding.phase,
        "step": finding.step,
        "why": pick(finding.why, lang),
        "evidence": [{"line": e.line, "process": e.process, "text": e.text} for e in finding.evidence],
        "symptoms": list(finding.symptoms),
        "fixes": [_fix(fix, lang) for fix in finding.fixes],
        "references": list(finding.references),
    }


def _fix(fix: Fix, lang: str) -> dict[str, Any]:
    return {
        "id": fix.id,
        "title": pick(fix.title, lang),
        "safety": fix.safety,
        "cost": pick(fix.cost, lang) if fix.cost else None,
        "changes": change_dict(fix.change),
        "command": fix.command,
    }


def _undecided(one: NotEvaluated) -> dict[str, Any]:
    return {"id": one.id, "missing": list(one.missing)} | ({"reason": one.reason} if one.reason else {})


def _trial(trial: Trial, lang: str) -> dict[str, Any]:
    return {
        "fix": trial.fix,
        "changes": change_dict(trial.change),
        "command": trial.command,
        "verdict": trial.verdict,
        "seconds": _round(trial.seconds),
        "finding": trial.finding,
        "step": trial.step,
        "forward": trial.forward,
        "reason": pick(trial.reason, lang) if trial.reason else None,
        "session": trial.session,
        "tokens_per_second": trial.tokens_per_second,
        "latency": trial.latency,
    }


def _proof(proof: Proof, lang: str) -> dict[str, Any]:
    return {
        "trial": proof.trial,
        "before": list(proof.before),
        "after": list(proof.after),
        "phases": [_phase(phase) for phase in proof.phases],
        "memory": dict(proof.memory),
        "price": [pick(text, lang) for text in proof.price],
        "minimal": proof.minimal,
    }


def _phase(one: PhaseTime) -> dict[str, Any]:
    return {"phase": one.phase, "start": _round(one.start), "end": _round(one.end)}


def _span(span: Span) -> dict[str, Any]:
    return {
        "process": span.process,
        "phase": span.phase,
        "step": span.step,
        "start": _round(span.start),
        "end": _round(span.end),
        "first_line": span.first_line,
        "last_line": span.last_line,
    }


def _exit(report: Report) -> dict[str, Any] | None:
    if report.exit is None:
        return None
    return {"status": report.exit.status, "signal": report.exit.signal, "asked": report.exit.asked}


def _motion(motion: Motion | None) -> dict[str, Any] | None:
    if motion is None:
        return None
    return {
        "t": _round(motion.t),
        "state": motion.state,
        "step": motion.step,
        "since": _round(motion.since),
        "kind": motion.kind,
        "process": motion.process,
        "pid": motion.pid,
        "waiting": list(motion.waiting),
        "doing": motion.doing,
        "percent": _round(motion.percent),
        "rate": _round(motion.rate),
        "eta": _round(motion.eta),
    }


def pick(texts: Mapping[str, str], lang: str) -> str:
    """The text in the wanted language, English where it is missing."""
    return texts.get(lang) or texts.get("en") or next(iter(texts.values()), "")


def _fact(fact: Fact) -> dict[str, Any]:
    value = list(fact.value) if isinstance(fact.value, tuple) else fact.value
    return {"value": value, "source": fact.source}


def _value(facts: Mapping[str, Fact], name: str) -> Any:
    return facts[name].value if name in facts else None


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
