"""Findings of the HTML report: cause, proof with the log around it, fixes."""

from __future__ import annotations

from vdoctor.model import Evidence, Finding, Fix
from vdoctor.report.curves import Recording
from vdoctor.report.json import pick
from vdoctor.report.marks import is_link
from vdoctor.report.page_words import say
from vdoctor.report.tags import Html, join, tag
from vdoctor.report.text import describe

_MAX_EVIDENCE, _MAX_TEXT = 12, 4000


def finding(one: Finding, recording: Recording, lang: str, *, level: int = 3) -> Html:
    """The whole finding; `level` is that of its heading."""
    title = tag(
        f"h{level}",
        pick(one.title, lang),
        " ",
        tag("span", one.id, class_="tag"),
        " ",
        tag("span", say(one.confidence, lang), class_="tag"),
    )
    parts = [title, tag("p", pick(one.why, lang))]
    if one.evidence:
        parts.append(_proof(one.evidence[0], recording, lang))
    parts += [_fix(number, fix, lang, level + 1) for number, fix in enumerate(one.fixes, 1)]
    if len(one.evidence) > 1:
        rest = join(_proof(evidence, recording, lang) for evidence in one.evidence[1:_MAX_EVIDENCE])
        parts.append(fold(say("more_proof", lang), rest))
    if one.symptoms:
        parts.append(
            tag("p", f"{say('explains', lang)}: ", join((tag("code", symptom) for symptom in one.symptoms), ", "))
        )
    if one.references:
        parts.append(
            tag(
                "p",
                f"{say('references', lang)}: ",
                join((_link(address) for address in one.references), " "),
                class_="small",
            )
        )
    return tag("article", join(parts))


def fold(summary: str, body: Html) -> Html:
    """A folded part."""
    return tag("details", tag("summary", summary), body)


def command_block(command: str, lang: str) -> Html:
    """A command to paste; it can be reached with the keyboard, since long ones scroll."""
    return tag("pre", tag("code", command), class_="command", tabindex=0, role="group", aria_label=say("command", lang))


def _proof(evidence: Evidence, recording: Recording, lang: str) -> Html:
    place = say("proof_line", lang, line=evidence.line)
    if evidence.process:
        place = say("of_process", lang, place=place, process=evidence.process)
    around = recording.around.get(evidence.line)
    if not around:
        return tag(
            "figure",
            tag("figcaption", place),
            tag("pre", evidence.text[:_MAX_TEXT], tabindex=0, role="group", aria_label=place),
        )
    rows = [
        tag(
            "li",
            tag("span", number, class_="no"),
            tag("mark" if number == evidence.line else "span", text or " ", class_="text"),
            class_="hit" if number == evidence.line else None,
        )
        for number, text in around
    ]
    # The line may have been cut or cleaned: the evidence itself is always there, too.
    shown = any(number == evidence.line and evidence.text[:40] in text for number, text in around)
    exact = Html("") if shown else tag("pre", evidence.text[:_MAX_TEXT], tabindex=0, role="group", aria_label=place)
    name = f"{say('context', lang)}: {place}"
    return tag(
        "figure",
        tag("figcaption", place),
        exact,
        tag("div", tag("ol", join(rows, "")), class_="log", tabindex=0, role="group", aria_label=name),
    )


def _fix(number: int, fix: Fix, lang: str, level: int) -> Html:
    parts = [
        tag(f"h{min(level, 6)}", say("fix_n", lang, number=number, safety=say(fix.safety, lang))),
        tag("p", pick(fix.title, lang)),
    ]
    if fix.cost:
        parts.append(tag("p", f"{say('price', lang)}: {pick(fix.cost, lang)}", class_="dim"))
    if fix.command:
        parts.append(command_block(fix.command, lang))
    elif fix.change:
        parts.append(tag("pre", describe(fix.change, lang), tabindex=0, role="group", aria_label=say("change", lang)))
    return tag("div", join(parts), class_=f"fix {fix.safety}")


def _link(address: str) -> Html:
    return tag("a", address, href=address, rel="noreferrer noopener") if is_link(address) else tag("code", address)
