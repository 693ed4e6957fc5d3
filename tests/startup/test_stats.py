"""Lines and pages as vLLM releases print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.startup.stats import Counters, Stats, from_line

V0 = (
    "Avg prompt throughput: 80.0 tokens/s, Avg generation throughput: 210.0 tokens/s, Running: 12 reqs, "
    "Swapped: 3 reqs, Pending: 40 reqs, GPU KV cache usage: 97.5%, CPU KV cache usage: 0.0%."
)
V1 = (
    "Engine 001: Avg prompt throughput: 512.0 tokens/s, Avg generation throughput: 903.4 tokens/s, Running: 31 reqs, "
    "Waiting: 64 reqs, GPU KV cache usage: 99.1%, Prefix cache hit rate: 3.0%"
)
V1_LATE = (
    "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.5 tokens/s, Running: 4 reqs, "
    "Waiting: 42 reqs, Deferred: 2 reqs, Preemptions: 9, CPU KV cache usage: 94.7%, Prefix cache hit rate: 0.0%"
)


@pytest.mark.parametrize(
    ("line", "engine", "stats"),
    [
        (V0, "", Stats(1.0, 12, 40, 97.5, 80.0, 210.0)),
        (V1, "001", Stats(1.0, 31, 64, 99.1, 512.0, 903.4)),
        (V1_LATE, "000", Stats(1.0, 4, 42, 94.7, 0.0, 9.5)),
    ],
)
def test_periodic_lines_of_all_generations(line: str, engine: str, stats: Stats) -> None:
    assert from_line(line, 1.0) == (engine, stats)


def test_other_lines_give_nothing() -> None:
    assert from_line("Avg prompt throughput: soon", 1.0) is None
    assert from_line(V1.replace("512.0", "5.1.2"), 1.0) is None


OLD = {
    "vllm:num_requests_running": 3.0,
    "vllm:num_requests_waiting": 4.0,
    "vllm:num_requests_swapped": 1.0,
    "vllm:gpu_cache_usage_perc": 0.9,
    "vllm:num_preemptions_total": 7.0,
    "vllm:prompt_tokens_total": 100.0,
    "vllm:generation_tokens_total": 1000.0,
    "vllm:time_to_first_token_seconds_sum": 1.0,
    "vllm:time_to_first_token_seconds_count": 2.0,
    "vllm:time_per_output_token_seconds_sum": 10.0,
    "vllm:time_per_output_token_seconds_count": 100.0,
}
RENAMED = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:time_per_output_token_seconds_sum": "vllm:inter_token_latency_seconds_sum",
    "vllm:time_per_output_token_seconds_count": "vllm:inter_token_latency_seconds_count",
}


def newer(page: dict[str, float]) -> dict[str, float]:
    return {RENAMED.get(name, name): value for name, value in page.items() if name != "vllm:num_requests_swapped"}


@pytest.mark.parametrize("new_names", [False, True])
def test_rates_and_means_come_from_the_growth_between_two_pages(new_names: bool) -> None:
    later = OLD | {
        "vllm:generation_tokens_total": 1500.0,
        "vllm:prompt_tokens_total": 150.0,
        "vllm:num_preemptions_total": 9.0,
        "vllm:time_to_first_token_seconds_sum": 7.0,
        "vllm:time_to_first_token_seconds_count": 5.0,
        "vllm:time_per_output_token_seconds_sum": 14.0,
        "vllm:time_per_output_token_seconds_count": 140.0,
    }
    counters = Counters()
    first, second = (newer(OLD), newer(later)) if new_names else (OLD, later)
    waiting = 4.0 if new_names else 5.0
    assert counters.feed(10.0, first) == Stats(10.0, 3.0, waiting, 90.0, preemptions=7.0)
    assert counters.feed(20.0, second) == Stats(20.0, 3.0, waiting, 90.0, 5.0, 50.0, 9.0, 2.0, 0.1)


def test_counters_that_fall_are_those_of_a_new_server() -> None:
    counters = Counters()
    counters.feed(10.0, OLD)
    assert counters.feed(20.0, OLD | {"vllm:generation_tokens_total": 1.0}) == Stats(
        20.0, 3.0, 5.0, 90.0, preemptions=7.0
    )


@pytest.mark.parametrize(
    "page", [{}, {"vllm:num_requests_running": 1.0}, {**OLD, "vllm:gpu_cache_usage_perc": float("nan")}]
)
def test_the_page_of_another_server_gives_nothing(page: dict[str, float]) -> None:
    assert Counters().feed(1.0, page) is None


@given(st.text(max_size=200))
def test_hostile_lines(tail: str) -> None:
    from_line(V1[:60] + tail, 0.0)
