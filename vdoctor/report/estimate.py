"""The budget as text, markdown and JSON (schema `vdoctor.estimate/1`)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vdoctor import __version__
from vdoctor.budget.changes import Card, Remedy
from vdoctor.budget.estimate import Estimate, Rank
from vdoctor.budget.presets import Plan
from vdoctor.budget.settings import GIB
from vdoctor.intake.clean import clean
from vdoctor.model import Change
from vdoctor.report.estimate_words import say
from vdoctor.report.json import change_dict

SCHEMA = "vdoctor.estimate/1"
_MARKS = {True: "✓", False: "✗", None: "?"}


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is shown. `commands`: for each remedy the whole changed command, or ""; `doubts`: (key, values)."""

    model: str
    found: Estimate
    remedies: tuple[Remedy, ...] = ()
    commands: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    doubts: tuple[tuple[str, dict[str, object]], ...] = ()
    problems: tuple[str, ...] = ()
    plan: Plan | None = None
    plan_command: str = ""
    facts: dict[str, tuple[Any, str]] = field(default_factory=dict)


def to_dict(answer: Answer, lang: str) -> dict[str, Any]:
    """The answer as plain data. Sizes are bytes; ranges are [low, high]."""
    found = answer.found
    return {
        "schema": SCHEMA,
        "vdoctor": __version__,
        "model": answer.model,
        "vllm_version": found.settings.version,
        "platform": found.settings.platform,
        "gpus": [_gpu(rank, found) for rank in found.ranks],
        "fits": found.fits,
        "exact": found.exact,
        "max_model_len": found.longest,
        "max_model_len_range": list(found.longest_range),
        "wanted_len": found.length,
        "changes": [
            {"id": remedy.key, "flags": dict(remedy.flags), "title": say(remedy.key, lang), "cost": _price(remedy, lang),
             "fits": remedy.after.fits, "kv_tokens": remedy.after.tokens, "max_model_len": remedy.after.longest,
             "command": command or None}
            for remedy, command in zip(answer.remedies, answer.commands, strict=True)
        ],
        "cards": [{"gib": card.gib, "gpus": card.gpus} for card in answer.cards],
        "doubts": [{"id": key, "text": say(key, lang, **values)} for key, values in answer.doubts],
        "problems": list(answer.problems),
        "preset": _preset(answer, lang),
        "facts": {name: {"value": value, "source": source} for name, (value, source) in sorted(answer.facts.items())},
    }  # fmt: skip


def _gpu(rank: Rank, found: Estimate) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "weights_bytes": rank.weights,
        "kv_bytes_per_token": rank.kv_per_token,
        "kv_cache_bytes": rank.kv_cache,
        "kv_cache_bytes_range": list(rank.kv_range),
        "kv_tokens": found.tokens,
        "kv_tokens_range": list(found.token_range),
        "max_concurrency": round(found.concurrency, 4),
        "activation_bytes": list(rank.activation),
        "graph_bytes": list(rank.graphs),
        "other_bytes": list(rank.other),
    }


def _preset(answer: Answer, lang: str) -> dict[str, Any] | None:
    plan = answer.plan
    if plan is None:
        return None
    reasons = [{"name": name, "value": value, "why": why} for name, value, why in _reasons(plan, lang)]
    change = Change(
        flags={choice.name: choice.value for choice in plan.choices},
        env={choice.name: str(choice.value) for choice in plan.variables},
    )
    return {
        "id": plan.preset.name,
        "command": answer.plan_command or None,
        "changes": change_dict(change),
        "reasons": reasons,
    }


def _reasons(plan: Plan, lang: str) -> list[tuple[str, Any, str]]:
    weights = plan.after.ranks[0].weights / GIB
    return [
        (choice.name, choice.value, say(f"why_{choice.reason}", lang, gpus=plan.after.settings.tp, weights=weights))
        for choice in (*plan.variables, *plan.choices)
    ]


def text(answer: Answer, lang: str) -> str:
    """For a terminal: the verdict, a row for each rank, what the cache holds, changes, cards, doubts."""
    lines = [_head(answer, lang), ""]
    lines += _table(_rows(answer.found, lang))
    lines += ["  " + say("gib", lang), "", *_cache(answer.found, lang)]
    for title, rows in _sections(answer, lang):
        lines += ["", title, *(f"  {row}" for row in rows)]
    return clean("\n".join(lines)) + "\n"


def markdown(answer: Answer, lang: str) -> str:
    """For a ticket."""
    header, *rows = _rows(answer.found, lang)
    lines = [f"### {_head(answer, lang)}", "", _pipes(header), _pipes(["---"] * len(header)), *map(_pipes, rows), ""]
    lines += [f"- {line.strip()}" for line in _cache(answer.found, lang)]
    for title, section in _sections(answer, lang):
        lines += ["", f"**{title}**", ""]
        lines += [f"      {row.strip()}" if row.startswith("    ") else f"- {row.strip()}" for row in section]
    return clean("\n".join(lines)) + "\n"


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _head(answer: Answer, lang: str) -> str:
    found = answer.found
    known = bool(found.settings.gpu_bytes) or found.exact
    verdict = {True: "fits", False: "fits_not", None: "fits_maybe" if known else "fits_unknown"}[found.fits]
    parts = [f"{_MARKS[found.fits]} {say(verdict, lang)}", answer.model, f"vLLM {found.settings.version}"]
    if found.settings.gpu_bytes and found.settings.platform == "cuda":
        parts.append(f"{found.settings.world * found.settings.dp} x {found.settings.gpu_bytes / GIB:.4g} GiB")
    elif found.settings.platform == "cpu":
        parts.append("CPU")
    return "  ·  ".join(parts)


def _rows(found: Estimate, lang: str) -> list[list[str]]:
    """A header and one row for each rank; ranks of one stage that are alike share a row."""
    keys = ["weights", "kv", "activation", "graphs", "other"]
    rows = [[say("gpu" if found.settings.platform == "cuda" else "rank", lang), *(say(key, lang) for key in keys)]]
    tp = found.settings.tp
    for stage in range(found.settings.pp):
        rank = found.ranks[stage * tp]
        name = str(rank.rank) if tp == 1 else f"{rank.rank}-{rank.rank + tp - 1}"
        cache = _span(rank.kv_range) if found.settings.gpu_bytes or found.exact else "?"
        rows.append(
            [name, f"{rank.weights / GIB:.2f}", cache, _span(rank.activation), _span(rank.graphs), _span(rank.other)]
        )
    return rows


def _span(ends: tuple[int, int]) -> str:
    low, high = (f"{end / GIB:.2f}" for end in ends)
    return low if low == high else f"{low}-{high}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(_width(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  " + "  ".join(" " * (wide - _width(cell)) + cell for cell, wide in zip(row, widths, strict=True))
        for row in rows
    ]


def _width(cell: str) -> int:
    """Columns on a terminal: Chinese takes two."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in cell)


def _cache(found: Estimate, lang: str) -> list[str]:
    per_token = max(rank.kv_per_token for rank in found.ranks) / 1024
    lines = [say("token", lang, kib=per_token), say("needed", lang, length=found.length, gib=found.needed_kv / GIB)]
    if not found.settings.gpu_bytes and not found.exact:
        return [f"  {line}" for line in lines]
    low, high = found.token_range
    if found.exact:
        lines.append(f"{say('tokens', lang, tokens=found.tokens)}  ({say('exact', lang)})")
    else:
        lines.append(say("tokens_range", lang, tokens=found.tokens, low=low, high=high))
    lines.append(say("concurrency", lang, concurrency=found.concurrency, length=found.length))
    low, high = found.longest_range
    key = "longest" if low == high else "longest_range"
    lines.append(say(key, lang, longest=found.longest, low=low, high=high))
    return [f"  {line}" for line in lines]


def _sections(answer: Answer, lang: str) -> list[tuple[str, list[str]]]:
    """Titles and lines below each; a line of four blanks is a command."""
    found, sections = answer.found, []
    if answer.plan is not None:
        rows = [f"{name}{_value(name, value)}: {why}" for name, value, why in _reasons(answer.plan, lang)]
        command = [f"    {answer.plan_command}"] if answer.plan_command else [say("no_plan", lang)]
        sections.append((answer.plan.preset.name, [*(rows if answer.plan_command else []), *command]))
    if answer.problems:
        sections.append((say("missing", lang), list(answer.problems)))
    if answer.remedies:
        sections.append((say("changes", lang), _remedy_lines(answer, lang)))
    elif found.fits is False and answer.plan is None:
        sections.append((say("changes", lang), [say("no_changes", lang)]))
    if found.fits is not True and found.settings.platform == "cuda":
        rows = [say("card", lang, gpus=card.gpus, gib=card.gib) for card in answer.cards]
        sections.append((say("cards", lang), [", ".join(rows) or say("no_card", lang)]))
    if answer.doubts:
        sections.append((say("unsure", lang), [say(key, lang, **values) for key, values in answer.doubts]))
    return sections


def _price(remedy: Remedy, lang: str) -> str:
    return ("；" if lang == "zh" else "; ").join(say(f"cost_{key}", lang) for key in remedy.kinds)


def _value(name: str, value: object) -> str:
    """A flag's value behind a blank, a variable's behind its sign."""
    return "" if value is True else f" {value}" if name.startswith("-") else f"={value}"


def _remedy_lines(answer: Answer, lang: str) -> list[str]:
    lines = []
    for number, (remedy, command) in enumerate(zip(answer.remedies, answer.commands, strict=True), 1):
        flags = "  ".join(f"{name}{_value(name, value)}" for name, value in remedy.flags.items())
        after = say("then", lang, tokens=remedy.after.tokens, longest=remedy.after.longest)
        lines.append(f"{number}. {flags}  {say(remedy.key, lang)} {after}")
        lines.append(f"   {say('price', lang)}: {_price(remedy, lang)}")
        if command:
            lines.append(f"    {command}")
    return lines
