from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.launch import options as tables
from vdoctor.launch.change import apply
from vdoctor.launch.command import parse_text, print_text
from vdoctor.launch.options import OptionTable
from vdoctor.model import Change, FlagValue


@pytest.fixture(scope="module")
def table() -> OptionTable:
    return tables.load()


def changed(table: OptionTable, before: str, version: str | None = None, **change: object) -> str | None:
    launch = parse_text(before)
    assert launch is not None
    after = apply(launch, Change(**change), table, version)  # type: ignore[arg-type]
    return None if after is None else print_text(after)


LEN = "--max-model-len"


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("m", "8", "m --max-model-len 8"),
        ("m --max-model-len 4", "8", "m --max-model-len 8"),
        ("m --max-model-len=4 --port 1", "8", "m --max-model-len=8 --port 1"),
        ("m --max_model_len 4", "8", "m --max_model_len 8"),
        ("m --max_model_len=4", "8", "m --max_model_len=8"),
        ("--max-model-len 4 m", "8", "--max-model-len 8 m"),
        # argparse takes the last one
        ("m --max-model-len 4 --port 1 --max_model_len 5", "8", "m --port 1 --max_model_len 8"),
        # a beginning that means one option alone
        ("m --max-model 4", "8", "m --max-model 8"),
        # values that are missing, empty, negative
        ("m --max-model-len", "8", "m --max-model-len 8"),
        ("m --max-model-len --port 1", "8", "m --max-model-len 8 --port 1"),
        ("m --max-model-len=", "8", "m --max-model-len=8"),
        ("m --max-model-len -1 --port 1", "8", "m --max-model-len 8 --port 1"),
        # removed in every spelling
        ("m --max-model-len 4", None, "m"),
        ("m --max_model_len=4 --port 1", None, "m --port 1"),
        ("--max-model-len 4 m --max-model-len 5", None, "m"),
        ("m --max-model-len -1", None, "m"),
        ("m", None, "m"),
        # what only looks alike stays
        ("m --max-num-seqs 4", "8", "m --max-num-seqs 4 --max-model-len 8"),
        ("m --chat-template --max-model-len", "8", "m --chat-template --max-model-len 8"),
    ],
)
def test_sets_replaces_and_removes_a_value(table: OptionTable, before: str, value: str | None, after: str) -> None:
    assert changed(table, f"vllm serve {before}", flags={LEN: value}) == f"vllm serve {after}"


@pytest.mark.parametrize(
    ("before", "flag", "value", "after"),
    [
        ("m -tp 4", "--tensor-parallel-size", "2", "m -tp 2"),
        ("-tp=4 m", "--tensor-parallel-size", "2", "-tp=2 m"),
        ("m -tp 4", "--tensor-parallel-size", None, "m"),
        ("m -q awq", "--quantization", None, "m"),
        ("m --tensor-parallel-size 4", "-tp", "2", "m --tensor-parallel-size 2"),
        ("-O3 m", "-O", None, "m"),
        ("-O3 m", "-O", "0", "-O 0 m"),
        ("-O 3 m", "-O", None, "m"),
    ],
)
def test_short_options(table: OptionTable, before: str, flag: str, value: str | None, after: str) -> None:
    assert changed(table, f"vllm serve {before}", flags={flag: value}) == f"vllm serve {after}"


@pytest.mark.parametrize(
    ("before", "flag", "value", "after"),
    [
        ("m", "--enforce-eager", True, "m --enforce-eager"),
        ("m --enforce-eager", "--enforce-eager", True, "m --enforce-eager"),
        ("--enforce_eager m", "--enforce-eager", None, "m"),
        ("--enforce-eager m", "--enforce-eager", None, "m"),
        ("m --no-enforce-eager", "--enforce-eager", True, "m --enforce-eager"),
        ("m --enable-prefix-caching", "--no-enable-prefix-caching", True, "m --no-enable-prefix-caching"),
        (
            "m --no-enable-prefix-caching --port 1",
            "--enable-prefix-caching",
            True,
            "m --enable-prefix-caching --port 1",
        ),
        ("m --no-enable-prefix-caching", "--no-enable-prefix-caching", None, "m"),
        ("m --trust-remote-code --trust-remote-code", "--trust-remote-code", True, "m --trust-remote-code"),
    ],
)
def test_switches_and_their_negations(table: OptionTable, before: str, flag: str, value: FlagValue, after: str) -> None:
    assert changed(table, f"vllm serve {before}", flags={flag: value}) == f"vllm serve {after}"


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("m --cudagraph-capture-sizes 1 2 4 --port 1", None, "m --port 1"),
        ("m --cudagraph-capture-sizes 1 2 4 --port 1", "8 16", "m --cudagraph-capture-sizes 8 16 --port 1"),
        ("m --cudagraph-capture-sizes=1", "8 16", "m --cudagraph-capture-sizes 8 16"),
        ("m", "1 2", "m --cudagraph-capture-sizes 1 2"),
        ("--cudagraph-capture-sizes 1 2 -- m", None, "-- m"),
    ],
)
def test_options_of_many_values(table: OptionTable, before: str, value: str | None, after: str) -> None:
    assert changed(table, f"vllm serve {before}", flags={"--cudagraph-capture-sizes": value}) == f"vllm serve {after}"


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("m", "-3", "m --seed -3"),
        ("m --seed -1 --port 1", "-3", "m --seed -3 --port 1"),
        ("m --seed=-1", "-3", "m --seed=-3"),
    ],
)
def test_negative_numbers_are_values(table: OptionTable, before: str, value: str, after: str) -> None:
    assert changed(table, f"vllm serve {before}", flags={"--seed": value}) == f"vllm serve {after}"


def test_a_value_that_looks_like_an_option_is_joined_to_it(table: OptionTable) -> None:
    assert changed(table, "vllm serve m", flags={"--api-key": "-x"}) == "vllm serve m --api-key=-x"
    assert changed(table, "vllm serve m --api-key a", flags={"--api-key": "--port"}) == "vllm serve m --api-key=--port"


def test_values_are_quoted_for_the_shell(table: OptionTable) -> None:
    assert (
        changed(table, "vllm serve m", flags={"--hf-overrides": '{"a": 1}'})
        == """vllm serve m --hf-overrides '{"a": 1}'"""
    )
    assert (
        changed(table, "vllm serve m", flags={"--dtype": "half; rm -rf /"}) == "vllm serve m --dtype 'half; rm -rf /'"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m", """m --compilation-config '{"cudagraph_mode": "NONE"}'"""),
        (
            """m --compilation-config '{"level": 3}'""",
            """m --compilation-config '{"level": 3, "cudagraph_mode": "NONE"}'""",
        ),
        (
            """m --compilation-config='{"cudagraph_mode": "FULL"}'""",
            """m '--compilation-config={"cudagraph_mode": "NONE"}'""",
        ),
        ("m --compilation-config.level 3", "m --compilation-config.level 3 --compilation-config.cudagraph_mode NONE"),
        ("m --compilation-config.cudagraph_mode=FULL --port 1", "m --compilation-config.cudagraph_mode=NONE --port 1"),
        ("m --compilation-config not-json", """m --compilation-config '{"cudagraph_mode": "NONE"}'"""),
    ],
)
def test_an_object_keeps_the_keys_that_the_change_does_not_name(table: OptionTable, before: str, after: str) -> None:
    change = {"--compilation-config": '{"cudagraph_mode": "NONE"}'}
    assert changed(table, f"vllm serve {before}", flags=change) == f"vllm serve {after}"


def test_removing_an_object_removes_its_keys(table: OptionTable) -> None:
    before = "vllm serve --speculative-config.method ngram m --speculative-config.num_speculative_tokens=3 --port 1"
    assert changed(table, before, flags={"--speculative-config": None}) == "vllm serve m --port 1"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # no release has them: a switch by its name, or the next word is the model
        ("--enable-foo m", "m"),
        ("--disable-foo m --port 1", "m --port 1"),
        ("--no-foo m", "m"),
        ("--use-foo m", "m"),
        ("--foo m", "m"),
        ("--foo m --port 1", "m --port 1"),
        ("--foo org/m --bar auto", "org/m --bar auto"),
        ("--foo m --bar 3", "m --bar 3"),
        # the next word is a value
        ("--foo 3 m", "m"),
        ("--foo=3 m", "m"),
        ("m --foo 3 --port 1", "m --port 1"),
        ("m --foo bar", "m"),
        ("--foo bar --port 1 m", "--port 1 m"),
        ("--foo bar org/m", "org/m"),
        ("m --foo 1 2 3 --port 1", "m --port 1"),
        ("--foo '{\"a\": 1}' m", "m"),
        ("m --foo -1", "m"),
        ("m --foo --port 1", "m --port 1"),
        ("m --foo", "m"),
        ("m --foo=1 --foo 2 --foo", "m"),
        ("--foo bar -- m", "-- m"),
        ("--model m --foo bar", "--model m"),
    ],
)
def test_removing_an_unknown_option_never_takes_the_model(table: OptionTable, before: str, after: str) -> None:
    flag = next(word for word in before.split() if "foo" in word).partition("=")[0]
    assert changed(table, f"vllm serve {before}", flags={flag: None}) == f"vllm serve {after}"


def test_several_unknown_options_at_once(table: OptionTable) -> None:
    before = "vllm serve --enable-metrics --swap-pages 4 org/m --worker-kind fast --port 1"
    change: dict[str, FlagValue] = {"--enable-metrics": None, "--swap-pages": None, "--worker-kind": None}
    assert changed(table, before, flags=change) == "vllm serve org/m --port 1"


def test_where_no_bare_word_is_a_model_every_bare_word_is_a_value(table: OptionTable) -> None:
    before = "python -m vllm.entrypoints.openai.api_server --foo bar --model m"
    assert changed(table, before, flags={"--foo": None}) == "python -m vllm.entrypoints.openai.api_server --model m"
    before = "python -m vllm.entrypoints.openai.api_server --foo bar"
    assert changed(table, before, flags={"--foo": None}) == "python -m vllm.entrypoints.openai.api_server"


def test_an_option_that_only_other_releases_have_takes_its_value_along(table: OptionTable) -> None:
    assert changed(table, "vllm serve --swap-space 4 m", "0.32.0", flags={"--swap-space": None}) == "vllm serve m"
    assert changed(table, "vllm serve --worker-use-ray m", "0.32.0", flags={"--worker-use-ray": None}) == "vllm serve m"


def test_behind_two_dashes_nothing_is_an_option(table: OptionTable) -> None:
    assert changed(table, "vllm serve --port 1 -- m", flags={LEN: "8"}) == "vllm serve --port 1 --max-model-len 8 -- m"
    assert changed(table, "vllm serve -- --max-model-len", flags={LEN: None}) == "vllm serve -- --max-model-len"


@pytest.mark.parametrize(
    ("before", "env", "after"),
    [
        ("vllm serve m", {"A": "b c"}, "A='b c' vllm serve m"),
        ("A=1 B=2 vllm serve m", {"A": "3"}, "A=3 B=2 vllm serve m"),
        ("A=1 B=2 vllm serve m", {"A": None}, "B=2 vllm serve m"),
        ("vllm serve m", {"A": None}, "env -u A vllm serve m"),
        ("env -u A vllm serve m", {"A": None}, "env -u A vllm serve m"),
        ("env -u A vllm serve m", {"A": "1"}, "env A=1 vllm serve m"),
        ("env B=1 vllm serve m", {"A": None}, "env -u A B=1 vllm serve m"),
        ("env A=1 B=2 vllm serve m", {"A": "3"}, "env A=3 B=2 vllm serve m"),
        ("env A=1 B=2 vllm serve m", {"A": None}, "env B=2 vllm serve m"),
        ("nohup env A=1 vllm serve m", {"A": "2"}, "nohup env A=2 vllm serve m"),
        ("A=0 sh -c 'A=1 vllm serve m'", {"A": "2"}, "A=0 sh -c 'A=2 vllm serve m'"),
        ("sh -c 'vllm serve m'", {"A": "2"}, "A=2 sh -c 'vllm serve m'"),
        ("docker run img m", {"A": "1"}, "docker run -e A=1 img m"),
        ("docker run -e A=0 img m", {"A": "1"}, "docker run -e A=1 img m"),
        ("docker run --env A=0 --env=A=2 -eA=3 -e B=4 img m", {"A": "1"}, "docker run -e A=1 -e B=4 img m"),
        ("docker run -e A img m", {"A": "1"}, "docker run -e A=1 img m"),
        ("docker run -e A=0 -e AB=1 img m", {"A": None}, "docker run -e AB=1 img m"),
        ("docker run -e 'A=x y' img m", {"B": "z"}, "docker run -e 'A=x y' -e B=z img m"),
    ],
)
def test_environment_outside_and_inside_a_container(
    table: OptionTable, before: str, env: dict[str, str | None], after: str
) -> None:
    assert changed(table, before, env=env) == after


@pytest.mark.parametrize(
    ("before", "container", "after"),
    [
        ("docker run img m", {"--shm-size": "16g"}, "docker run --shm-size=16g img m"),
        ("docker run --shm-size 1g img m", {"--shm-size": "16g"}, "docker run --shm-size=16g img m"),
        ("docker run --shm-size=1g --rm img m", {"--shm-size": "16g"}, "docker run --shm-size=16g --rm img m"),
        ("docker run --ipc private img m", {"--ipc": "host"}, "docker run --ipc=host img m"),
        ("docker run img m", {"--privileged": True}, "docker run --privileged img m"),
        ("docker run --privileged img m", {"--privileged": True}, "docker run --privileged img m"),
        ("docker run --gpus all img", {"--gpus": "device=0"}, "docker run --gpus=device=0 img"),
    ],
)
def test_options_of_the_container(
    table: OptionTable, before: str, container: dict[str, str | bool], after: str
) -> None:
    assert changed(table, before, container=container) == after


def test_a_bare_command_has_no_place_for_options_of_a_container(table: OptionTable) -> None:
    assert changed(table, "vllm serve m", container={"--shm-size": "16g"}) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sh -c 'vllm serve m'", "sh -c 'vllm serve m --max-model-len 8'"),
        (
            "bash -lc 'cd /x && vllm serve  $M --max-model-len 4 | tee log'",
            "bash -lc 'cd /x && vllm serve  $M --max-model-len 8 | tee log'",
        ),
        ("""sh -c 'vllm serve "$M"; exit'""", """sh -c 'vllm serve "$M" --max-model-len 8; exit'"""),
        ("docker run img sh -c 'vllm serve m >log'", "docker run img sh -c 'vllm serve m --max-model-len 8 >log'"),
    ],
)
def test_flags_go_into_a_shell_script(table: OptionTable, before: str, after: str) -> None:
    assert changed(table, before, flags={LEN: "8"}) == after


def test_null_takes_a_key_of_an_object_away(table: OptionTable) -> None:
    before = """vllm serve m --compilation-config '{"a": 1, "b": 2}'"""
    after = """vllm serve m --compilation-config '{"a": 1}'"""
    assert changed(table, before, flags={"--compilation-config": '{"b": null}'}) == after


def test_flags_go_behind_the_image(table: OptionTable) -> None:
    assert changed(table, "docker run --rm img", flags={LEN: "8"}) == "docker run --rm img --max-model-len 8"


def test_an_empty_change_changes_nothing(table: OptionTable) -> None:
    assert changed(table, "A=1 vllm serve m --foo") == "A=1 vllm serve m --foo"


FLAGS: list[tuple[str, FlagValue]] = [
    (LEN, "8"),
    (LEN, None),
    ("--tensor-parallel-size", "2"),
    ("-tp", None),
    ("--enforce-eager", True),
    ("--enforce-eager", None),
    ("--no-enable-prefix-caching", True),
    ("--compilation-config", '{"cudagraph_mode": "NONE"}'),
    ("--cudagraph-capture-sizes", "1 2"),
    ("--foo", None),
    ("--seed", "-1"),
    ("-O", None),
]
WORDS = [
    "m",
    "org/m",
    "--max-model-len",
    "--max_model_len=4",
    "4",
    "-1",
    "-tp",
    "-tp=4",
    "--enforce-eager",
    "--foo",
    "--foo=1",
    "--port",
    "--",
    "-O3",
    "--compilation-config.level=3",
    '{"a": 1}',
    "--cudagraph-capture-sizes",
    "",
    "-",
    "--no-enable-prefix-caching",
]


@given(st.lists(st.sampled_from(WORDS), max_size=8), st.sampled_from(FLAGS), st.sampled_from([None, "0.8.5", "0.32.0"]))
def test_the_same_change_twice_changes_nothing_more(
    args: list[str], flag: tuple[str, FlagValue], version: str | None
) -> None:
    table = tables.load()
    launch = parse_text("vllm serve x")
    assert launch is not None
    change = Change(dict([flag]), {"A": "1"})
    once = apply(type(launch)(launch.env, (), launch.program, tuple(args)), change, table, version)
    assert once is not None
    assert apply(once, change, table, version) == once


@given(st.lists(st.sampled_from(WORDS), max_size=8), st.sampled_from([flag for flag in FLAGS if flag[1] is None]))
def test_a_removal_only_takes_away(args: list[str], flag: tuple[str, FlagValue]) -> None:
    table = tables.load()
    launch = parse_text("vllm serve x")
    assert launch is not None
    after = apply(type(launch)((), (), launch.program, tuple(args)), Change(dict([flag])), table)
    assert after is not None
    left = iter(args)
    assert all(word in left for word in after.args)
    if "org/m" in args and "m" not in args and "--model" not in args and flag[0] == "--foo":
        assert "org/m" in after.args


def test_every_order_of_a_changes_flags_gives_the_same_options(table: OptionTable) -> None:
    pairs = [(LEN, "8"), ("--enforce-eager", True), ("--port", None)]
    results = set()
    for order in itertools.permutations(pairs):
        text = changed(table, "vllm serve m --port 1 --max-model-len 4", flags=dict(order))
        results.add(text)
    assert results == {"vllm serve m --max-model-len 8 --enforce-eager"}
