"""Lines that come while nothing moves."""

from __future__ import annotations

import pytest

from vdoctor.model import Bar, Event
from vdoctor.startup.heartbeat import Heartbeats

BEATS = [
    "Waiting for 1 local, 0 remote core engine proc(s) to start.",
    "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging",
    "No available block found in 60 second.",
    "Waiting for creating a placement group of specs for 10 seconds. specs=[{'GPU': 1.0}]",
    "'(ReadTimeoutError(...))' thrown while requesting HEAD http://h/m/resolve/main/config.json Retrying in 8s [Retry 5/5].",
    "[c10d] TCP client failed to connect/validate to host 10.0.0.1:29501 - retrying (try=0, timeout=1800000ms",
    '127.0.0.1:54321 - "GET /health HTTP/1.1" 200',
    '10.1.2.3:54321 - "GET /metrics HTTP/1.1" 200 OK',
    '10.1.2.3:54321 - "HEAD / HTTP/1.1" 404',
    '10.1.2.3:54321 - "GET /v1/models HTTP/1.1" 200 OK',
    "",
]
NEWS = [
    "Starting to load model /models/m...",
    "Loading weights took 7.90 seconds",
    '10.1.2.3:54321 - "POST /v1/completions HTTP/1.1" 200 OK',
    "Waiting for application startup.",
    "Dynamo bytecode transform time: 9.71 s",
]


def line(text: str) -> Event:
    return Event(1, "record", text, text)


@pytest.mark.parametrize("text", BEATS)
def test_notice_of_waiting_is_no_news(text: str) -> None:
    assert Heartbeats().is_news(line(text)) is False


@pytest.mark.parametrize("text", NEWS)
def test_news(text: str) -> None:
    assert Heartbeats().is_news(line(text)) is True


def test_third_time_is_no_news_until_the_step_changes() -> None:
    beats = Heartbeats()
    said = [beats.is_news(line(f"attempt {number} of 99")) for number in range(5)]
    assert said == [True, True, False, False, False]
    beats.new_step()
    assert beats.is_news(line("attempt 6 of 99"))


def test_bars_are_always_news() -> None:
    beats = Heartbeats()
    event = Event(1, "bar", "x", "x", bar=Bar("x", 1, 2, None, None))
    assert all(beats.is_news(event) for _ in range(5))


@pytest.mark.parametrize(
    ("tail", "requests"),
    [
        ("Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 1.0%", 5),
        ("Running: 3 reqs, Swapped: 0 reqs, Pending: 2 reqs, GPU KV cache usage: 1.0%", 5),
        ("Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%", 0),
    ],
)
def test_statistics_tell_requests_and_whether_tokens_come(tail: str, requests: int) -> None:
    beats = Heartbeats()
    text = "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {} tokens/s, " + tail
    assert beats.is_news(line(text.format("0.0"))) is False
    assert beats.requests == requests
    assert beats.is_news(line(text.format("12.5"))) is True


def test_broadcast_notice_is_remembered_until_something_moves() -> None:
    beats = Heartbeats()
    beats.is_news(line(BEATS[1]))
    assert beats.broadcast_wait
    beats.is_news(line(NEWS[0]))
    assert not beats.broadcast_wait


def test_memory_for_lines_is_bounded() -> None:
    beats = Heartbeats()
    for number in range(5000):
        word = "".join(chr(97 + int(digit)) for digit in str(number))
        beats.is_news(line(f"line {word}"))
    assert len(beats._seen) <= 1000
