"""Facts that need several lines."""

from __future__ import annotations

import pytest

from tests.cases import examine


def stats(clock: str, prompt: float, generation: float, running: int) -> str:
    return (
        f"INFO 02-02 02:{clock} [loggers.py:118] Engine 000: Avg prompt throughput: {prompt} tokens/s, "
        f"Avg generation throughput: {generation} tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 4.1%\n"
    )


@pytest.mark.parametrize(
    ("lines", "lone", "silent"),
    [
        ([("00:00", 0.0, 50.0, 1), ("00:50", 0.0, 50.0, 1), ("01:30", 0.0, 49.0, 1)], 90, None),
        (
            [("00:00", 0.0, 50.0, 1), ("00:50", 8.0, 50.0, 1), ("01:30", 0.0, 49.0, 1), ("01:40", 0.0, 49.0, 1)],
            10,
            None,
        ),
        ([("00:00", 0.0, 50.0, 2), ("00:10", 0.0, 50.0, 1)], None, None),
        ([("00:00", 0.0, 0.0, 3), ("00:40", 0.0, 0.0, 3)], None, 40),
        ([("00:00", 0.0, 0.0, 0), ("00:40", 0.0, 0.0, 0)], None, None),
        ([("00:00", 0.0, 0.0, 3), ("00:40", 0.0, 0.0, 3), ("00:50", 0.0, 9.0, 3)], None, None),
    ],
)
def test_how_long_a_state_lasts(lines, lone: int | None, silent: int | None) -> None:
    facts = examine("".join(stats(*line) for line in lines)).facts
    assert (
        facts["serving.lone_s"].value if "serving.lone_s" in facts else None,
        facts["serving.silent_s"].value if "serving.silent_s" in facts else None,
    ) == (lone, silent)


def test_seconds_per_shard_come_from_the_bar() -> None:
    report = examine("Loading safetensors checkpoint shards:  50% Completed | 3/6 [00:45<00:45, 15.01s/it]\n")
    assert report.facts["weights.seconds_per_shard"].value == 15.0
