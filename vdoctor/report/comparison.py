"""Two starts of a server side by side: which phase got slower or bigger, and what changed with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vdoctor.model import PHASES, STEPS, Report
from vdoctor.report.proof import words_diff
from vdoctor.report.words import word

SCHEMA = "vdoctor.compare/1"
#: A step is named when it took this much more or less: below it a start differs from itself (measured on idle machines).
_SECONDS, _SHARE = 0.5, 0.1
#: vLLM's own clock shows whole seconds: a difference of two of its times is off by up to one, that of two differences by two.
_WHOLE_SECONDS = 2.0
_VERSIONS = (
    "vllm.version",
    "vllm.generation",
    "torch.version",
    "transformers.version",
    "flashinfer.version",
    "triton.version",
    "python.version",
    "driver.version",
    "gpu.name",
    "gpu.count",
    "os.glibc",
    "model.name",
    "model.quantization",
)
#: Of these more is no loss: the cache gets what the others leave, the total is the card's.
_ROOM = ("kv_cache", "total")
_MEMORY = 0.1
#: Ends of a start that served, and of one that did not come to it.
_READY, _NOT_READY = ("healthy", "degraded"), ("failed", "stalled", "incomplete")
_CACHES = ("compile.cache", "weights.download_s", "weights.read_s", "weights.filesystem")


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of both; None where one does not show it."""

    name: str
    before: Any
    after: Any

    @property
    def delta(self) -> float | None:
        """After less before, where both are numbers."""
        if isinstance(self.before, int | float) and isinstance(self.after, int | float):
            return round(self.after - self.before, 3)
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`phases` and `steps` in seconds, `memory` in GiB; `slower` and `bigger` name what grew most, `smaller` the KV cache
    where it shrank, None for nothing. Where no phase alone is to blame, `slower` is the time until ready."""

    verdict: Row
    phases: tuple[Row, ...]
    steps: tuple[Row, ...]
    memory: tuple[Row, ...]
    command: tuple[tuple[str, str], ...]
    versions: tuple[Row, ...]
    caches: tuple[Row, ...]
    slower: Row | None
    bigger: Row | None
    smaller: Row | None

    @property
    def broken(self) -> bool:
        """The first start got ready, the second did not."""
        return self.verdict.before in _READY and self.verdict.after in _NOT_READY

    @property
    def is_worse(self) -> bool:
        """Slower, bigger, with less room for tokens, or not ready at all."""
        return self.broken or any(row is not None for row in (self.slower, self.bigger, self.smaller))


def compare(before: Report, after: Report, caches: tuple[Row, ...] = ()) -> Comparison:
    """What is different; `caches`: rows that only the recordings show."""
    phases = tuple(_rows({p: _phase(before, p) for p in PHASES[:-1]}, {p: _phase(after, p) for p in PHASES[:-1]}))
    total = [row for row in [Row("ready", _ready(before), _ready(after))] if (row.before, row.after) != (None, None)]
    least = _least(before, after)
    steps = tuple(row for row in _rows(_steps(before), _steps(after)) if _is_news(row, least))
    memory = tuple(_rows(_memory(before), _memory(after)))
    return Comparison(
        Row("verdict", before.verdict, after.verdict),
        (*phases, *total),
        steps,
        memory,
        tuple(words_diff(before.command or (), after.command or ())) if before.command and after.command else (),
        tuple(_facts(before, after, _VERSIONS)),
        tuple(row for row in (*_facts(before, after, _CACHES), *caches) if row.delta is None or _is_news(row, least)),
        _grown([row for row in phases if _is_news(row, least)])
        or _grown([row for row in total if _is_news(row, least)]),
        _grown([row for row in memory if row.name not in _ROOM and (row.delta or 0) >= _MEMORY]),
        next((row for row in memory if row.name == "kv_cache" and (row.delta or 0) <= -_MEMORY), None),
    )


def to_dict(found: Comparison, before: Report, after: Report) -> dict[str, Any]:
    """The comparison as plain data."""

    def table(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
        return [{"name": r.name, "before": r.before, "after": r.after, "delta": r.delta} for r in rows]

    return {
        "schema": SCHEMA,
        "before": before.source.name,
        "after": after.source.name,
        "verdict": {"before": found.verdict.before, "after": found.verdict.after},
        "slower": found.slower.name if found.slower else None,
        "bigger": found.bigger.name if found.bigger else None,
        "smaller": found.smaller.name if found.smaller else None,
        "phases": table(found.phases),
        "steps": table(found.steps),
        "memory": table(found.memory),
        "command": [{"mark": mark, "words": text} for mark, text in found.command],
        "versions": table(found.versions),
        "caches": table(found.caches),
    }


def lines(found: Comparison, before: Report, after: Report, lang: str) -> Iterator[tuple[str, str]]:
    """(style, line) of the text; styles: title, plain, minus, plus."""
    yield "title", headline(found, lang)
    yield "plain", f"  - {before.source.name} ({_end(before, lang)})"
    yield "plain", f"  + {after.source.name} ({_end(after, lang)})"
    for key, rows, unit in (
        ("compare_time", (*found.phases, *found.steps), " s"),
        ("compare_memory", found.memory, " GiB"),
    ):
        if rows:
            yield "title", ""
            yield "title", word(key, lang)
            yield from (("plain", _line(row, unit)) for row in rows)
    for key, changed in (("compare_versions", found.versions), ("compare_caches", found.caches)):
        if changed:
            yield "title", ""
            yield "title", word(key, lang)
            yield from (("plain", f"  {r.name}: {shown(r.before)} -> {shown(r.after)}") for r in changed)
    if found.command:
        yield "title", ""
        yield "title", word("compare_command", lang)
        yield from (("minus" if mark == "-" else "plus", f"  {mark} {text}") for mark, text in found.command)


def _end(report: Report, lang: str) -> str:
    """The verdict, and the first finding behind it."""
    verdict = word(report.verdict, lang)
    return f"{verdict}: {report.findings[0].id}" if report.findings else verdict


def headline(found: Comparison, lang: str) -> str:
    """How the ends differ and what got worse, a sentence each: no server any more, slower, bigger, a smaller KV cache."""
    parts = []
    if found.broken:
        parts.append(word("compare_broken", lang).format(verdict=word(found.verdict.after, lang)))
    elif found.verdict.before != found.verdict.after:
        ends = {"before": word(found.verdict.before, lang), "after": word(found.verdict.after, lang)}
        parts.append(word("compare_verdict", lang).format(**ends))
    if (row := found.slower) is not None:
        key = "compare_later" if row.name == "ready" else "compare_slower"
        values = {"delta": f"{row.delta:.1f}", "before": f"{row.before:.1f}", "after": f"{row.after:.1f}"}
        parts.append(word(key, lang).format(phase=row.name, **values))
    for key, changed in (("compare_bigger", found.bigger), ("compare_smaller", found.smaller)):
        if changed is not None:
            values = {"before": f"{changed.before:.2f}", "after": f"{changed.after:.2f}"}
            parts.append(word(key, lang).format(name=changed.name, **values))
    return " ".join(parts) if parts else word("compare_same", lang)


def _line(row: Row, unit: str) -> str:
    delta = "" if row.delta is None else f"{row.delta:+10.2f}"
    return f"  {row.name:24}{shown(row.before):>10}{shown(row.after):>10}{delta}{unit if delta else ''}"


def shown(value: Any) -> str:
    """A value of a row as text."""
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    for name in dict.fromkeys([*before, *after]):
        row = Row(name, before.get(name), after.get(name))
        if (row.before, row.after) != (None, None):
            yield row


def _phase(report: Report, name: str) -> float | None:
    for phase in report.phases:
        if phase.phase == name and phase.start is not None and phase.end is not None:
            return round(phase.end - phase.start, 3)
    return None


def _ready(report: Report) -> float | None:
    return next((s.start for s in report.timeline if s.step == "runtime.ready" and s.start is not None), None)


def _steps(report: Report) -> dict[str, float]:
    """Seconds of each step, from the first process that entered it to the last that left it."""
    found: dict[str, float] = {}
    for step in STEPS:
        spans = [s for s in report.timeline if s.step == step and s.start is not None and s.end is not None]
        if spans and not step.startswith("runtime."):
            found[step] = round(max(s.end or 0.0 for s in spans) - min(s.start or 0.0 for s in spans), 3)
    return found


def _memory(report: Report) -> dict[str, float]:
    found = {name: float(v) for name, v in (report.memory.get("log") or {}).items() if isinstance(v, int | float)}
    for gpu in report.memory.get("gpus", []):
        if gpu.get("used_peak") is not None:
            found[f"GPU {gpu['index']} peak"] = gpu["used_peak"]
    peak = (report.memory.get("host") or {}).get("rss_peak")
    return found | ({"host peak": peak} if peak is not None else {})


def _facts(before: Report, after: Report, names: tuple[str, ...]) -> Iterator[Row]:
    for name in names:
        values = [report.facts[name].value if name in report.facts else None for report in (before, after)]
        if values[0] != values[1]:
            yield Row(name, *values)


def _least(*reports: Report) -> float:
    """The smallest difference in seconds that means something."""
    times = [[s.start for s in report.timeline if s.start is not None] for report in reports]
    whole = any(row and all(time == int(time) for time in row) for row in times)
    return _WHOLE_SECONDS if whole else _SECONDS


def _is_news(row: Row, least: float) -> bool:
    if row.delta is None:
        return False
    return abs(row.delta) >= least and abs(row.delta) >= _SHARE * max(row.before, row.after)


def _grown(rows: list[Row]) -> Row | None:
    return max((row for row in rows if (row.delta or 0) > 0), key=lambda row: row.delta or 0.0, default=None)
