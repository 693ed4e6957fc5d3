"""The printed command, pasted into a real bash, starts the same words with the same variables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vdoctor.launch import options as option_tables
from vdoctor.launch.change import apply
from vdoctor.launch.command import environment, parse, print_text, words
from vdoctor.model import Change

OPTIONS = option_tables.load()
PRINTER = f"""#!{sys.executable}
import json, os, sys
print(json.dumps([[os.path.basename(sys.argv[0]), *sys.argv[1:]], {{k: v for k, v in os.environ.items() if k[:2] == "T_"}}]))
"""
WRAPPERS = ("vllm", "docker", "conda", "uv", "torchrun", "numactl", "nohup", "sh", "env")
HOSTILE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.sampled_from(
    [
        "$HOME",
        "`id`",
        "!x",
        "it's",
        '"',
        "a b",
        "*",
        "~",
        "~/x",
        "\\",
        "\n",
        "{a,b}",
        "",
        "#x",
        "=",
        "-",
        "$(id)",
        ";&|",
    ]
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    for name in WRAPPERS:
        (folder / name).write_text(PRINTER)
        (folder / name).chmod(0o755)
    return folder


def pasted(texts: list[str], programs: Path) -> list[tuple[list[str], dict[str, str]]]:
    """Words and variables of each command, as bash starts it."""
    script = "\n".join(texts) + "\n"
    env = {"PATH": str(programs), "HOME": "/home/me", "LANG": "C.UTF-8"}
    done = subprocess.run(["/bin/bash", "-s"], input=script.encode(), capture_output=True, env=env, timeout=60)
    assert done.stderr == b"", done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]  # type: ignore[misc]


COMMANDS = (
    ["vllm", "serve", "m"],
    ["T_A=1", "T_B=x y", "vllm", "serve", "m", "--hf-overrides", '{"a": "it\'s"}'],
    ["conda", "run", "-n", "e", "vllm", "serve", "m"],
    ["uv", "run", "vllm", "serve", "m"],
    ["torchrun", "--nproc-per-node", "2", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"],
    ["numactl", "--membind=0", "vllm", "serve", "m"],
    ["nohup", "vllm", "serve", "m"],
    ["sh", "-c", "cd / && exec vllm serve m --api-key '$X'"],
    ["docker", "run", "-e", "T_C=1", "--gpus", "all", "-p", "1:8000", "vllm/vllm-openai:v1", "--model", "m"],
)
CHANGES = (
    Change({"--max-model-len": "64"}),
    Change({"--compilation-config": '{"cudagraph_mode": "PIECEWISE"}', "--enforce-eager": True}),
    Change(env={"T_D": "it's $HOME", "T_A": None}),
    Change(env={"T_CACHE": "~/.cache/vllm-fresh", "T_E": "~"}),
)


def test_changed_commands_start_what_is_printed(programs: Path) -> None:
    launches = [apply(parse(command), change, OPTIONS) for command in COMMANDS for change in CHANGES]
    kept = [launch for launch in launches if launch is not None]
    assert len(kept) > 30
    home = {"HOME": "/home/me"}
    for launch, (argv, env) in zip(kept, pasted([print_text(one) for one in kept], programs), strict=True):
        assert argv == words(launch)
        assert env == {name: text for name, text in environment(launch, home).items() if name.startswith("T_")}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.lists(HOSTILE, max_size=4), st.dictionaries(st.just("T_X"), HOSTILE)), min_size=1, max_size=20
    )
)
def test_hostile_words_survive(programs: Path, rows: list[tuple[list[str], dict[str, str]]]) -> None:
    launches = [parse([*(f"{k}={v}" for k, v in env.items()), "vllm", "serve", *args]) for args, env in rows]
    for launch, (argv, env) in zip(launches, pasted([print_text(one) for one in launches], programs), strict=True):
        assert argv == words(launch)
        assert env == {n: v for n, v in environment(launch, {"HOME": "/home/me"}).items() if n.startswith("T_")}
