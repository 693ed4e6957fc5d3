"""Whatever the command: parse then print is the same; a change then its inverse is the same launch."""

from __future__ import annotations

import json
import shlex

from hypothesis import given
from hypothesis import strategies as st

from vdoctor.launch import options as tables
from vdoctor.launch.change import apply, inverse
from vdoctor.launch.command import editable, parse, print_words, variables
from vdoctor.launch.values import value
from vdoctor.model import Change, FlagValue, Launch

VERSION = "0.32.0"
WRAPPERS = [
    [],
    ["numactl", "-N", "0"],
    ["nohup"],
    ["uv", "run", "--with", "vllm"],
    ["conda", "run", "-n", "x"],
    ["ray", "job", "submit", "--"],
    ["env", "-u", "B"],
    ["env", "A=1"],
]
SERVERS = [
    ["vllm", "serve", "org/m"],
    ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "org/m"],
    ["torchrun", "--nproc", "2", "-m", "vllm.entrypoints.api_server", "--model=org/m"],
]
ARGS = [
    ["--max-model-len", "4096"],
    ["--max_model_len=4096"],
    ["--max-model-len", "16k"],
    ["-tp", "2"],
    ["-tp=2"],
    ["-O0"],
    ["-O3"],
    ["-cc.cudagraph_mode=NONE"],
    ["--compilation-config", '{"level": 3, "x": "a b"}'],
    ["--compilation-config.level", "3"],
    ["--enforce-eager"],
    ["--no-enable-prefix-caching"],
    ["--enable-prefix-caching"],
    ["--cudagraph-capture-sizes", "1", "2", "4"],
    ["--trust_remote_code"],
    ["--config", "file.yaml"],
    ["--port", "80"],
    ["--served-model-name", "a", "b"],
    ["--chat-template", "a b'c\"d"],
    ["--seed", "-1"],
]
IMAGES = [
    [],
    ["docker", "run", "--rm", "img"],
    [
        "sudo",
        "docker",
        "run",
        "-it",
        "--gpus",
        "all",
        "-e",
        "A=0",
        "--shm-size=1g",
        "--ipc=host",
        "vllm/vllm-openai:v0.9",
    ],
    ["podman", "run", "--device", "x", "-eB=2", "--privileged", "img"],
]
FLAGS: list[tuple[str, FlagValue]] = [
    ("--max-model-len", "8"),
    ("--max-model-len", None),
    ("--tensor-parallel-size", "4"),
    ("--tensor-parallel-size", None),
    ("--enforce-eager", True),
    ("--enforce-eager", None),
    ("--port", "81"),
    ("--served-model-name", "x y"),
    ("--chat-template", "{{ x }} y"),
    ("--compilation-config", '{"cudagraph_mode": "PIECEWISE"}'),
    ("--seed", "-2"),
]


@st.composite
def launches(draw: st.DrawFn) -> list[str]:
    """Commands as people write them, one option of a kind at most once."""
    args: list[str] = []
    seen: set[str] = set()
    for one in draw(st.lists(st.sampled_from(ARGS), max_size=5)):
        kind = one[0].strip("-").replace("_", "-").partition("=")[0].partition(".")[0].removeprefix("no-")
        kind = {"cc": "compilation-config", "O0": "O", "O3": "O"}.get(kind, kind)
        if kind not in seen:
            args += one
            seen.add(kind)
    image = draw(st.sampled_from(IMAGES))
    server = draw(st.sampled_from(SERVERS))
    wrapper = draw(st.sampled_from(WRAPPERS)) if not image else []
    inner = [*wrapper, *server, *args]
    if draw(st.booleans()):
        before, after = (
            draw(st.sampled_from(["", "cd /x && exec ", "set -e; "])),
            draw(st.sampled_from(["", " > log 2>&1"])),
        )
        inner = ["bash", draw(st.sampled_from(["-c", "-lc"])), before + shlex.join(inner) + after]
    env = draw(st.sampled_from([[], ["A=b c"], ["A=1", "C=2"]])) if not image else []
    return [*env, *image, *inner]


@given(launches())
def test_parse_then_print_is_the_same(words: list[str]) -> None:
    launch = parse(words)
    assert print_words(launch) == words
    assert editable(launch)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12), max_size=8))
def test_parse_then_print_is_the_same_for_any_words(words: list[str]) -> None:
    assert print_words(parse(words)) == words


@given(st.text(st.sampled_from("ab '\"\\$`(){}|;&><\n#-cvllm serve="), max_size=40))
def test_any_script_comes_back_as_it_was(script: str) -> None:
    words = ["sh", "-c", script]
    assert print_words(parse(words)) == words
    words = ["sh", "-c", script + "\nvllm serve m --port 1"]
    assert print_words(parse(words)) == words


def meaning(launch: Launch) -> object:
    """What a launch asks for, whatever the order of its options."""
    table = tables.load()
    flags: dict[str, object] = {}
    others = ("--cudagraph-capture-sizes", "--trust-remote-code", "--config", "--enable-prefix-caching", "-O")
    for flag in (*dict.fromkeys(name for name, _ in FLAGS), *others):
        found: object = value(launch, flag, table, VERSION)
        if flag == "--compilation-config" and isinstance(found, str):
            found = json.loads(found)
        flags[flag] = found
    keyed = sorted(" ".join(launch.args[at : at + 2]) for at, word in enumerate(launch.args) if word.count(".") == 1)
    container = " ".join(launch.container).replace("--shm-size 1g", "--shm-size=1g").split()
    return flags, variables(launch), sorted(container), keyed, "org/m" in " ".join(launch.args)


@given(
    launches(),
    st.lists(st.sampled_from(FLAGS), max_size=3, unique_by=lambda pair: pair[0]),
    st.dictionaries(st.sampled_from(["A", "D"]), st.sampled_from(["1", "x y"]), max_size=2),
    st.sampled_from([{}, {"--shm-size": "16g"}, {"--ipc": "private"}, {"--privileged": True}]),
)
def test_change_then_its_inverse_is_the_same_launch(
    words: list[str], flags: list[tuple[str, FlagValue]], env: dict[str, str], container: dict[str, str | bool]
) -> None:
    table = tables.load()
    launch = parse(words)
    change = Change(dict(flags), env, container if launch.container else {})
    changed = apply(launch, change, table, VERSION)
    assert changed is not None
    back = apply(changed, inverse(launch, change, table, VERSION), table, VERSION)
    assert back is not None
    if "D" in env and "D" not in variables(launch):
        assert "D" not in variables(back)
    assert meaning(back) == meaning(launch)


@given(launches(), st.sampled_from(FLAGS))
def test_change_holds_afterwards(words: list[str], change: tuple[str, FlagValue]) -> None:
    table = tables.load()
    flag, wanted = change
    changed = apply(parse(words), Change({flag: wanted}), table, VERSION)
    assert changed is not None
    again = parse(print_words(changed))
    if flag != "--compilation-config":
        assert value(again, flag, table, VERSION) == wanted
    assert print_words(again) == print_words(changed)
