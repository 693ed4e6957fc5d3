"""Rules that tests write themselves, and logs read with them."""

from __future__ import annotations

from vdoctor.diagnose import Examination
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse_text
from vdoctor.model import Fact, FactValue, Line, Report, Source
from vdoctor.rulebase.loader import load
from vdoctor.rulebase.schema import RuleBase

API, CORE, WORKER = "APIServer pid=1", "EngineCore pid=2", "Worker_TP0 pid=3"


def rule(name: str, tables: str = "", top: str = "", *, cause: str = "", en: str = "", zh: str = "") -> str:
    """The text of a rule file. `top` holds keys, `tables` the [[...]], `en` and `zh` more texts."""
    return f"""
schema = 1
id = "{name}"
cause = "{cause or name}"
status = "test"
{top}
{tables}
[text.en]
title = "title of {name}"
cause = "why"
{en}
[text.zh]
title = "标题"
cause = "原因"
{zh}
"""


def signal(regex: str, more: str = "") -> str:
    return f"[[signal]]\nregex = '{regex}'\n{more}\n"


def base(*rules: str) -> RuleBase:
    return load((f"rule {number}", text) for number, text in enumerate(rules, 1))


def line(text: str, process: str = CORE, level: str = "ERROR", seconds: int = 0) -> str:
    """A record of vLLM, as many lines as the text has."""
    tag = f"({process}) " if process else ""
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return "\n".join(f"{tag}{level} 12-01 {clock} [core.py:97] {part}" for part in text.split("\n"))


def traceback(error: str, *frames: str) -> str:
    lines = ["Traceback (most recent call last):"]
    for name in frames:
        lines += [f'  File "/opt/{name}.py", line 7, in {name}', f"    {name}()"]
    return "\n".join([*lines, error])


def examine(rules: RuleBase, log: str, command: str = "", **facts: FactValue) -> Report:
    """The report on a log; facts are named with __ for the dot."""
    given = {name.replace("__", "."): Fact(value, "given") for name, value in facts.items()}
    launch = parse_text(command) if command else None
    examination = Examination(rules, option_tables.load(), launch, given)
    examination.feed(Line(no, text) for no, text in enumerate(log.splitlines(), 1))
    return examination.report(Source("file", "test"))


def found(rules: RuleBase, log: str, **facts: FactValue) -> list[str]:
    """Ids of the findings, best first; an error that no rule knows is left out."""
    return [finding.id for finding in examine(rules, log, **facts).findings if finding.id != "unknown.error"]
