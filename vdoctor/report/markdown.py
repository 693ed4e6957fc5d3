"""The report as Markdown for tickets: verdict, cause, proof and fix on top, the rest folded, within GitHub's limit."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from vdoctor import __version__
from vdoctor.model import Finding, Fix, Report, Span
from vdoctor.report.json import pick
from vdoctor.report.marks import code, details, fence, link, one_line, prose, table
from vdoctor.report.page_words import say
from vdoctor.report.proof import is_gone, working
from vdoctor.report.text import describe
from vdoctor.report.words import word

#: GitHub refuses a comment of more than 65536 characters; trackers that count bytes are content, too.
LIMIT = 65_000
_TITLE, _WHY, _PROOF, _COMMAND, _ROWS = 300, 1500, 1500, 9000, 60
_MARKS = {"failed": "❌", "stalled": "⏸️", "degraded": "⚠️", "incomplete": "❔", "healthy": "✅", "not_vllm": "❔"}


def render(reports: Sequence[Report], *, lang: str = "en", limit: int = LIMIT) -> str:
    """The reports as one text of at most `limit` bytes."""
    parts: list[str] = []
    left_out: list[str] = []
    foot = f"<sub>{say('made_by', lang, version=__version__)}</sub>"
    room = limit - len(foot.encode()) - 1000
    for number, report in enumerate(reports):
        name = code(one_line(report.source.name, 200))
        sections = [("", top(report, lang)), *_folded(report, lang)]
        for title, body in sections:
            text = f"## {name}\n\n{body}" if not title and len(reports) > 1 else body
            size = len(text.encode()) + 2
            if size <= room:
                parts.append(text)
                room -= size
            elif not title and number:
                left_out.append(say("logs", lang, count=len(reports) - number))
                break
            else:
                left_out.append(title)
        else:
            continue
        break
    if left_out:
        parts.append(say("left_out", lang, parts=", ".join(dict.fromkeys(left_out))[:600]))
    return "\n\n".join((*parts, foot)) + "\n"


def top(report: Report, lang: str) -> str:
    """What everybody reads: verdict, cause, proof, fix."""
    lines = [f"{_MARKS[report.verdict]} **{word(report.verdict, lang)}**{_where(report, lang)}"]
    if report.looks_like:
        lines.append(prose(word("looks_like", lang).format(what=report.looks_like)))
    if not report.findings:
        key = {"healthy": "nothing_wrong"}.get(report.verdict, "no_rule")
        if report.exit is not None and report.exit.signal == "SIGKILL" and report.exit.asked is None:
            key = "sigkill"
        if report.verdict not in ("not_vllm", "degraded"):
            lines.append(prose(word(key, lang)))
    else:
        lines.append(_finding(report.findings[0], lang, first=True))
    lines += _proven(report, lang)
    return "\n\n".join(lines)


def _proven(report: Report, lang: str) -> list[str]:
    """What the trials came to: the command that works and its price, or that the failure has gone."""
    if is_gone(report):
        return [f"**{prose(word('gone', lang))}**"]
    if report.proof is None:
        return []
    lines = [f"**{prose(word('proof_title', lang))}**"]
    lines += [f"{say('price', lang)}: {prose(one_line(pick(text, lang), _WHY))}" for text in report.proof.price]
    command = working(report)
    return [*lines, fence(command, "sh")] if command and len(command) <= _COMMAND else lines


def _where(report: Report, lang: str) -> str:
    parts = []
    if report.phase:
        parts.append(f"{word('in', lang)} {code(report.step or report.phase)}")
    if "vllm.version" in report.facts:
        version = one_line(str(report.facts["vllm.version"].value), 60)
        parts.append(f"vLLM {code(version)}" + (f" {code(report.generation)}" if report.generation else ""))
    if "model.name" in report.facts:
        parts.append(code(one_line(str(report.facts["model.name"].value), 120)))
    if report.exit is not None and report.exit.asked is None:
        parts.append(word("exit", lang).format(status=report.exit.status))
        if report.exit.signal:
            parts.append(word("killed_by", lang).format(signal=code(one_line(report.exit.signal, 20))))
    return "".join(f" · {part}" for part in parts)


def _finding(finding: Finding, lang: str, *, first: bool) -> str:
    lines = [
        f"**{prose(one_line(pick(finding.title, lang), _TITLE))}** ({code(finding.id)}, {word(finding.confidence, lang)})",
        prose(one_line(pick(finding.why, lang), _WHY)),
    ]
    if finding.evidence:
        lines.append(_proof(finding, 0, lang))
    for number, fix in enumerate(finding.fixes[: 1 if first else 3], 1):
        lines.append(_fix(number, fix, lang))
    return "\n\n".join(line for line in lines if line)


def _proof(finding: Finding, at: int, lang: str) -> str:
    evidence = finding.evidence[at]
    place = say("proof_line", lang, line=evidence.line)
    if evidence.process:
        place = say("of_process", lang, place=place, process=code(one_line(evidence.process, 80)))
    return f"{place}:\n\n{fence(_cut(evidence.text, _PROOF))}"


def _fix(number: int, fix: Fix, lang: str) -> str:
    head = say("fix_n", lang, number=number, safety=word(fix.safety, lang))
    lines = [f"**{head}**: {prose(one_line(pick(fix.title, lang), _WHY))}"]
    if fix.cost:
        lines.append(f"{say('price', lang)}: {prose(one_line(pick(fix.cost, lang), _WHY))}")
    shown = fix.command or (describe(fix.change, lang) if fix.change else "")
    # A command that is cut would be pasted: whole or not at all.
    if shown and len(shown) <= _COMMAND:
        lines.append(fence(shown, "sh"))
    elif shown:
        lines.append(fence(one_line(describe(fix.change, lang), _COMMAND), "text"))
    return "\n\n".join(lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + " …"


def _folded(report: Report, lang: str) -> list[tuple[str, str]]:
    """Title and text of each folded part, the most useful first."""
    parts: list[tuple[str, str]] = []

    def add(title: str, body: str) -> None:
        if body:
            parts.append((title, details(title, body)))

    first = report.findings[0] if report.findings else None
    if first is not None:
        if first.fixes[1:]:
            add(
                say("other_fixes", lang, count=len(first.fixes) - 1),
                "\n\n".join(_fix(number, fix, lang) for number, fix in enumerate(first.fixes[1:], 2)),
            )
        add(say("trials", lang), _trials(report, lang))
        add(say("more_proof", lang), _more(first, lang))
    if report.findings[1:]:
        body = "\n\n".join(_finding(finding, lang, first=False) for finding in report.findings[1:])
        add(say("other_findings", lang, count=len(report.findings) - 1), body)
    add(say("timeline", lang), _timeline(report, lang))
    add(say("memory", lang), _memory(report, lang))
    if report.command is not None:
        add(say("command", lang), fence(_cut(shlex.join(report.command), _COMMAND), "sh"))
    add(say("facts", lang), _facts(report, lang))
    return parts


def _more(finding: Finding, lang: str) -> str:
    lines = [_proof(finding, at, lang) for at in range(1, min(len(finding.evidence), 6))]
    if finding.symptoms:
        lines.append(f"{say('explains', lang)}: " + ", ".join(code(one) for one in finding.symptoms))
    if finding.references:
        lines.append(f"{say('references', lang)}: " + " ".join(link(one) for one in finding.references))
    lines.append(prose(word("more", lang).format(rule=finding.rule)))
    return "\n\n".join(lines)


def _trials(report: Report, lang: str) -> str:
    if not report.trials:
        return ""
    head = ["#", say("result", lang), say("took", lang), say("change", lang)]
    rows = [
        [
            str(number),
            word(trial.verdict, lang),
            f"{trial.seconds:.1f}",
            code(one_line(describe(trial.change, lang), 400)) if trial.change else prose(word("unchanged", lang)),
        ]
        for number, trial in enumerate(report.trials[:_ROWS], 1)
    ]
    command = working(report) if report.proof is None else None
    return table(head, rows) + (f"\n\n{fence(command, 'sh')}" if command and len(command) <= _COMMAND else "")


def _timeline(report: Report, lang: str) -> str:
    if not report.timeline:
        return ""
    head = [say(key, lang) for key in ("process", "step", "start", "took", "lines")]
    rows = [
        [
            code(one_line(span.process, 60)),
            code(span.step),
            _seconds(span.start),
            _took(span, lang),
            f"{span.first_line}-{span.last_line}",
        ]
        for span in report.timeline[:_ROWS]
    ]
    return table(head, rows) + (f"\n\n… +{len(report.timeline) - _ROWS}" if len(report.timeline) > _ROWS else "")


def _took(span: Span, lang: str) -> str:
    if span.start is None:
        return ""
    return say("open_end", lang) if span.end is None else f"{span.end - span.start:.1f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _memory(report: Report, lang: str) -> str:
    rows = [
        [code(" ".join(path)), one_line(shown, 60) if shown.replace(".", "").isdecimal() else code(one_line(shown, 60))]
        for path, shown in flat(report.memory, lang)[:_ROWS]
    ]
    return table([say("memory", lang), say("size", lang)], rows) if rows else ""


def flat(value: object, lang: str, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    """Nested figures as rows: the way to each, in words where known, and the figure (GiB with two places)."""
    if isinstance(value, Mapping):
        rows = [(key, one) for key, one in value.items() if key not in ("index", "name", "uuid")]
        return [row for key, one in rows for row in flat(one, lang, (*path, say(str(key), lang)))]
    if isinstance(value, list | tuple):
        return [
            row for at, one in enumerate(value) for row in flat(one, lang, (*path[:-1], _label(one, path[-1:], at)))
        ]
    if value is None:
        return []
    return [(path, f"{value:.2f}" if isinstance(value, float) else str(value))]


def _label(value: object, above: tuple[str, ...], at: int) -> str:
    """`GPU 0 NVIDIA L4`, else the name above with its number."""
    if isinstance(value, Mapping) and "index" in value:
        return f"GPU {value['index']} {value.get('name') or ''}".rstrip()
    return f"{above[0] if above else ''} {at}".strip()


def _facts(report: Report, lang: str) -> str:
    rows = [
        [code(name), code(one_line(_value(fact.value), 160)), code(fact.source)]
        for name, fact in sorted(report.facts.items())
    ]
    return table([say("fact", lang), say("value", lang), say("source", lang)], rows[: 2 * _ROWS]) if rows else ""


def _value(value: object) -> str:
    return ", ".join(_value(one) for one in value) if isinstance(value, tuple | list) else str(value)
