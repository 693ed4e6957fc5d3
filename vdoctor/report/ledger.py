"""The memory ledger as a compact table: one row a part, what the log states beside what was measured on each GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from vdoctor.report.words import word

_MOST_COLUMNS = 4
#: GPUs whose figures differ by less than this, in GiB, are shown as one.
_ALIKE = 0.1
#: Rows in the order in which the memory is taken; `parts` have a figure of the log, the others are measured alone.
_PARTS = ("before_start", "context_other", "weights", "kv_cache", "cuda_graphs")
_REST = ("unexplained", "reserved", "free", "total")
#: A holder below this is a desktop or a monitor.
_HELD_GIB = 0.1


def lines(memory: Mapping[str, Any], lang: str) -> list[str]:
    """The table without its heading; empty where nothing was measured in parts."""
    gpus = [gpu for gpu in memory.get("gpus", ()) if gpu.get("parts")]
    if not any(part["measured"] is not None for gpu in gpus for part in gpu["parts"].values()):
        return []
    groups = _alike(gpus)
    shown = groups[:_MOST_COLUMNS]
    table = [["", word("ledger_log", lang), *(_title(group) for group in shown)]]
    for name in _PARTS:
        table.append(_row(name, gpus[0]["parts"][name]["log"], [g[0]["parts"][name]["measured"] for g in shown], lang))
    for name in _REST:
        table.append(_row(name, None, [g[0].get(name) for g in shown], lang))
    peak = [g[0]["parts"]["activation_peak"]["measured"] for g in shown]
    table.append(_row("activation_peak", gpus[0]["parts"]["activation_peak"]["log"], peak, lang))
    found = _aligned([row for row in table if any(row[1:])])
    if len(groups) > len(shown):
        found.append("  " + word("ledger_more", lang).format(count=len(groups) - len(shown)))
    return found + _notes(gpus, lang)


def _notes(gpus: Sequence[Mapping[str, Any]], lang: str) -> list[str]:
    notes = []
    for gpu in gpus:
        for holder in gpu.get("holders_at_start") or ():
            if holder["gib"] is None or holder["gib"] >= _HELD_GIB:
                name = f"{holder['name'] or '?'} (pid {holder['pid']})"
                gib = "?" if holder["gib"] is None else f"{holder['gib']:.1f}"
                notes.append(word("ledger_holder", lang).format(gpu=gpu["index"], name=name, gib=gib))
        for flag in ("lost", "unified"):
            if gpu.get(flag):
                notes.append(word(f"ledger_{flag}", lang).format(gpu=gpu["index"]))
    if any(gpu.get("as_of") == "peak" for gpu in gpus):
        notes.append(word("ledger_peak", lang))
    return ["  " + note for note in notes[:8]]


def _alike(gpus: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Neighbours with the same figures in one group."""
    groups: list[list[Mapping[str, Any]]] = []
    for gpu in gpus:
        if groups and _same(groups[-1][0], gpu):
            groups[-1].append(gpu)
        else:
            groups.append([gpu])
    return groups


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    pairs = [
        (one["parts"][name]["measured"], other["parts"][name]["measured"]) for name in (*_PARTS, "activation_peak")
    ]
    pairs += [(one.get(name), other.get(name)) for name in (*_REST, "in_use")]
    near = all(a == b or (a is not None and b is not None and abs(a - b) < _ALIKE) for a, b in pairs)
    return near and not (one.get("lost") or other.get("lost"))


def _title(group: Sequence[Mapping[str, Any]]) -> str:
    first, last = group[0]["index"], group[-1]["index"]
    return f"GPU {first}" if first == last else f"GPU {first}-{last}"


def _row(name: str, stated: float | None, measured: Sequence[float | None], lang: str) -> list[str]:
    return [word(f"ledger_{name}", lang), *(("" if value is None else f"{value:.2f}") for value in (stated, *measured))]


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Names to the left, figures to the right; Chinese characters take two columns."""
    widths = [max(cell_len(row[at]) for row in table) for at in range(len(table[0]))]
    found = []
    for row in table:
        cells = [row[0] + " " * (widths[0] - cell_len(row[0]))]
        cells += [" " * (width - cell_len(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)]
        found.append("  " + "  ".join(cells).rstrip())
    return found
