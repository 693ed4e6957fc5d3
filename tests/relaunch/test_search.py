"""The search over changes, in worlds where nothing is started."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.relaunch.worlds import WORKS, Run, fails, finding, fix, play
from vdoctor.launch.command import print_words
from vdoctor.relaunch.raising import next_value
from vdoctor.relaunch.steps import Outcome, merged

Env = dict[str, str | None]


def commands(run: Run) -> list[str]:
    return [" ".join(print_words(candidate.launch)) for candidate in run.tried]


def test_first_fix_that_works_is_the_answer() -> None:
    cause = finding("quant.not-quantized", fix("drop", "safe", quantization=None))
    run = play(
        "vllm serve m --quantization awq",
        lambda s, e: fails("launch.config", cause) if "--quantization" in s else WORKS,
    )
    assert run.result == "vllm serve m"
    assert len(run.tried) == 1


def test_fixes_are_tried_in_their_order_and_none_twice() -> None:
    cause = finding("oom.kv-none", fix("a", max_num_seqs="8"), fix("b", max_num_batched_tokens="1024"))
    run = play("vllm serve m", lambda s, e: fails("kv_init.allocate", cause))
    assert commands(run)[:2] == ["vllm serve m --max-num-seqs 8", "vllm serve m --max-num-batched-tokens 1024"]
    assert len(set(commands(run))) == len(run.tried)
    assert run.result is None


def test_failure_that_has_gone_proves_nothing() -> None:
    """The GPU was busy then: today the unchanged command works, and so does every change of it."""
    cause = finding("oom.kv-none", fix("a", max_num_seqs="8"))
    starts: list[str] = []

    def world(flags: dict[str, str], env: Env) -> Outcome:
        starts.append(" ".join(flags))
        return fails("kv_init.allocate", cause) if len(starts) == 1 else WORKS

    run = play("vllm serve m", world)
    assert (run.search.gone, run.search.found, run.controls) == (True, None, 1)


def test_failure_that_goes_between_the_trials_proves_nothing() -> None:
    """The GPU is busy in the first trials, too, and free before the one that works."""
    cause = finding("oom.kv-none", *(fix(name, max_num_batched_tokens=name) for name in ("4096", "2048", "1024")))
    for busy in (1, 2, 3):
        starts: list[str] = []

        def world(flags: dict[str, str], env: Env, starts: list[str] = starts, busy: int = busy) -> Outcome:
            starts.append(" ".join(flags))
            return fails("kv_init.allocate", cause) if len(starts) <= busy else WORKS

        run = play("vllm serve m", world)
        assert (run.search.gone, run.search.found, run.controls) == (True, None, 1), busy


def test_unchanged_launch_is_tried_only_where_no_later_trial_died_of_the_same() -> None:
    assert play("vllm serve m", graphs(64)).controls == 0  # type: ignore[arg-type]
    cause = finding("quant.not-quantized", fix("drop", "safe", quantization=None))
    run = play(
        "vllm serve m --quantization awq",
        lambda s, e: fails("launch.config", cause) if "--quantization" in s else WORKS,
    )
    assert (run.controls, run.result) == (1, "vllm serve m")


def test_advice_is_never_run() -> None:
    cause = finding("model.not-found", fix("look", "manual", model="x"))
    run = play("vllm serve m", lambda s, e: fails("launch.config", cause))
    assert run.tried == []


def test_what_is_not_allowed_is_withheld_and_not_tried() -> None:
    cause = finding("tp.heads-not-divisible", fix("two", "lossy", tensor_parallel_size="2"))
    run = play(
        "vllm serve m -tp 3", lambda s, e: fails("launch.config", cause), allowed=lambda step: step.safety == "safe"
    )
    assert run.tried == []
    assert [step.id for step in run.search.withheld] == ["two"]


def two_faults(flags: dict[str, str], env: Env) -> Outcome:
    if "--enable-metrics" in flags:
        return fails("launch.config", finding("args.unknown-flag", fix("drop", enable_metrics=None)))
    length = float(flags["--max-model-len"])
    if length > 30_000:
        cause = finding("oom.kv-too-small", fix("shorter", max_model_len="29952"))
        return fails("kv_init.allocate", cause, kv_estimated_len=30_000, model_max_len=int(length))
    return WORKS


def test_two_faults_need_both_changes_and_only_these() -> None:
    run = play("vllm serve m --enable-metrics --max-model-len 65536", two_faults)
    found = run.search.found
    assert found is not None
    assert set(merged(found.steps).flags) == {"--enable-metrics", "--max-model-len"}
    assert 29_400 < float(str(merged(found.steps).flags["--max-model-len"])) <= 30_000


def test_change_that_is_not_needed_is_left_out_again() -> None:
    """The first fix only moves the failure; the second alone does."""

    def world(flags: dict[str, str], env: Env) -> Outcome:
        if env.get("B") == "1":
            return WORKS
        if "--max-num-seqs" in flags:
            return fails("graph_capture.capture", finding("graph.capture-failed", fix("b", "safe", {"B": "1"})))
        return fails("kv_init.profile", finding("oom.profile", fix("a", max_num_seqs="8")))

    run = play("vllm serve m", world)
    assert run.result == "B=1 vllm serve m"


def test_part_that_brings_the_failure_back_is_not_left_out_a_second_time() -> None:
    cause = finding("compile.stale-cache", fix("fresh", "safe", {"A": "1", "B": "1", "C": "1"}))

    def world(flags: dict[str, str], env: dict[str, str | None]) -> Outcome:
        return WORKS if "A" in env else fails("kv_init.compile", cause)

    run = play("vllm serve m", world)
    assert run.result == "A=1 vllm serve m"
    assert [dict(candidate.launch.env).keys() for candidate in run.tried] == [
        {"A", "B", "C"},
        {"B", "C"},
        {"A", "C"},
        {"A"},
    ]


def test_parts_of_one_fix_that_are_not_needed_are_left_out() -> None:
    cause = finding("compile.stale-cache", fix("fresh", "safe", {"A": "1", "B": "1", "C": "1"}))
    run = play("vllm serve m", lambda s, e: WORKS if e.get("B") else fails("kv_init.compile", cause))
    assert run.result == "B=1 vllm serve m"


def graphs(largest: int) -> object:
    def world(flags: dict[str, str], env: Env) -> Outcome:
        size = float(flags.get("--max-cudagraph-capture-size", 512))
        if "--enforce-eager" in flags or size <= largest:
            return WORKS
        fixes = (fix("fewer", max_cudagraph_capture_size="64"), fix("eager", enforce_eager=True))
        return fails("graph_capture.capture", finding("oom.graph-capture", *fixes))

    return world


@pytest.mark.parametrize("largest", [4, 16, 32, 64, 128, 256])
def test_eager_is_not_the_answer_where_smaller_sizes_do(largest: int) -> None:
    run = play("vllm serve m", graphs(largest))  # type: ignore[arg-type]
    assert run.search.found is not None
    flags = merged(run.search.found.steps).flags
    assert set(flags) == {"--max-cudagraph-capture-size"}
    size = float(str(flags["--max-cudagraph-capture-size"]))
    assert largest / 2 <= size <= largest


def test_eager_is_the_answer_where_nothing_else_does() -> None:
    run = play("vllm serve m", graphs(0))  # type: ignore[arg-type]
    assert run.result == "vllm serve m --enforce-eager"
    assert "--enforce-eager" in commands(run)[-1]


@given(
    true=st.integers(2_000, 120_000),
    error=st.floats(-0.015, 0.015),
    asked=st.integers(130_000, 1_000_000),
    told=st.booleans(),
)
def test_longest_length_is_found_in_four_trials_within_two_percent(
    true: int, error: float, asked: int, told: bool
) -> None:
    """The log's estimate may be off by a little, to either side, and known from the fix alone."""

    def world(flags: dict[str, str], env: Env) -> Outcome:
        length = int(float(flags["--max-model-len"]))
        if length <= true:
            return WORKS
        estimate = int(true * (1 + error))
        step = 256 if estimate >= 4096 else 16
        cause = finding("oom.kv-too-small", fix("shorter", max_model_len=str(estimate // step * step)))
        known = {"kv_estimated_len": estimate} if told else {}
        return fails("kv_init.allocate", cause, model_max_len=length, **known)

    run = play(f"vllm serve m --max-model-len {asked}", world)
    assert run.search.found is not None
    length = float(str(merged(run.search.found.steps).flags["--max-model-len"]))
    assert true * 0.94 <= length <= true
    assert len(run.tried) <= 4
    if error == 0.0:
        assert length >= true * 0.98
    if error == 0.0 and true > 13_000:
        # The fix, and one that proves that no more goes.
        assert len(run.tried) == 2


@given(true=st.integers(3_000, 30_000))
def test_longest_length_without_any_word_of_the_log(true: int) -> None:
    """Old releases say neither an estimate nor the memory: halves, then the gap is narrowed."""

    def world(flags: dict[str, str], env: Env) -> Outcome:
        length = int(float(flags["--max-model-len"]))
        cause = finding("oom.kv-too-small")
        return WORKS if length <= true else fails("kv_init.allocate", cause, model_max_len=length)

    run = play("vllm serve m --max-model-len 32768", world)
    assert run.search.found is not None
    length = float(str(merged(run.search.found.steps).flags["--max-model-len"]))
    assert true / 2 < length <= true


NAMES = ("A", "B", "C", "D")


@given(
    needed=st.sets(st.sets(st.sampled_from(NAMES), min_size=1).map(frozenset), min_size=1, max_size=3),
    order=st.permutations(NAMES),
    together=st.booleans(),
)
def test_result_works_and_no_part_of_it_can_go(needed: set[frozenset[str]], order: list[str], together: bool) -> None:
    """Any world in which one of some sets of variables is needed, monotone or not."""

    def works(names: set[str]) -> bool:
        return any(need <= names for need in needed)

    def world(flags: dict[str, str], env: Env) -> Outcome:
        have = {name for name in NAMES if env.get(name)}
        if works(have):
            return WORKS
        missing = [name for name in order if name not in have]
        parts = [{name: "1"} for name in missing] if not together else [dict.fromkeys(missing, "1")]
        fixes = [fix("+".join(part), "safe", part) for part in parts]  # type: ignore[arg-type]
        return fails("kv_init.profile", finding(f"unknown.{len(have)}", *fixes))

    run = play("vllm serve m", world, most=200)
    assert len(set(commands(run))) == len(run.tried)
    found = run.search.found
    assert found is not None
    names = set(merged(found.steps).env)
    assert works(names)
    for size in range(1, len(names)):
        for fewer in itertools.combinations(names, size):
            if len(fewer) == len(names) - 1:
                assert not works(set(fewer))


@given(st.lists(st.sampled_from(["safe", "lossy", "manual"]), max_size=6))
def test_only_allowed_steps_are_ever_tried(safeties: list[str]) -> None:
    fixes = [fix(f"f{at}", safety, {f"V{at}": "1"}) for at, safety in enumerate(safeties)]  # type: ignore[arg-type]
    run = play(
        "vllm serve m",
        lambda s, e: fails("kv_init.profile", finding("oom.profile", *fixes)),
        allowed=lambda step: step.safety == "safe",
    )
    assert all(step.safety == "safe" for candidate in run.tried for step in candidate.steps)
    assert len(run.tried) == safeties.count("safe")


@given(st.integers(16, 10**6), st.integers(17, 10**6))
def test_values_lie_between_what_works_and_what_fails(good: int, bad: int) -> None:
    value = next_value("--max-model-len", good, bad)
    assert value is None or good < float(value) < bad
    value = next_value("--max-num-seqs", good, bad)
    assert value is None or good < float(value) < bad


def test_search_is_limited_to_the_fixes_that_are_named() -> None:
    cause = finding(
        "oom.kv-too-small", fix("space", "safe", {"VLLM_CPU_KVCACHE_SPACE": "2"}), fix("shorter", max_model_len="64")
    )
    run = play("vllm serve m --max-model-len 65", lambda s, e: fails("kv_init.allocate", cause), only=["shorter"])
    assert commands(run)[0] == "vllm serve m --max-model-len 64"
    assert {step.id for candidate in run.tried for step in candidate.steps} == {"shorter"}
