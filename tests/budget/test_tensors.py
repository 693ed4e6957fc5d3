"""Headers of safetensors files: what they hold, and every way in which they lie."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget.checkpoints import data_size, header
from vdoctor.budget.tensors import MAX_HEADER, Tensor, header_length, parse_header
from vdoctor.errors import UserError

GOOD = header({"a.weight": ("BF16", (3, 5)), "b.weight": ("F8_E4M3", (7,))})


def parse(head: bytes, data: int) -> list[Tensor]:
    return parse_header(head, 8 + len(head) + data, "x.safetensors")


def test_tensors_of_a_true_header() -> None:
    assert parse(GOOD, 37) == [Tensor("a.weight", "BF16", (3, 5), 30), Tensor("b.weight", "F8_E4M3", (7,), 7)]


def test_metadata_is_no_tensor() -> None:
    assert parse(json.dumps({"__metadata__": {"format": "pt"}}).encode(), 0) == []


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> bytes:
    return json.dumps({"t": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}).encode()


@pytest.mark.parametrize(
    ("head", "data", "says"),
    [
        (entry(), 7, "ends at byte 8, the file has room for 7"),
        (entry(shape=[3]), 8, "is 12 bytes, the header gives 8"),
        (entry(shape=[-2]), 8, "impossible shape"),
        (entry(shape=[True, 2]), 8, "impossible shape"),
        (entry(shape="2"), 8, "impossible shape"),
        (entry(shape=[1 << 70]), 8, "impossible shape"),
        (entry(offsets=[8, 0]), 8, "impossible place"),
        (entry(offsets=[0, 4, 8]), 8, "impossible place"),
        (entry(offsets=[-8, 0]), 8, "impossible shape or place"),
        (entry(dtype="F128"), 8, "unknown type F128"),
        (entry(dtype=None), 8, "unknown type None"),
        (b'{"t": 3}', 8, "no description"),
        (b"[]", 0, "not a JSON object"),
        (b"{", 0, "not JSON"),
        (b"\xff\xfe", 0, "not JSON"),
        (b"[" * 100_000, 0, "not JSON"),
        (b'{"t": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 8]}}', 8, "impossible"),
    ],
)
def test_headers_that_lie(head: bytes, data: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse(head, data)


def test_tensors_may_not_share_bytes() -> None:
    shared = {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in ("a", "b")}
    with pytest.raises(UserError, match="tensors of 16 bytes in a file with room for 8"):
        parse(json.dumps(shared).encode(), 8)


@pytest.mark.parametrize(
    ("first", "size", "says"),
    [
        (b"", 0, "too short"),
        (b"\x01\x02", 2, "too short"),
        ((MAX_HEADER + 1).to_bytes(8, "little"), 1 << 40, "cannot be"),
        ((1 << 63).to_bytes(8, "little"), 1 << 40, "cannot be"),
        ((500).to_bytes(8, "little"), 507, "the header says 500 bytes, the file ends after 507"),
    ],
)
def test_lengths_that_cannot_be(first: bytes, size: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        header_length(first, size, "x.safetensors")


@given(st.binary(max_size=200), st.integers(0, 1000))
def test_any_bytes_end_in_a_message(head: bytes, data: int) -> None:
    try:
        parse(head, data)
    except UserError as error:
        assert error.what.startswith("x.safetensors: ")


@given(
    st.dictionaries(
        st.text(max_size=5), st.tuples(st.sampled_from(["BF16", "F32", "I8"]), st.lists(st.integers(0, 9), max_size=3))
    )
)
def test_what_is_written_is_read(tensors: dict[str, tuple[str, list[int]]]) -> None:
    tensors.pop("__metadata__", None)
    head = header(tensors)
    assert {one.name: (one.dtype, list(one.shape)) for one in parse(head, data_size(head))} == {
        name: (dtype, shape) for name, (dtype, shape) in tensors.items()
    }
