from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.bars import bars
from vdoctor.model import Bar


@pytest.mark.parametrize(
    ("line", "bar"),
    [
        (
            "Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]",
            Bar("Loading safetensors checkpoint shards", 0, 2, 0.0, None),
        ),
        (
            "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:04<00:04,  4.25s/it]",
            Bar("Loading safetensors checkpoint shards", 1, 2, 4.0, 1 / 4.25),
        ),
        (
            "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 67/67 [00:03<00:00, 18.51it/s]",
            Bar("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)", 67, 67, 3.0, 18.51),
        ),
        (
            "Capturing CUDA graphs (decode, FULL):   3%|▎         | 1/35 [00:00<00:12,  2.81it/s]",
            Bar("Capturing CUDA graphs (decode, FULL)", 1, 35, 0.0, 2.81),
        ),
        ("  0%|          | 0/12 [00:00<?, ?it/s]", Bar("", 0, 12, 0.0, None)),
        (
            "Fetching 12 files:  25%|##5       | 3/12 [1:02:03<3:04:05, 744.6s/it]",
            Bar("Fetching 12 files", 3, 12, 3723.0, 1 / 744.6),
        ),
        (
            "model-00001-of-00002.safetensors:  10%|█         | 512M/4.98G [00:10<01:29, 49.8MB/s]",
            Bar("model-00001-of-00002.safetensors", 512_000_000, 4_980_000_000, 10.0, 49_800_000.0),
        ),
        (
            "config.json: 100%|██████████| 663/663 [00:00<00:00, 5.49MB/s]",
            Bar("config.json", 663, 663, 0.0, 5_490_000.0),
        ),
        ("tokenizer.json:   0%|          | 0.00/1.67M [00:00<?, ?B/s]", Bar("tokenizer.json", 0, 1_670_000, 0.0, None)),
        ("train:  2%|▏| 1/50 [00:01<?, ?it/s, loss=3]", Bar("train", 1, 50, 1.0, None)),
        ("x: 50%|█| 1/2 [00:00<00:00, 0.00it/s]", Bar("x", 1, 2, 0.0, 0.0)),
        ("x: 50%|█| 1/2 [00:00<00:00, 0.00s/it]", Bar("x", 1, 2, 0.0, None)),
    ],
)
def test_reads_a_bar(line: str, bar: Bar) -> None:
    (found,) = bars(line)
    assert found == bar


def test_reads_all_bars_of_one_line() -> None:
    line = "".join(f"Capturing CUDA graph shapes:  {n}%|█| {n}/35 [00:0{n}<00:09,  {n}.00it/s]" for n in range(1, 6))
    assert [(bar.desc, bar.done) for bar in bars(line)] == [("Capturing CUDA graph shapes", n) for n in range(1, 6)]


def test_a_description_does_not_reach_back_into_another_bar() -> None:
    first, second = bars("A: 100%|██| 1/1 [00:00<00:00, 9.00it/s]B: 100%|██| 2/2 [00:00<00:00, 9.00it/s]")
    assert (first.desc, second.desc) == ("A", "B")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "GPU KV cache usage: 50.0%, Prefix cache hit rate: 0.0%",
        "50% | 1/2",
        "| 30%   40C    P0   70W / 400W | 1000MiB / 81920MiB |  0%  Default |",
        "Capturing CUDA graphs:   0%|          | 0/35 [00:00<?, ?it/s",
        "load | 100% of 5/5 [done]",
        "Download complete: : 0.00B [00:00, ?B/s]",
    ],
)
def test_text_with_percents_is_no_bar(line: str) -> None:
    assert bars(line) == []


@given(
    st.text(st.sampled_from("abc xyz().,-_/"), max_size=30).map(str.strip),
    st.integers(0, 10**6),
    st.integers(1, 10**6),
    st.floats(0.01, 10**4),
)
def test_what_tqdm_draws_is_read_back(desc: str, done: int, total: int, rate: float) -> None:
    line = f"{desc}: {min(done * 100 // total, 999):3d}%|███       | {done}/{total} [01:05<02:10, {rate:5.2f}it/s]"
    (bar,) = bars(line)
    assert (bar.desc, bar.done, bar.total, bar.elapsed) == (desc, done, total, 65.0)
    assert bar.rate == pytest.approx(rate, abs=0.006)


@pytest.mark.parametrize(
    "unit", ["5%|", "|", "%", "1%|█| ", "1%|█| 1/1 [", "a" * 119 + "% |", "5% Completed", "x 1%|" + " " * 4000]
)
def test_a_long_hostile_line_takes_linear_time(unit: str) -> None:
    assert bars(unit * (64 * 1024 // len(unit)) + "%|") == []
