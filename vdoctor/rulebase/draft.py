"""A first draft of a rule from one line of a log."""

from __future__ import annotations

import re

from vdoctor.rulebase.schema import LANGUAGES

#: What the author must replace; lint does not let it pass.
TODO = "TODO"
_NUMBER = re.compile(r"\d+(?:\\?\.\d+)?")
_VALUE = re.compile(r"(?:/[\w.\-]+){2,}|0x[0-9a-f]+")


def draft(rule_id: str, cause: str, phase: str | None, message: str) -> str:
    """TOML text: the message as signal (numbers, paths and addresses opened) and as first example."""
    phases = (
        f'phases = ["{phase}"]'
        if phase
        else "# phases = [...]                       # where the message can come; leave out for anywhere"
    )
    texts = "\n".join(f'[text.{lang}]\ntitle = "{TODO}"\ncause = "{TODO}"\nfix.advice = "{TODO}"' for lang in LANGUAGES)
    return f"""schema = 1
id = "{rule_id}"
cause = "{cause}"
status = "experimental"
{phases}
references = ["{TODO}"]

[[signal]]
regex = {_literal(signal(message))}

[[fix]]
id = "advice"
safety = "manual"

{texts}

[[example]]
match = true
log = {_literal(message)}
[[example]]
match = false
why = "{TODO}: the nearest message that this rule must leave alone"
log = "{TODO}"
"""


def signal(message: str) -> str:
    """A regex for the message: its words stay, its values may vary."""
    parts: list[str] = []
    at = 0
    for value in _VALUE.finditer(message):
        parts += [_words(message[at : value.start()]), r"\S+"]
        at = value.end()
    parts.append(_words(message[at:]))
    return "".join(parts)


def _words(text: str) -> str:
    escaped = re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text)
    return _NUMBER.sub(lambda found: r"\d+(?:\.\d+)?" if "." in found[0] else r"\d+", escaped)


def _literal(text: str) -> str:
    """A TOML string: literal where it can be, else with escapes."""
    if "'" not in text:
        return f"'{text}'"
    if "'''" not in text and not text.endswith("'"):
        return f"'''{text}'''"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
