"""vdoctor explain: the full page of a rule."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from vdoctor.commands.rules import plain
from vdoctor.commands.streams import show
from vdoctor.errors import UserError
from vdoctor.report.json import pick
from vdoctor.report.text import describe
from vdoctor.report.words import word
from vdoctor.rulebase.causes import CAUSES
from vdoctor.rulebase.schema import LANGUAGES, Rule
from vdoctor.store import load_rules


def explain(name: str, *, lang: str | None, rules: Sequence[Path]) -> int:
    """Print the page of the rule `name`, or of all rules of the finding id `name`."""
    base = load_rules(rules)
    rule = base.get(name)
    found = (rule,) if rule else base.by_cause(name)
    if not found:
        known = [r.id for r in base.rules] + list(CAUSES)
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean: {', '.join(near)}" if near else "see: vdoctor rules list"
        if name in CAUSES:
            hint = f"{CAUSES[name]}; no rule for it yet"
        raise UserError(f"{name}: no such rule or finding id", hint)
    languages = (lang,) if lang else LANGUAGES
    show("\n\n".join(_page(one, language) for one in found for language in languages))
    return 0


def _page(rule: Rule, lang: str) -> str:
    lines = [f"{rule.id}  ({rule.cause} · {rule.severity} · {rule.status})", "", plain(pick(rule.text("title"), lang))]
    lines += ["", plain(pick(rule.text("cause"), lang))]
    for number, fix in enumerate(rule.fixes, 1):
        title = plain(pick(rule.text(f"fix.{fix.id}"), lang))
        lines += ["", f"{word('fix', lang)} {number} ({word(fix.safety, lang)}): {title}"]
        if fix.change:
            lines.append(f"    {describe(fix.change, lang)}")
        cost = rule.text(f"cost.{fix.id}")
        if cost:
            lines.append(f"    {word('price', lang)}: {plain(pick(cost, lang))}")
    if rule.explains:
        lines += ["", f"{word('explains', lang)}: {', '.join(rule.explains)}"]
    lines += ["", *rule.references] if rule.references else []
    return "\n".join(lines)
