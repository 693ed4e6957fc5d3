from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.facts.derive import derive
from vdoctor.facts.registry import FACTS
from vdoctor.model import Fact, FactValue


def derived(name: str, **values: FactValue) -> FactValue | None:
    facts = derive({key.replace("__", "."): Fact(value, "log:1") for key, value in values.items()})
    return facts[name].value if name in facts else None


@pytest.mark.parametrize(
    ("version", "utilization"),
    [
        ("0.5.5", 0.9),
        ("0.18.1", 0.9),
        ("0.19.1", 0.9),
        ("0.20.0", 0.92),
        ("0.33.0", 0.92),
        ("0.11.1rc2.dev5+g1a2b3c", 0.9),
        ("main", None),
        ("", None),
    ],
)
def test_the_default_utilization_of_a_release(version: str, utilization: float | None) -> None:
    assert derived("mem.utilization", vllm__version=version, launch__layer="bare") == utilization


def test_a_stated_value_is_never_replaced() -> None:
    facts = derive({"vllm.version": Fact("0.20.0", "log:1"), "mem.utilization": Fact(0.5, "argv")})
    assert facts["mem.utilization"] == Fact(0.5, "argv")


def test_without_the_command_the_default_is_not_known_to_be_in_force() -> None:
    assert derived("mem.utilization", vllm__version="0.20.0") is None


def test_a_derived_value_says_so() -> None:
    assert (
        derive({"vllm.version": Fact("0.20.0", "log:1"), "launch.layer": Fact("bare", "argv")})[
            "mem.utilization"
        ].source
        == "derived"
    )


@pytest.mark.parametrize(
    ("total", "free", "used"), [(79.25, 60.0, 19.25), (24.0, 24.0, 0.0), (24.0, 30.0, None), (0.0, 0.0, 0.0)]
)
def test_memory_in_use_at_the_start(total: float, free: float, used: float | None) -> None:
    assert derived("gpu.used_gib", gpu__total_gib=total, gpu__free_gib=free) == used


@pytest.mark.parametrize(
    ("total", "free", "value"),
    [
        (79.25, 60.0, 0.74),
        (80.0, 40.0, 0.49),
        (80.0, 24.0, None),
        (80.0, 25.0, 0.3),
        (80.0, 1.2, None),
        (80.0, 80.0, 0.98),
        (40.0, 80.0, 0.98),
        (0.0, 10.0, None),
    ],
)
def test_the_utilization_that_the_free_memory_allows(total: float, free: float, value: float | None) -> None:
    found = derived("mem.utilization_fits_free", gpu__total_gib=total, gpu__free_gib=free)
    assert found == value
    if isinstance(found, float) and free <= total:
        assert found * total <= free


@pytest.mark.parametrize(("now", "value"), [(0.9, 0.85), (0.92, 0.87), (0.35, 0.3), (0.34, None), (1.0, 0.95)])
def test_the_next_lower_utilization(now: float, value: float | None) -> None:
    assert derived("mem.utilization_lower", mem__utilization=now) == value


@pytest.mark.parametrize(
    ("facts", "value"),
    [
        ({"mem__utilization": 0.9}, 0.95),
        ({"mem__utilization": 0.93}, 0.98),
        ({"mem__utilization": 0.95}, None),
        # the shortfall that the log states, and one GiB of cache on top
        ({"mem__utilization": 0.5, "mem__kv_available_gib": -3.0, "gpu__total_gib": 80.0}, 0.55),
        ({"mem__utilization": 0.5, "mem__kv_available_gib": 0.0, "gpu__total_gib": 80.0}, 0.52),
        ({"mem__utilization": 0.9, "mem__kv_available_gib": -30.0, "gpu__total_gib": 80.0}, None),
        # never more than is free
        ({"mem__utilization": 0.9, "gpu__free_gib": 75.0, "gpu__total_gib": 80.0}, None),
        ({"mem__utilization": 0.9, "gpu__free_gib": 79.0, "gpu__total_gib": 80.0}, 0.95),
    ],
)
def test_the_next_higher_utilization(facts: dict[str, float], value: float | None) -> None:
    assert derived("mem.utilization_higher", **facts) == value


@pytest.mark.parametrize(
    ("estimate", "length"),
    [
        (26112, 26112),
        (26113, 26112),
        (4096, 4096),
        (4095, 4080),
        (4351, 4096),
        (17, 16),
        (16, 16),
        (15, None),
        (0, None),
        (26112.9, 26112),
    ],
)
def test_the_length_that_fits_is_a_round_number_below_the_estimate(estimate: float, length: int | None) -> None:
    assert derived("kv.fit_len", kv__estimated_len=estimate) == length


@pytest.mark.parametrize(
    ("heads", "kv_heads", "gpus", "sizes"),
    [
        (32, 8, 8, (1, 2, 4, 8)),
        (40, 8, 8, (1, 2, 4, 8)),
        (40, 40, 8, (1, 2, 4, 5, 8)),
        (14, 2, 8, (1, 2)),
        (32, 4, 16, (1, 2, 4, 8, 16)),
        # unknown heads of the cache: powers of two surely split
        (40, None, 8, (1, 2, 4, 8)),
        (14, None, 4, (1, 2)),
        # unknown or useless number of GPUs
        (32, 8, None, (1, 2, 4, 8, 16)),
        (32, 8, 0, (1, 2, 4, 8, 16)),
        (1, 1, 8, (1,)),
        (0, 8, 8, None),
        (-4, 8, 8, None),
        (10**9, 8, 8, None),
    ],
)
def test_the_tensor_parallel_sizes_that_divide_the_heads(
    heads: int, kv_heads: int | None, gpus: int | None, sizes: tuple[int, ...] | None
) -> None:
    facts = {"model__heads": heads}
    facts |= {"gpu__count": gpus} if gpus is not None else {}
    facts |= {"model__kv_heads": kv_heads} if kv_heads is not None else {}
    assert derived("tp.valid", **facts) == sizes


@pytest.mark.parametrize(
    ("heads", "kv_heads", "asked", "size"), [(40, 40, 6, 5), (40, 8, 6, 4), (32, 8, 3, 2), (32, 8, 8, 8), (7, 7, 1, 1)]
)
def test_no_more_gpus_are_suggested_than_were_asked_for(heads: int, kv_heads: int, asked: int, size: int) -> None:
    assert derived("tp.suggested", model__heads=heads, model__kv_heads=kv_heads, tp__size=asked) == size


@pytest.mark.parametrize(
    ("asked", "needed", "available", "length"),
    [
        (32768, 8.0, 4.0, 16384),
        (32768, 8.0, 8.0, None),
        (32768, 8.0, 0.0, None),
        (32768, 8.0, -1.0, None),
        (0, 8.0, 4.0, None),
    ],
)
def test_the_length_that_fits_where_the_release_prints_no_estimate(
    asked: int, needed: float, available: float, length: int | None
) -> None:
    facts = {"model__max_len": asked, "mem__kv_needed_gib": needed, "mem__kv_available_gib": available}
    assert derived("kv.estimated_len", **facts) == length


@pytest.mark.parametrize(
    ("now", "lower"), [(1024, 256), (512, 256), (257, 256), (256, 128), (3, 1), (2, 1), (1, None), (0, None)]
)
def test_fewer_sequences(now: int, lower: int | None) -> None:
    assert derived("seqs.lower", seqs__warmup=now) == lower


@pytest.mark.parametrize(
    ("port", "following"), [(8000, 8001), (65534, 65535), (65535, None), (0, None), (-1, None), (99999, None)]
)
def test_the_next_port(port: int, following: int | None) -> None:
    assert derived("port.next", port=port) == following


odd = st.one_of(
    st.integers(),
    st.integers(min_value=10**300, max_value=10**320),
    st.floats(),
    st.booleans(),
    st.text(max_size=4),
    st.just(()),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
)
names = st.sampled_from(sorted(FACTS))


@given(st.dictionaries(names, odd, max_size=25))
def test_no_value_of_a_fact_breaks_the_computation(values: dict[str, FactValue]) -> None:
    given_facts = {name: Fact(value, "log:1") for name, value in values.items()}
    facts = derive(given_facts)
    assert facts.items() >= given_facts.items()
    for name, fact in facts.items():
        assert name in FACTS
        if fact.source == "derived" and isinstance(fact.value, float):
            assert math.isfinite(fact.value)
