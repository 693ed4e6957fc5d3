from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vdoctor.intake.patterns import MIN_LITERAL, PatternSet, required_literals


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("Loading weights took", {"Loading weights took"}),
        (r"took (\d+) seconds", {" seconds"}),
        ("(?:Loading|Reading) weights took", {" weights took"}),
        ("alpha|beta", {"alpha", "beta"}),
        ("(?P<a>abcd)?efgh", {"efgh"}),
        ("(?:abcdef)+g", {"abcdef"}),
        ("(?:abcdef)*gh", {"gh"}),
        ("(?:abcdef){2,3}gh", {"abcdef"}),
        ("^start$", {"start"}),
        (r"\bword\b", {"word"}),
        ("abc(?=defghi)", {"abc"}),
        ("abc(?!defghi)", {"abc"}),
        ("(?<=abcdef)gh", {"gh"}),
        ("[ab]cdef[gh]", {"cdef"}),
        ("a.bcdef", {"bcdef"}),
        (r"4\.2 GiB", {"4.2 GiB"}),
        ("(?i:abcdef)gh", {"gh"}),
        ("(?i:abcdef)", set()),
        ("(?i)abcdef", set()),
        ("(?x) ab cd  # comment", {"abcd"}),
        ("a|bcdef", {"a", "bcdef"}),
        ("x?", set()),
        (".*", set()),
        ("", set()),
        ("abcdef|", set()),
    ],
)
def test_finds_what_every_match_must_contain(pattern: str, literals: set[str]) -> None:
    assert required_literals(pattern) == literals


letters = st.text(st.sampled_from("abA. (["), min_size=1, max_size=4).map(re.escape)
atoms = st.one_of(
    letters,
    st.sampled_from(
        [".", r"\d", r"\w", "[ab]", "[^b]", r"\b", "^", "$", "(?=a)", "(?!a)", "(?<=a)", "(?<!b)", "(?i:aB)"]
    ),
)
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "{0,1}", "??", "+?"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"(?i:{one})"),
        st.just("(a)?(?(1)b|a)"),
    ),
    max_leaves=8,
)
noise = st.text(st.sampled_from("abAB. 1(["), max_size=6)


def compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


@given(st.data(), patterns, noise, noise)
def test_any_text_that_matches_contains_one_of_the_literals(
    data: st.DataObject, pattern: str, before: str, after: str
) -> None:
    assume(compiles(pattern))
    literals = required_literals(pattern)
    text = before + data.draw(st.from_regex(pattern).filter(lambda one: len(one) < 200)) + after
    found = re.search(pattern, text)
    assume(found is not None)
    assert found is not None
    assert not literals or any(literal in found.group() for literal in literals)


@given(patterns, st.lists(noise, max_size=8))
def test_no_short_text_escapes_the_literals(pattern: str, texts: list[str]) -> None:
    assume(compiles(pattern))
    literals = required_literals(pattern)
    for text in texts:
        if literals and not any(literal in text for literal in literals):
            assert re.search(pattern, text) is None


@pytest.mark.parametrize("pattern", ["abc", ".*", r"\d+ ", "(?i)long enough", "abcd|ef"])
def test_a_pattern_without_a_usable_literal_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="no literal"):
        PatternSet([pattern])


def test_hits_come_in_the_order_of_the_list_with_their_match() -> None:
    patterns = PatternSet([r"beta (?P<n>\d+)", "alpha", "never there"])
    assert [(index, found.group()) for index, found in patterns.hits("alpha beta 12")] == [(0, "beta 12"), (1, "alpha")]


def test_a_literal_alone_is_no_hit() -> None:
    assert PatternSet([r"took \d+ seconds"]).hits("took some seconds") == []


def test_literals_inside_one_another_are_all_found() -> None:
    patterns = PatternSet(["weights", "eight", "Loading weights took", "ghts took"])
    assert [index for index, _ in patterns.hits("Loading weights took")] == [0, 1, 2, 3]


def test_one_hit_for_a_pattern_whose_literal_comes_often() -> None:
    assert len(PatternSet(["again"]).hits("again " * 1000)) == 1


def test_an_empty_set_finds_nothing() -> None:
    assert PatternSet([]).hits("text") == []


def test_characters_of_all_scripts_do_not_shift_the_matches() -> None:
    patterns = PatternSet([r"█ version (?P<v>\S+)", "模型加载失败"])
    hits = patterns.hits("🚀🚀 █ version 0.32.0 模型加载失败")
    assert [found.group() for _, found in hits] == ["█ version 0.32.0", "模型加载失败"]


@given(
    st.lists(
        st.sampled_from(["took \\d+ s", "Load(?:ing)? model", "model|weights", "GiB.*free", "free$"]), unique=True
    ),
    st.lists(
        st.sampled_from(["took 5 s", "Load", "ing model", "weights", " GiB ", "free", "\U0001f600", "é"]), max_size=8
    ),
)
def test_finds_the_same_as_trying_every_pattern(chosen: list[str], words: list[str]) -> None:
    text = "".join(words)
    usable = [pattern for pattern in chosen if min(map(len, required_literals(pattern)), default=0) >= MIN_LITERAL]
    found = [index for index, _ in PatternSet(usable).hits(text)]
    assert found == [index for index, pattern in enumerate(usable) if re.search(pattern, text)]
