from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.model import Fact, FactValue
from vdoctor.rulebase.template import facts_of, facts_required, fill


def facts(**values: FactValue) -> dict[str, Fact]:
    return {name.replace("__", "."): Fact(value, "test") for name, value in values.items()}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("[[{gpu.cc} is old.]] It starts.", "It starts."),
        ("plain", "plain"),
        ("needs {gpu.min_cc}", "needs 7.5"),
        ("needs {gpu.min_cc}[[, this GPU has {gpu.cc}]]", "needs 7.5"),
        ("needs {gpu.min_cc}[[, has {gpu.min_cc}]]", "needs 7.5, has 7.5"),
        ("[[a {gpu.cc} ]][[b {gpu.min_cc}]]", "b 7.5"),
        ("[[{gpu.min_cc} and {gpu.cc}]]", ""),
        ("[[no fact]]", "no fact"),
        ("{gpu.cc}", None),
        ("{gpu.min_cc} {gpu.cc}", None),
        ('JSON {"a": 1} and {} and {A}', 'JSON {"a": 1} and {} and {A}'),
        ("[single] brackets", "[single] brackets"),
        ("[[open", "[[open"),
        ("", ""),
    ],
)
def test_fills_in_what_is_known(text: str, filled: str | None) -> None:
    assert fill(text, facts(gpu__min_cc=75)) == filled


def test_knows_the_facts_that_a_text_needs() -> None:
    text = "a {gpu.cc} [[b {port} c]] {gpu.cc}"
    assert facts_of(text) == {"gpu.cc", "port"}
    assert facts_required(text) == {"gpu.cc"}


@pytest.mark.parametrize(
    "value",
    [
        "{gpu.cc}",
        "[[hidden {gpu.cc}]]",
        "[[x]]",
        "]]",
        "{",
        "}}",
        "\\1",
        "\\g<0>",
        "{model.name}",
        "%s",
        "$HOME",
        "a\nb",
    ],
)
def test_a_captured_value_is_shown_as_text_and_never_filled_again(value: str) -> None:
    known = facts(model__name=value, gpu__cc=75)
    assert fill("model {model.name}!", known) == f"model {value}!"
    assert fill("[[model {model.name}]]!", known) == f"model {value}!"


@given(st.text(st.sampled_from("[]{}gpu.c a\\"), max_size=12), st.text(st.sampled_from("[]{}gpu.c a\\"), max_size=20))
def test_filling_never_fails_and_hides_no_captured_text(value: str, text: str) -> None:
    known = facts(gpu__cc=75, model__name=value)
    filled = fill(f"{text.replace('[[', '').replace(']]', '')} {{model.name}}", known)
    assert filled is None or filled.endswith(value)
    fill(text, known)
