from __future__ import annotations

import pytest

from vdoctor.facts.unknown_options import unknown_options
from vdoctor.launch import options as tables
from vdoctor.model import Fact, FactValue


def facts(unknown: str, version: str | None = "0.32.0") -> dict[str, FactValue]:
    start = {"args.unknown": Fact(unknown, "log:9")}
    if version:
        start["vllm.version"] = Fact(version, "log:1")
    return {name: fact.value for name, fact in unknown_options(start, tables.load()).items()}


@pytest.mark.parametrize(
    ("unknown", "flags"),
    [
        ("--enable-metrics", ("--enable-metrics",)),
        ("--swap-space 4 --foo", ("--swap-space", "--foo")),
        ("--foo=3 --bar x y", ("--foo", "--bar")),
        ("--foo --foo", ("--foo",)),
        ("--foo -1", ("--foo",)),
        ("-zz", ("-zz",)),
    ],
)
def test_names_the_options_without_their_values(unknown: str, flags: tuple[str, ...]) -> None:
    assert facts(unknown)["args.unknown_flags"] == flags


@pytest.mark.parametrize("unknown", ["", "m", "3 4", "-", "--"])
def test_words_alone_name_no_option(unknown: str) -> None:
    assert "args.unknown_flags" not in facts(unknown)


@pytest.mark.parametrize("version", ["0.32.0", None])
def test_offers_the_nearest_option(version: str | None) -> None:
    assert facts("--max-model-length 8", version)["args.nearest"] == "--max-model-len"


def test_offers_one_for_each_that_is_misspelt() -> None:
    near = facts("--gpu-memory-utilisation 0.9 --colour-scheme --tensor-paralel-size 2")["args.nearest"]
    assert near == "--gpu-memory-utilization, --tensor-parallel-size"


def test_offers_nothing_when_nothing_is_near() -> None:
    assert "args.nearest" not in facts("--colour-scheme")


def test_without_an_unknown_option_nothing_is_added() -> None:
    start = {"port": Fact(1, "argv")}
    assert unknown_options(start, tables.load()) == start
