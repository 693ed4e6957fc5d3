"""One HTML file around some content: no script, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib

from vdoctor import __version__
from vdoctor.report.page_style import STYLE
from vdoctor.report.page_words import say
from vdoctor.report.tags import Html, tag


def document(title: str, content: Html, lang: str) -> str:
    """The whole file."""
    body = tag(
        "body",
        tag("a", say("skip", lang), href="#main", class_="skip"),
        tag("main", content, id="main", tabindex=-1),
        tag("footer", tag("p", say("made_by", lang, version=__version__))),
    )
    # The hash of the only style allows it, and nothing else: no script, no image, no font, no form.
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        Html('<meta charset="utf-8">'),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title[:200]),
        Html(f"<style>{STYLE}</style>"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='zh-CN' if lang == 'zh' else 'en')}\n"
