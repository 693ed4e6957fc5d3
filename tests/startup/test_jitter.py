"""What goes wrong while serving, from series of moments."""

from __future__ import annotations

from typing import Any

import pytest

from vdoctor.startup.jitter import Jitter
from vdoctor.startup.series import evaluate
from vdoctor.startup.stats import Stats


def series(count: int, **values: Any) -> list[Stats]:
    """One point every ten seconds; a value may be a function of the point's number."""
    usual: dict[str, Any] = {"running": 8, "waiting": 0, "kv": 40.0, "prompt": 100.0, "generation": 800.0}
    fields = usual | values
    return [
        Stats(**{"t": 10.0 * at, **{name: value(at) if callable(value) else value for name, value in fields.items()}})
        for at in range(count)
    ]


HEALTHY = series(30)


def test_a_steady_server_shows_nothing() -> None:
    assert evaluate(HEALTHY) == {"serving.watched_s": 290}


def test_a_full_cache_with_a_queue_is_measured_over_its_longest_stretch() -> None:
    points = series(30, kv=lambda at: 97.0 if 5 <= at < 20 else 50.0, waiting=lambda at: at if 5 <= at < 20 else 0)
    facts = evaluate(points)
    assert (facts["kv.full_s"], facts["kv.full_usage"], facts["kv.full_waiting"]) == (140, 97.0, 19)


def test_one_moment_with_room_does_not_end_the_stretch_and_two_do() -> None:
    def full(*gaps: int) -> Any:
        facts = evaluate(series(21, waiting=5, kv=lambda at: 70.0 if at in gaps else 96.0))
        return facts["kv.full_s"]

    assert full(10) == 200
    assert full(10, 11) == 90


def test_a_full_cache_without_a_queue_is_good_use() -> None:
    assert "kv.full_s" not in evaluate(series(30, kv=99.0))


def test_a_queue_that_grows_all_the_time() -> None:
    facts = evaluate(series(30, waiting=lambda at: max(0, 5 * (at - 10))))
    assert (facts["queue.from"], facts["queue.to"], facts["queue.seconds"], facts["queue.kv"]) == (0, 95, 190, 40.0)


def test_a_few_served_in_between_do_not_hide_it() -> None:
    facts = evaluate(series(30, waiting=lambda at: 4 * at - 3 * (at % 2)))
    assert facts["queue.seconds"] >= 280


@pytest.mark.parametrize(
    "waiting",
    [lambda at: 50, lambda at: 100 - at, lambda at: 60 if at % 4 else 0, lambda at: 0 if at < 26 else 40],
    ids=["steady", "falls", "comes and goes", "short"],
)
def test_other_queues_do_not_grow(waiting: Any) -> None:
    assert "queue.to" not in evaluate(series(30, waiting=waiting))


def test_preemptions_count_from_the_first_page_and_over_a_restart_of_the_counter() -> None:
    facts = evaluate(
        series(10, preemptions=lambda at: [100, 100, 104, 109, 0, 3, 3, 3, 3, 3][at], running=lambda at: 4 + at)
    )
    assert (facts["kv.preempted"], facts["kv.preempted_running"]) == (12, 7)


def test_without_that_counter_nothing_is_said() -> None:
    assert "kv.preempted" not in evaluate(series(10, preemptions=None))


def test_requests_without_tokens_are_still_since_the_last_that_came() -> None:
    quiet = {"prompt": lambda at: 0.0 if at > 5 else 9.0, "generation": lambda at: 0.0 if at > 5 else 9.0}
    facts = evaluate(series(12, **quiet))
    assert (facts["serving.still_s"], facts["serving.still_running"]) == (60, 8)
    assert "serving.still_s" not in evaluate(series(12, running=lambda at: 0 if at == 11 else 8, **quiet))
    assert "serving.still_s" not in evaluate(series(12, prompt=0.0, generation=lambda at: 9.0 if at == 11 else 0.0))


def test_throughput_that_collapses_at_the_same_load() -> None:
    facts = evaluate(series(30, generation=lambda at: 800.0 if at < 20 else 90.0, prompt=0.0))
    assert (facts["serving.rate"], facts["serving.rate_before"], facts["serving.rate_running"]) == (90.0, 800.0, 8)


@pytest.mark.parametrize(
    "values",
    [
        {"generation": lambda at: 800.0 if at < 20 else 90.0, "running": lambda at: 8 if at < 20 else 1},
        {"generation": lambda at: 800.0 if at < 20 else 90.0, "prompt": lambda at: 100.0 if at < 20 else 9000.0},
        {"generation": lambda at: 800.0 if at < 20 else 300.0},
        {"generation": lambda at: 800.0 if at < 28 else 90.0},
        {"generation": lambda at: 90.0},
    ],
    ids=["less load", "long prompts", "a little slower", "a moment", "always slow"],
)
def test_other_changes_of_speed_are_no_collapse(values: dict[str, Any]) -> None:
    assert "serving.rate" not in evaluate(series(30, **values))


def test_latency_that_grows_fivefold() -> None:
    facts = evaluate(series(30, ttft=lambda at: 0.3 if at < 20 else 9.0, itl=lambda at: 0.02 if at < 20 else 0.5))
    assert facts == {
        "serving.watched_s": 290,
        "latency.ttft_s": 9.0,
        "latency.ttft_before_s": 0.3,
        "latency.itl_s": 0.5,
        "latency.itl_before_s": 0.02,
    }
    assert "latency.itl_s" not in evaluate(series(30, itl=lambda at: 0.005 if at < 20 else 0.1))


def test_of_several_engines_the_one_in_trouble_counts() -> None:
    jitter = Jitter()
    jitter._from_log = {"000": series(20), "001": series(20, kv=99.0, waiting=3)}  # type: ignore[dict-item]
    assert jitter.facts["kv.full_s"].value == 190


def test_a_restart_forgets() -> None:
    jitter = Jitter()
    jitter._from_log = {"": series(20, kv=99.0, waiting=3)}  # type: ignore[dict-item]
    jitter.restart()
    assert jitter.facts == {}
