"""Make a line of a hostile log safe to match and to show."""

from __future__ import annotations

import re

# CSI (colours, cursor), OSC and other string sequences (titles, links), two-byte escapes, C1 forms. A string
# sequence without its end would hide the rest of the line (an emoji decoded twice holds U+009D): its text stays.
# A pasted log often lost the escape byte itself and kept "[1;36m": only colour codes are taken then.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
    r"|\[(?:0|[01];3[0-9]|3[0-9]|0;0|1)m(?=[(\w\x1b\s]|\[?\w+\.py|$)"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Remove terminal control sequences, control characters, direction marks and half characters from one line."""
    printable = text.isprintable()
    if "\x1b" in text or "[0" in text or "[3" in text or "[1" in text or not (printable or text.isascii()):
        text = _SEQUENCES.sub("", text)
    return text if printable else _CONTROLS.sub("", text)
