"""A sieve in front of the core changes nothing in the report: the whole log and what the sieve lets pass say the same."""

from __future__ import annotations

import random
import re
from collections import deque
from itertools import chain
from typing import Any

import pytest

from tests.cases import SOURCE, Case, cases, examine, lines, report_lines, rules
from tests.serving import STYLES, Server
from vdoctor.diagnose import Examination
from vdoctor.intake.splitter import LineSplitter
from vdoctor.launch import options as option_tables
from vdoctor.model import Event, Report
from vdoctor.sieve.periodic import KEPT
from vdoctor.sieve.sieve import Sieve

HEALTHY = next(case for case in cases() if case.label["id"] == "healthy").log


def sieved(data: bytes, *, block: int = 4096, chunk: int | None = None) -> tuple[Report, Sieve]:
    """The report through a sieve that protects neither the beginning nor the end of the log."""
    examination = Examination(rules(), option_tables.load())
    sieve = Sieve(examination, head=0, tail=0, block=block)
    for start in range(0, len(data), chunk or len(data)):
        for some in sieve.feed(data[start : start + (chunk or len(data))]):
            examination.feed(some)
    for some in sieve.close():
        examination.feed(some)
    return examination.report(SOURCE), sieve


def assert_same(data: bytes, **sizes: Any) -> Sieve:
    """Both ways give one report and one number of lines."""
    splitter = LineSplitter()
    splitter.feed(data)
    splitter.close()
    whole = report_lines(examine(data))
    report, sieve = sieved(data, **sizes)
    part = report_lines(report)
    assert {name: part[name] for name in part if part[name] != whole[name]} == {}
    assert (sieve.lines, sieve.bytes) == (splitter.lines, len(data))
    return sieve


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_fixture_is_read_alike(case: Case) -> None:
    assert_same(case.log, block=512, chunk=300)
    assert_same(case.log, block=1 << 16, chunk=5000)


@pytest.mark.parametrize("style", STYLES)
def test_serving_log_is_left_out_but_for_little(style: str) -> None:
    log = start_of(style) + Server(7, STYLES[style]).text(120)
    sieve = assert_same(log, block=16_384)
    assert sieve.skipped > sieve.lines * (0.3 if style == "several API servers" else 0.6)


@pytest.mark.parametrize("style", STYLES)
def test_strange_lines_between_the_requests_change_nothing(style: str) -> None:
    for seed in range(3):
        log = start_of(style) + Server(seed, STYLES[style], strange=True, busy=20).text(60)
        assert assert_same(log, block=2000).skipped > 0


def start_of(style: str) -> bytes:
    """The start-up of a server of this style."""
    tag = STYLES[style].tag.replace("{n}", "0")
    return re.sub(rb"\(APIServer pid=\d+\) ", tag.encode(), HEALTHY).replace(b"\n", STYLES[style].end.encode())


@pytest.mark.parametrize("seed", range(12))
def test_logs_of_many_servers_one_after_the_other(seed: int) -> None:
    dice = random.Random(seed)
    logs = [case.log for case in cases() if len(case.log) < 40_000]
    parts: list[bytes] = []
    for _ in range(dice.randrange(1, 4)):
        parts.append(HEALTHY if dice.random() < 0.6 else dice.choice(logs))
        style = STYLES[dice.choice(list(STYLES))]
        parts.append(
            Server(seed, style, strange=dice.random() < 0.5, busy=dice.choice([2, 30])).text(dice.randrange(40))
        )
    data = b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)
    assert_same(data, block=dice.choice([500, 8000]), chunk=dice.choice([None, 700]))


def test_death_in_the_middle_of_a_million_requests_is_found_with_its_line() -> None:
    death = b"(EngineCore_DP0 pid=10714) ERROR 12-01 00:00:05 [core.py:9] EngineCore encountered a fatal error.\n"
    calm = Server(3, STYLES["0.11"]).text(400)
    log = HEALTHY + calm + death + calm
    sieve = assert_same(log, block=1 << 16)
    assert sieve.skipped > 10_000
    report, _ = sieved(log)
    assert report.verdict == "failed"


class Follower(Examination):
    """Keeps what follows the load: number and time of the latest lines of statistics."""

    def __init__(self) -> None:
        super().__init__(rules(), option_tables.load())
        self.seen: deque[tuple[int, float | None]] = deque(maxlen=KEPT)

    def glance(self, event: Event) -> None:
        super().glance(event)
        self.seen.append((event.line, event.time))

    def _take(self, event: Event) -> None:
        super()._take(event)
        if "Avg prompt throughput" in event.text:
            self.seen.append((event.line, event.time))


@pytest.mark.parametrize("style", ["0.11", "V0", "kubectl --timestamps"])
@pytest.mark.parametrize("steps", [40, 2 * KEPT])
def test_those_who_follow_the_load_see_every_line_of_it(style: str, steps: int) -> None:
    log = start_of(style) + Server(7, STYLES[style], busy=4).text(steps)
    whole, part = Follower(), Follower()
    whole.feed(lines(log))
    sieve = Sieve(part, head=0, tail=0, block=8000)
    for some in chain(sieve.feed(log), sieve.close()):
        part.feed(some)
    assert sieve.skipped > steps
    assert list(part.seen) == list(whole.seen)


def test_log_in_utf_16_is_read_as_a_whole() -> None:
    log = (HEALTHY + Server(3, STYLES["0.11"]).text(20)).decode().encode("utf-16")
    assert assert_same(log, block=2000).skipped == 0


def test_endless_line_is_no_reason_to_wait() -> None:
    examination = Examination(rules(), option_tables.load())
    sieve = Sieve(examination, block=1000, tail=100)
    for _ in range(50):
        for some in sieve.feed(b"x" * 1000):
            examination.feed(some)
    assert sum(map(len, sieve._waiting)) <= 1100
    assert [line.no for some in sieve.close() for line in some] == [1]
    assert sieve.lines == 1


@pytest.mark.parametrize(
    "hidden", [b"fai\x00led", b"Engine core ini\x1b[0mtialization failed", b"died\xe2\x80\x8e unexpectedly"]
)
def test_control_characters_hide_nothing(hidden: bytes) -> None:
    line = b"(APIServer pid=10689) INFO 12-01 00:00:05 [core.py:9] " + hidden + b"\n"
    calm = Server(3, STYLES["0.11"]).text(30)
    assert_same(HEALTHY + calm + line + calm, block=2000)
