"""Errors that no rule knows: show the innermost exception, and the nearest rule as a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vdoctor.model import Evidence, Finding, Traceback
from vdoctor.rulebase.schema import Rule, RuleBase

#: Below this similarity (0 to 100, rapidfuzz token_set_ratio over masked texts) a guess misleads more
#: often than it helps: measured on the examples of all rules against each other, the best wrong
#: partner scores 84.
_NEAR = 88

_WRAPPERS = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|See stack trace|See root cause"
    r"|Engine process failed to start|EngineDeadError|died unexpectedly|Engine loop has died|Executor failed"
    r"|^(?:Base)?ExceptionGroup: "
)
_STOPS = frozenset(
    {
        "KeyboardInterrupt",
        "SystemExit",
        "asyncio.exceptions.CancelledError",
        "asyncio.CancelledError",
        "CancelledError",
        "GeneratorExit",
    }
)
_MASKS = ((re.compile(r"0x[0-9a-f]+"), "HEX"), (re.compile(r"/[\w./\-]+"), "PATH"), (re.compile(r"\d+(?:\.\d+)*"), "N"))

TITLE = {"en": "{error}", "zh": "{error}"}
WHY = {
    "en": "No rule knows this error. It is the innermost exception in the log; the lines above it name the place in the code.",
    "zh": "规则库中没有这个错误。这是日志中最内层的异常，它上方的几行指出了出错的代码位置。",
}


def root_traceback(blocks: Sequence[Traceback]) -> Traceback | None:
    """The traceback that others are consequences of: the first that is neither a wrapper nor a stop."""
    real = [
        b
        for b in blocks
        if b.exception and b.exception not in _STOPS and not _WRAPPERS.search(f"{b.exception}: {b.message}")
    ]
    return real[0] if real else None


def unknown_finding(block: Traceback, phase: str | None, step: str | None) -> Finding:
    """A finding that says what failed without claiming to know why."""
    error = f"{block.exception}: {block.message}".strip(": ")[:300]
    return Finding(
        id="unknown.error",
        rule="unknown.error",
        title={lang: text.replace("{error}", _short(error)) for lang, text in TITLE.items()},
        why=WHY,
        severity="fatal",
        confidence="possible",
        phase=phase,
        step=step,
        evidence=(Evidence(block.line, block.process, error),),
        symptoms=(),
        fixes=(),
        references=(),
    )


def _short(text: str) -> str:
    return text if len(text) <= 110 else text[:109] + "…"


def nearest_rule(base: RuleBase, text: str) -> Rule | None:
    """The rule whose `like` text is nearest to an error line that no signal claimed."""
    from rapidfuzz import fuzz, process

    likes = [(mask(signal.like), rule) for rule in base.rules for signal in rule.signals if signal.like]
    if not likes:
        return None
    best = process.extractOne(mask(text), [like for like, _ in likes], scorer=fuzz.token_set_ratio, score_cutoff=_NEAR)
    return likes[best[2]][1] if best else None


def mask(text: str) -> str:
    """Numbers, addresses and paths say nothing about which error it is."""
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text
