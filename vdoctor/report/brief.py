"""The diagnosis in a few lines, for places with little room (Kubernetes' termination message)."""

from __future__ import annotations

from vdoctor.intake.clean import clean
from vdoctor.model import Report
from vdoctor.report.json import pick
from vdoctor.report.words import word


def brief(report: Report, lang: str, most: int) -> bytes:
    """Verdict, first finding, its proof and the corrected command in at most `most` bytes of UTF-8."""
    place = f" {word('in', lang)} {report.step or report.phase}" if report.phase else ""
    lines = [f"vdoctor: {word(report.verdict, lang)}{place}"]
    if report.findings:
        first = report.findings[0]
        lines += [f"{first.id} ({word(first.confidence, lang)}): {pick(first.title, lang)}", pick(first.why, lang)]
        if first.evidence:
            proof = first.evidence[0]
            lines.append(f"{word('proof', lang)}: {proof.line}: {proof.text[:500]}")
        fix = next((fix for fix in first.fixes if fix.safety != "manual"), first.fixes[0] if first.fixes else None)
        if fix is not None:
            lines.append(f"{word('fix', lang)}: {pick(fix.title, lang)}")
            lines += [fix.command] if fix.command else []
    text = "\n".join(clean(line) for line in lines if line).encode("utf-8", "replace")
    # Not in the middle of a character.
    return text[:most].decode("utf-8", "ignore").encode("utf-8")
