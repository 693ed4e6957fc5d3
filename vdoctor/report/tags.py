"""HTML elements as text. Everything that goes in is escaped; control characters are removed."""

from __future__ import annotations

import html
from collections.abc import Iterable

from vdoctor.intake.clean import clean

_EMPTY = frozenset({"meta", "br", "rect", "line", "path", "polyline"})


class Html(str):
    """Finished HTML: not escaped again."""

    __slots__ = ()


def esc(text: object) -> Html:
    """Text for an element or an attribute; HTML stays."""
    if isinstance(text, Html):
        return text
    return Html(html.escape("\n".join(clean(line) for line in str(text).split("\n"))))


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """`<name a="b">content</name>`. `class_` is class, `aria_label` is aria-label; None and False leave one out."""
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-') if key not in _CAMEL else _CAMEL[key]}"
        + ("" if value is True else f'="{esc(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY and not content:
        return Html(f"<{name}{shown}>" if name in ("meta", "br") else f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>" + "".join(esc(one) for one in content) + f"</{name}>")


def join(parts: Iterable[Html | str], between: str = "\n") -> Html:
    """HTML parts in a row."""
    return Html(between.join(esc(part) for part in parts))


#: SVG's attributes that are written with capitals.
_CAMEL = {"view_box": "viewBox", "preserve_aspect_ratio": "preserveAspectRatio"}
