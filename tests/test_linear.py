"""No pattern takes more than linear time, whatever line it is given: each is tried on lines built from its own parts."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

import vdoctor.facts
import vdoctor.intake
import vdoctor.launch
import vdoctor.startup
from tests.attacks import attacks, noise
from tests.cases import examine, rules
from vdoctor.facts import log
from vdoctor.intake.splitter import MAX_LINE
from vdoctor.startup.markers import BARS, MARKERS

#: Lines are cut at MAX_LINE, so no pattern sees more. From a quarter of it to the whole, linear time grows by 4, quadratic
#: time by 16.
SHORT, GROWTH = MAX_LINE // 4, 9
#: Seconds (of the processor) below which growth is noise, and above which even a linear pattern is too slow. One line in a
#: million may be so long: a second for it is bearable.
NOISE, LIMIT = 0.12, 1.0
#: Tables whose patterns are only matched at the front of a line.
MATCHED = ("_SHIPPERS",)
#: Lengths of the first tries: an exponential pattern shows itself on a short line, and would never end on a longer one.
FIRST = (*range(12, 64, 4), 500)
#: The slowest attacks of the first round are tried at full length.
_TRIED = 2


class Searched(NamedTuple):
    """A pattern as the code uses it."""

    name: str
    pattern: str
    flags: int
    search: Callable[[str], object]


def of_rules() -> Iterator[Searched]:
    for rule in rules().rules:
        for at, signal in enumerate(rule.signals):
            for kind in ("regex", "last"):
                if pattern := getattr(signal, kind):
                    yield Searched(f"{rule.id}[{at}].{kind}", pattern, 0, re.compile(pattern).search)


def of_code() -> Iterator[Searched]:
    tables = [(f"marker {m.pattern[:30]}", m.pattern) for m in (*MARKERS, *BARS)]
    tables += [(f"fact {pattern[:30]}", pattern) for pattern in log.patterns()]
    yield from (Searched(name, pattern, 0, re.compile(pattern).search) for name, pattern in tables)
    for package in (vdoctor.intake, vdoctor.startup, vdoctor.facts, vdoctor.launch):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            yield from of_module(info.name)


def of_module(name: str) -> Iterator[Searched]:
    """The patterns that a module compiles; those that it only matches at the front of a line are matched here, too."""
    module = importlib.import_module(name)
    source = importlib.util.find_spec(name).loader.get_source(name)  # type: ignore[union-attr, attr-defined]
    for variable, value in vars(module).items():
        found = value if isinstance(value, tuple) else (value,)
        for pattern in (one for item in found for one in (item if isinstance(item, tuple) else (item,))):
            if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
                searched = re.search(rf"\b{variable}\b\.(?:search|sub|split|findall|finditer)", source)
                only_match = variable in MATCHED or (
                    not searched and re.search(rf"\b{variable}\b\.(?:full)?match", source)
                )
                use = pattern.match if only_match else pattern.search
                yield Searched(f"{name}.{variable}", pattern.pattern, pattern.flags, use)


def seconds(one: Searched, line: str) -> float:
    begin = time.process_time()
    one.search(line)
    return time.process_time() - begin


def judge(one: Searched) -> str | None:
    """What is wrong with a pattern; None when nothing is."""
    first: list[tuple[float, int]] = []
    for length in FIRST:
        first = []
        for at, line in enumerate(attacks(one.pattern, length)):
            first.append((seconds(one, line), at))
            if first[-1][0] > 0.2:
                return f"{one.name}: {first[-1][0]:.2f} s for {length} characters"
    first.sort(reverse=True)
    worst = {at for _, at in first[:_TRIED]}
    short = [line for at, line in enumerate(attacks(one.pattern, SHORT)) if at in worst]
    whole = [line for at, line in enumerate(attacks(one.pattern, MAX_LINE)) if at in worst]
    for less, line in zip(short, whole, strict=True):
        quarter = seconds(one, less)
        if quarter > LIMIT:
            return f"{one.name}: {quarter:.2f} s for {len(less)} characters: {less[:40]!r}"
        took = seconds(one, line)
        if took > LIMIT or (took > NOISE and took > GROWTH * max(quarter, NOISE / GROWTH)):
            return f"{one.name}: {quarter:.3f} s, then {took:.3f} s for four times as much: {line[:40]!r}"
    return None


@pytest.mark.parametrize("family", sorted({rule.id.partition(".")[0] for rule in rules().rules}))
def test_signals_of_rules_are_linear(family: str) -> None:
    wrong = [fault for one in of_rules() if one.name.startswith(f"{family}.") and (fault := judge(one))]
    assert wrong == []


def test_patterns_of_the_code_are_linear() -> None:
    found = list(of_code())
    assert len(found) > 150
    assert [fault for one in found if (fault := judge(one))] == []


@pytest.mark.parametrize("pattern", ["a+b+c", "[a-z]+ needed", "x.*y", r"(?:a|b|ab)+c", r"\w+\.so\w*: no"])
def test_slow_patterns_would_be_found(pattern: str) -> None:
    assert judge(Searched("slow", pattern, 0, re.compile(pattern).search)) is not None


UNITS = ("ERROR ", "Traceback (most recent call last): ", '"', "([{", "CUDA out of memory. ", "0", " ", "No space left on device ",
         "(A pid=1) ", "sh: ", "{'a': ", "\\", "> ", "Found GPU0 ", "https://", "a.b.c.")  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_line_of_a_megabyte_takes_no_longer_than_its_part_that_is_read(unit: str) -> None:
    head = "(EngineCore_DP0 pid=12) ERROR 12-01 00:00:05 [core.py:9] "
    begin = time.process_time()
    examine(head + unit * (1_000_000 // len(unit)) + "\n")
    assert time.process_time() - begin < 20


def test_lines_of_noise_are_read() -> None:
    for seed in range(4):
        examine(noise(seed, 1_000_000) + "\n" + noise(seed, 50_000).replace(" ", "\n"))
