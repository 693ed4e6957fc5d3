"""Errors in Chinese: no sentence of the table without an error that says it, none with other gaps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from vdoctor.report.error_words import sentences, translated

PACKAGE = Path(__file__).parent.parent.parent / "vdoctor"
#: Put together from pieces in the loader of rules.
COMPOSED = ("{path}: {key}: missing", "help: add {text}")
_GAP = re.compile(r"\{\w+\}")
#: click raises these; tests/commands/test_errors.py makes it say them.
CLICK = ("No such ", "Missing ", "Option ", "Got unexpected", "Invalid value")


def _texts() -> set[str]:
    """All texts of the package, `{}` for what is filled in."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.name == "error_words.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.add("".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values))
    return found


TEXTS = _texts()


@pytest.mark.parametrize(
    "english", [english for english, _ in sentences() if not english.startswith((*CLICK, *COMPOSED))]
)
def test_somebody_says_it(english: str) -> None:
    wanted = re.compile(".+".join(re.escape(part) for part in _GAP.split(english)))
    assert any(wanted.fullmatch(text) for text in TEXTS)


@pytest.mark.parametrize(("english", "chinese"), sentences())
def test_chinese_has_the_same_gaps(english: str, chinese: str) -> None:
    assert sorted(_GAP.findall(english)) == sorted(_GAP.findall(chinese))
    values = {name.strip("{}"): f"<{at}>" for at, name in enumerate(_GAP.findall(english))}
    assert translated(english.format(**values), "zh") == chinese.format(**values)
    assert translated(english.format(**values), "en") == english.format(**values)


def test_reasons_of_the_system_are_translated_and_what_is_unknown_stays() -> None:
    assert translated("/x: cannot be read: Permission denied", "zh") == "/x：无法读取：权限不足"
    assert translated("/x: does what nobody knows\n  /y: is empty", "zh") == "/x: does what nobody knows\n  /y：是空的"


def test_long_hostile_text_is_left_alone() -> None:
    text = ": " * 500_000
    assert translated(text, "zh") == text
