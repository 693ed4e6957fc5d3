from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.facts.arguments import parse_arguments


@pytest.mark.parametrize(
    ("message", "values"),
    [
        (
            "non-default args: {'model_tag': 'm', 'port': 9101, 'max_model_len': 512, 'gpu_memory_utilization': 0.95}",
            {"model_tag": "m", "port": 9101, "max_model_len": 512, "gpu_memory_utilization": 0.95},
        ),
        ("non-default args: {}", {}),
        (
            "non-default args: {'a': None, 'b': True, 'c': ['x', 'y'], 'd': {'e': [1, 2]}, 'f': -1}",
            {"a": None, "b": True, "c": ["x", "y"], "d": {"e": [1, 2]}, "f": -1},
        ),
        (
            "non-default args: {'a': \"it's\", 'b': 'x, y: {z}', 'c': '\\\\'}",
            {"a": "it's", "b": "x, y: {z}", "c": "\\"},
        ),
        # values that are no literals are left out
        (
            "non-default args: {'model': 'm', 'compilation_config': CompilationConfig(level=3, x={'a': 1}), 'dtype': torch.bfloat16, 'port': 9}",
            {"model": "m", "port": 9},
        ),
        (
            "non-default args: {'f': <function ServeSubcommand.cmd at 0x7f3a>, 'e': <Enum.A: 1>, 'd': {'b': 1}}",
            {"d": {"b": 1}},
        ),
        # V0
        (
            "args: Namespace(host=None, port=8000, model='m', lora=[], f=<function x at 0x7f>, cfg=Config(a='b, c', d=2), u=0.9, e=False)",
            {"host": None, "port": 8000, "model": "m", "lora": [], "u": 0.9, "e": False},
        ),
        (
            "args: Namespace(a='x=1, y=2', b='(', c=\")\", model='m')",
            {"a": "x=1, y=2", "b": "(", "c": ")", "model": "m"},
        ),
        ("args: Namespace()", {}),
        ("args: {'model': 'm'}", {"model": "m"}),
    ],
)
def test_reads_what_vllm_prints(message: str, values: dict[str, Any]) -> None:
    assert parse_arguments(message) == values


@pytest.mark.parametrize(
    "message", ["", "args", "args: ", "args: none", "the args: {}", "non-default args: []", "Args: {'a': 1}"]
)
def test_other_messages_are_no_arguments(message: str) -> None:
    assert parse_arguments(message) is None


@pytest.mark.parametrize(
    ("message", "values"),
    [
        ("non-default args: {'model': 'm', 'max_model_len': 51", {"model": "m"}),
        ("non-default args: {'model': 'm', 'served_model_name': 'abc", {"model": "m"}),
        ("non-default args: {'model': 'm', 'port':", {"model": "m"}),
        ("non-default args: {'model': 'm', 'po", {"model": "m"}),
        ("args: Namespace(model='m', port=80", {"model": "m"}),
        ("args: Namespace(model='m', x=[1, 2", {"model": "m"}),
        ("non-default args: {", {}),
        ("args: Namespace(", {}),
    ],
)
def test_a_cut_line_keeps_what_is_surely_whole(message: str, values: dict[str, Any]) -> None:
    assert parse_arguments(message) == values


@given(st.integers(19, 200))
def test_a_cut_never_invents_a_value(length: int) -> None:
    message = (
        "non-default args: {'model': 'org/m', 'port': 8000, 'gpu_memory_utilization': 0.95, 'a': [10, 20], 'b': 'x, y'}"
    )
    whole = parse_arguments(message)
    part = parse_arguments(message[:length])
    assert whole is not None
    if part is not None:
        assert part.items() <= whole.items()


keys = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
literals = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(keys, literals, max_size=6))
def test_the_printed_dictionary_is_read_back(values: dict[str, Any]) -> None:
    assert parse_arguments(f"non-default args: {values!r}") == values


@given(st.dictionaries(keys, literals, max_size=6))
def test_the_printed_namespace_is_read_back(values: dict[str, Any]) -> None:
    body = ", ".join(f"{key}={value!r}" for key, value in values.items())
    assert parse_arguments(f"args: Namespace({body})") == values


@given(st.text(max_size=60))
def test_any_text_can_be_given(text: str) -> None:
    parse_arguments("non-default args: {" + text)
    parse_arguments("args: Namespace(" + text + ")")


@pytest.mark.parametrize("bracket", ["(", "[", "{", "-", "not "])
def test_deep_nesting_breaks_nothing(bracket: str) -> None:
    values = parse_arguments("non-default args: {'a': " + bracket * 20000 + "1, 'model': 'm'}")
    assert values is not None
