"""Texts with facts: `needs {gpu.min_cc}[[, this GPU has {gpu.cc}]]`.

A segment in double brackets is left out when one of its facts is unknown.
"""

from __future__ import annotations

import re

from vdoctor.facts.registry import show
from vdoctor.model import Facts

_FACT = re.compile(r"\{([a-z][\w.]*)\}")
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


def facts_of(text: str) -> frozenset[str]:
    """Names of all facts that the text mentions."""
    return frozenset(_FACT.findall(text))


def facts_required(text: str) -> frozenset[str]:
    """Names of the facts without which the text cannot be shown."""
    return frozenset(_FACT.findall(_OPTIONAL.sub("", text)))


def fill(text: str, facts: Facts) -> str | None:
    """The text with its facts; None when one that it requires is unknown."""

    def segment(found: re.Match[str]) -> str:
        return found[1] if all(name in facts for name in facts_of(found[1])) else ""

    text = _OPTIONAL.sub(segment, text).strip()
    if any(name not in facts for name in facts_of(text)):
        return None
    return _FACT.sub(lambda found: show(found[1], facts[found[1]].value), text)
