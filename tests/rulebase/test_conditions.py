from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.model import Fact, FactValue
from vdoctor.rulebase.conditions import EXISTENCE, OPERATORS, all_hold, holds, missing
from vdoctor.rulebase.schema import When


def facts(**values: FactValue) -> dict[str, Fact]:
    return {name.replace("__", "."): Fact(value, "test") for name, value in values.items()}


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("==", "awq", "awq", True),
        ("==", 75, 75.0, True),
        ("==", "75", 75, False),
        ("!=", "awq", "gptq", True),
        ("<", 70, 75, True),
        ("<", 75, 75, False),
        ("<=", 75, 75, True),
        (">", 0.9, 0.5, True),
        (">=", 75, 80, False),
        (">=", 75, 75, True),
        (">", 75, 75, False),
        ("in", "awq", ["awq", "gptq"], True),
        ("in", "fp8", ["awq"], False),
        ("in", 2, (1, 2), True),
        ("not_in", "fp8", ["awq"], True),
        ("contains", "a100-sxm", "a100", True),
        ("contains", (1, 2), 2, True),
        ("contains", (1, 2), 3, False),
        ("contains_any", "poll\nncclCommInitRank", ["ncclCommInitRank", "barrier"], True),
        ("contains_any", "poll\nwait", ["ncclCommInitRank", "barrier"], False),
        ("contains_any", 7, ["barrier"], None),
        ("nonempty", "x", None, True),
        ("nonempty", "", None, False),
        ("nonempty", (), None, False),
        ("version", "0.11.0", ">=0.11,<0.14", True),
        ("version", "0.14.0", ">=0.11,<0.14", False),
        # a build of the main branch carries the number of the release to come
        ("version", "0.11.1rc2.dev5+g1a2b3c", ">=0.11,<0.14", True),
        ("version", "0.14.0rc1", "<0.14", False),
        ("version", "0.6.6.post1", "==0.6.6", True),
    ],
)
def test_decides_what_can_be_decided(op: str, left: FactValue, right: Any, result: bool) -> None:
    assert holds(When("a.b", op, right), facts(a__b=left)) is result


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_an_unknown_fact_leaves_it_open_and_is_named(op: str) -> None:
    when = When("gpu.cc", op, 75)
    assert holds(when, facts(other=1)) is None
    assert missing(when, facts(other=1)) == ("gpu.cc",)


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [
        ("<", "70", 75),
        ("<", (1,), 75),
        (">", "auto", 0.9),
        ("in", 1, 5),
        ("contains", 5, 1),
        ("contains", "text", 1),
        ("version", "main", ">=0.11"),
        ("version", "", ">=0.11"),
        ("version", "0.11", "about 0.11"),
    ],
)
def test_values_that_cannot_be_compared_leave_it_open(op: str, left: FactValue, right: Any) -> None:
    assert holds(When("a.b", op, right), facts(a__b=left)) is None


@pytest.mark.parametrize(("op", "known", "unknown"), [("known", True, False), ("unknown", False, True)])
def test_whether_a_fact_is_known_is_never_open(op: str, known: bool, unknown: bool) -> None:
    when = When("a.b", op)
    assert holds(when, facts(a__b=0)) is known
    assert holds(when, {}) is unknown
    assert missing(when, {}) == ()


def test_compares_two_facts() -> None:
    when = When("tp.size", ">", than="gpu.count")
    assert holds(when, facts(tp__size=8, gpu__count=4)) is True
    assert holds(when, facts(tp__size=4, gpu__count=4)) is False
    assert holds(when, facts(tp__size=8)) is None
    assert missing(when, {}) == ("tp.size", "gpu.count")
    assert missing(when, facts(tp__size=8)) == ("gpu.count",)


YES, NO, OPEN = When("yes", "==", 1), When("yes", "==", 2), When("open", "==", 1)


@pytest.mark.parametrize(
    ("whens", "result"),
    [
        ((), True),
        ((YES,), True),
        ((YES, NO), False),
        ((YES, OPEN), None),
        # one that is surely false decides, whatever else is open
        ((OPEN, NO), False),
        ((NO, OPEN), False),
        ((OPEN, OPEN), None),
    ],
)
def test_all_must_hold(whens: tuple[When, ...], result: bool | None) -> None:
    assert all_hold(whens, facts(yes=1)) is result


values = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=6), st.lists(st.integers(), max_size=2).map(tuple)
)
rule_values = st.one_of(values, st.none(), st.lists(values, max_size=3), st.sampled_from([">=0.11", "<1,>=", "~="]))


@given(st.sampled_from([*OPERATORS, *EXISTENCE]), values, rule_values)
def test_no_pair_of_values_breaks_a_condition(op: str, left: FactValue, right: Any) -> None:
    assert holds(When("a", op, right), facts(a=left)) in (True, False, None)
