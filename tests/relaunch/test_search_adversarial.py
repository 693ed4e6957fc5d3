"""Worlds that are out to mislead a search: what it says must hold all the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.relaunch.worlds import WORKS, Run, fails, finding, fix, play
from vdoctor.launch.command import parse, print_words
from vdoctor.relaunch.steps import Outcome, merged

Env = dict[str, str | None]


def proven(run: Run) -> str:
    """The command found; it must have been asked for, and not only be deduced."""
    assert run.search.found is not None
    asked = {tuple(print_words(candidate.launch)) for candidate in run.tried}
    assert run.search.found.key in asked
    assert run.result is not None
    return run.result


def both(flags: dict[str, str], env: Env) -> Outcome:
    """Either change alone dies of something that no rule has a fix for."""
    first, second = env.get("A") == "1", env.get("B") == "1"
    if first and second:
        return WORKS
    if first or second:
        return fails("kv_init.profile", finding("unknown.other" if first else "unknown.another"))
    return fails("kv_init.profile", finding("oom.profile", fix("a", "safe", {"A": "1"}), fix("b", "safe", {"B": "1"})))


def test_two_changes_that_only_help_together_are_found() -> None:
    run = play("vllm serve m", both)
    assert proven(run) == "A=1 B=1 vllm serve m"
    assert run.search.minimal


def test_change_that_makes_it_die_earlier_may_still_be_half_of_the_answer() -> None:
    def world(flags: dict[str, str], env: Env) -> Outcome:
        if env.get("A") == "1" and env.get("B") != "1":
            return fails("launch.config", finding("args.conflict"))
        return both(flags, env)

    assert proven(play("vllm serve m", world)) == "A=1 B=1 vllm serve m"


def test_each_fix_lays_the_other_fault_bare_and_brings_the_first_back_when_left_out() -> None:
    def world(flags: dict[str, str], env: Env) -> Outcome:
        if env.get("A") != "1":
            return fails("launch.config", finding("dist.nccl-init", fix("a", "safe", {"A": "1"})))
        if "--max-num-seqs" not in flags:
            return fails("launch.config", finding("oom.profile", fix("b", max_num_seqs="8")))
        return WORKS if float(flags["--max-num-seqs"]) <= 64 else fails("kv_init.profile", finding("oom.profile"))

    found = play("vllm serve m", world).search.found
    assert found is not None
    assert merged(found.steps).env == {"A": "1"}
    assert 8 <= float(str(merged(found.steps).flags["--max-num-seqs"])) <= 64


@pytest.mark.parametrize("trap", [range(9_000, 14_000), range(20_000, 29_000), range(4_097, 30_000)])
def test_length_that_works_with_holes_is_one_that_was_seen_to_work(trap: range) -> None:
    """Not monotone: below and above the hole it works."""

    def world(flags: dict[str, str], env: Env) -> Outcome:
        length = int(float(flags["--max-model-len"]))
        if length > 30_000 or length in trap:
            cause = finding("oom.kv-too-small", fix("shorter", max_model_len="4096"))
            return fails("kv_init.allocate", cause, model_max_len=length)
        return WORKS

    run = play("vllm serve m --max-model-len 65536", world)
    length = int(proven(run).rsplit(" ", 1)[1])
    assert 4_096 <= length <= 30_000
    assert length not in trap
    assert len(run.tried) <= 8


@given(answers=st.lists(st.booleans(), min_size=1, max_size=30))
def test_server_that_works_by_chance_is_never_called_proven_by_a_command_that_was_not_seen_to_work(
    answers: list[bool],
) -> None:
    coins = iter(answers * 10)
    worked: set[tuple[str, ...]] = set()

    def world(flags: dict[str, str], env: Env) -> Outcome:
        cause = finding("oom.profile", fix("a", max_num_seqs="8"), fix("b", "safe", {"B": "1"}))
        if next(coins):
            return WORKS
        return fails("kv_init.profile", cause)

    def remembering(flags: dict[str, str], env: Env) -> Outcome:
        outcome = world(flags, env)
        if outcome.verdict == "confirmed":
            worked.add((*sorted(flags.items()), *sorted(env.items())))  # type: ignore[arg-type]
        return outcome

    launch = "vllm serve m --seed 1"
    run = play(launch, remembering)
    found = run.search.found
    if found is not None and run.search.first.verdict != "confirmed":
        from tests.relaunch.worlds import settings

        assert (*sorted(settings(found.launch).items()), *sorted(dict(found.launch.env).items())) in worked


def test_what_costs_is_not_tried_where_nobody_agreed_and_what_is_free_is() -> None:
    cause = finding("oom.profile", fix("shorter", max_model_len="64"), fix("free", "safe", {"F": "1"}))
    run = play(
        "vllm serve m --max-model-len 65536",
        lambda s, e: fails("kv_init.profile", cause),
        allowed=lambda step: step.safety == "safe",
    )
    assert [" ".join(print_words(candidate.launch)) for candidate in run.tried] == [
        "F=1 vllm serve m --max-model-len 65536"
    ]
    assert "shorter" in {step.id for step in run.search.withheld}
    assert run.search.found is None


def test_option_that_stands_twice_stands_once_in_the_answer() -> None:
    def world(flags: dict[str, str], env: Env) -> Outcome:
        if flags.get("--max-model-len") == "4096" or "--max_model_len=4096" in flags:
            return WORKS
        return fails("kv_init.allocate", finding("oom.kv-too-small", fix("shorter", max_model_len="4096")))

    run = play("vllm serve m --max-model-len 70000 --port 1 --max_model_len=65536", world)
    assert proven(run) == "vllm serve m --port 1 --max_model_len=4096"


def test_variable_in_front_that_is_the_fault_is_taken_out() -> None:
    cause = finding("env.attention-backend", fix("unset", "safe", {"VLLM_ATTENTION_BACKEND": None}))

    def world(flags: dict[str, str], env: Env) -> Outcome:
        return fails("launch.config", cause) if env.get("VLLM_ATTENTION_BACKEND") == "XFORMERS" else WORKS

    assert proven(play("VLLM_ATTENTION_BACKEND=XFORMERS A=1 vllm serve m", world)) == "A=1 vllm serve m"


@pytest.mark.parametrize(
    ("wrapper", "program"),
    [
        ("conda run -n env --no-capture-output", "vllm serve m"),
        ("uv run --with vllm", "vllm serve m"),
        ("numactl --cpunodebind=0 --membind=0", "vllm serve m"),
        ("torchrun --nproc-per-node 2", "-m vllm.entrypoints.openai.api_server --model m"),
        ("env VLLM_USE_V1=1", "python -m vllm.entrypoints.api_server --model m"),
    ],
)
def test_wrapper_stays_and_the_change_is_the_servers(wrapper: str, program: str) -> None:
    def world(flags: dict[str, str], env: Env) -> Outcome:
        if "--max-num-seqs" in flags:
            return WORKS
        return fails("kv_init.profile", finding("oom.profile", fix("fewer", max_num_seqs="512")))

    run = play(f"{wrapper} {program}", world)
    assert proven(run) == f"{wrapper} {program} --max-num-seqs 512"
    assert print_words(parse(proven(run).split())) == proven(run).split()


def test_better_than_the_last_resort_is_looked_for_first_and_the_last_resort_is_minimal() -> None:
    """Eager works, and so does a pair; the pair keeps the graphs."""

    def world(flags: dict[str, str], env: Env) -> Outcome:
        if "--enforce-eager" in flags:
            return WORKS
        return both(flags, env)

    assert proven(play("vllm serve m", world)) == "A=1 B=1 vllm serve m"
