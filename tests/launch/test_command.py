from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.launch.command import (
    editable,
    from_arguments,
    parse,
    parse_text,
    print_text,
    print_words,
    variables,
    words,
)
from vdoctor.model import Launch


def launch(text: str) -> Launch:
    parsed = parse_text(text)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("text", "program", "args"),
    [
        ("vllm serve m --max-model-len 8", "vllm serve", "m --max-model-len 8"),
        ("/opt/venv/bin/vllm serve m", "/opt/venv/bin/vllm serve", "m"),
        (
            "python -m vllm.entrypoints.openai.api_server --model m",
            "python -m vllm.entrypoints.openai.api_server",
            "--model m",
        ),
        (
            "python3.11 -u -m vllm.entrypoints.api_server --model m",
            "python3.11 -u -m vllm.entrypoints.api_server",
            "--model m",
        ),
        ("python3 -m vllm serve m", "python3 -m vllm serve", "m"),
        ("python -m vllm.entrypoints.cli.main serve m -tp 2", "python -m vllm.entrypoints.cli.main serve", "m -tp 2"),
        (
            "python /src/vllm/entrypoints/openai/api_server.py --model m",
            "python /src/vllm/entrypoints/openai/api_server.py",
            "--model m",
        ),
        ("numactl -N 0 vllm serve m", "numactl -N 0 vllm serve", "m"),
        ("uv run vllm serve m", "uv run vllm serve", "m"),
        ("srun -N1 --label vllm serve m", "srun -N1 --label vllm serve", "m"),
        (
            "torchrun --nproc 2 -m vllm.entrypoints.openai.api_server --model m",
            "torchrun --nproc 2 -m vllm.entrypoints.openai.api_server",
            "--model m",
        ),
        ("vllm serve", "vllm serve", ""),
    ],
)
def test_finds_where_the_servers_own_arguments_begin(text: str, program: str, args: str) -> None:
    found = launch(text)
    assert found.program == tuple(program.split())
    assert found.args == tuple(args.split())
    assert editable(found)


@pytest.mark.parametrize(
    ("text", "container", "program", "args"),
    [
        (
            "docker run --gpus all -p 8000:8000 img:tag --model m",
            "docker run --gpus all -p 8000:8000 img:tag",
            "",
            "--model m",
        ),
        ("docker run --rm -it --ipc=host img m -tp 2", "docker run --rm -it --ipc=host img", "", "m -tp 2"),
        (
            "podman run -itd --device nvidia.com/gpu=all img --model m",
            "podman run -itd --device nvidia.com/gpu=all img",
            "",
            "--model m",
        ),
        (
            "nerdctl run -p8000:8000 -v/data:/data -eA=1 img m",
            "nerdctl run -p8000:8000 -v/data:/data -eA=1 img",
            "",
            "m",
        ),
        ("docker container run -d img m", "docker container run -d img", "", "m"),
        ("docker run -itv /a:/b img m", "docker run -itv /a:/b img", "", "m"),
        ("docker run -d=true --shm-size 16g img", "docker run -d=true --shm-size 16g img", "", ""),
        ("docker run img vllm serve m", "docker run img", "vllm serve", "m"),
        ("docker run --entrypoint vllm img serve m", "docker run --entrypoint vllm img", "serve", "m"),
        (
            "docker run img python3 -m vllm.entrypoints.openai.api_server --model m",
            "docker run img",
            "python3 -m vllm.entrypoints.openai.api_server",
            "--model m",
        ),
        (
            "docker run --entrypoint python3 img -m vllm.entrypoints.openai.api_server --model m",
            "docker run --entrypoint python3 img",
            "-m vllm.entrypoints.openai.api_server",
            "--model m",
        ),
    ],
)
def test_takes_a_container_command_apart_at_its_image(text: str, container: str, program: str, args: str) -> None:
    found = launch(text)
    assert found.container == tuple(container.split())
    assert found.program == tuple(program.split())
    assert found.args == tuple(args.split())
    assert editable(found)


@pytest.mark.parametrize(
    "text",
    [
        "bash start.sh",
        "sh -c 'echo vllm'",
        "sh -c",
        "sh -c 'vllm serve m'\"'\"",
        "docker run img bash -c 'python3 serve.py'",
        "docker run img python3 serve.py",
        "docker run",
        "docker ps",
        "docker compose up vllm",
        "docker compose up server",
        "docker container start server --attach",
        "docker",
        "vllm",
        "vllm --help",
        "vllm bench serve --model m",
        "python train.py",
        "make serve",
    ],
)
def test_what_starts_no_known_server_can_be_shown_but_not_edited(text: str) -> None:
    found = launch(text)
    assert print_words(found) == shlex.split(text)
    assert not editable(found)


def test_assignments_in_front_are_the_environment() -> None:
    found = launch("CUDA_VISIBLE_DEVICES=0,1 EMPTY= A='b c=d' vllm serve m")
    assert found.env == (("CUDA_VISIBLE_DEVICES", "0,1"), ("EMPTY", ""), ("A", "b c=d"))
    assert words(found) == ["vllm", "serve", "m"]


def test_an_env_in_front_is_kept_and_its_variables_are_known() -> None:
    found = launch("env A=1 -u B C=2 vllm serve m")
    assert print_words(found) == ["env", "A=1", "-u", "B", "C=2", "vllm", "serve", "m"]
    assert variables(found) == {"A": "1", "B": None, "C": "2"}


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("A=1 B=2 vllm serve m", {"A": "1", "B": "2"}),
        ("A=1 env A=2 vllm serve m", {"A": "2"}),
        ("nohup env A=2 numactl -N 0 vllm serve m", {"A": "2"}),
        ("sudo -E A=1 vllm serve m", {"A": "1"}),
        ("docker run -e A=1 --env B=2 --env=C=3 -eD=4 -e E img m", {"A": "1", "B": "2", "C": "3", "D": "4"}),
        ("sh -c 'A=1 exec vllm serve m'", {"A": "1"}),
        ("vllm serve A=1", {}),
    ],
)
def test_variables_of_a_command(text: str, known: dict[str, str]) -> None:
    assert variables(launch(text)) == known


@pytest.mark.parametrize("text", ["env -i A=1 vllm serve m", "env -u B vllm serve m"])
def test_an_env_with_options_is_kept(text: str) -> None:
    found = launch(text)
    assert print_words(found) == text.split()
    assert found.args == ("m",)


@pytest.mark.parametrize(
    "tail",
    [
        "> log.txt",
        ">log.txt 2>&1",
        "2>&1 | tee log",
        "&> log",
        "&",
        "&& echo done",
        "; echo done",
        "| tee x",
        "< /dev/null",
        "2>/dev/null &",
        "# my model",
        "#my-model",
    ],
)
def test_what_belongs_to_the_shell_is_left_out(tail: str) -> None:
    assert launch(f"vllm serve m --port 1 {tail}") == launch("vllm serve m --port 1")


def test_a_number_sign_inside_a_word_is_no_comment() -> None:
    assert launch("vllm serve org/m#1 --port 1").args == ("org/m#1", "--port", "1")


def test_a_semicolon_at_the_last_word_is_left_out() -> None:
    assert launch("vllm serve m; echo x").args == ("m",)


@pytest.mark.parametrize("word", ["<your-model>", "a>b", "org/model#1", "a&b", "a;b"])
def test_signs_inside_a_word_stay(word: str) -> None:
    quoted = word if word.startswith("<") else shlex.quote(word)
    assert launch(f"vllm serve {quoted} --port 1").args == (word, "--port", "1")


INNER = """vllm serve m --hf-overrides '{"a": 1}'"""


@pytest.mark.parametrize("wrapper", ["sudo", "sudo -E", "exec", "time", "nohup", "sudo -E nohup"])
def test_wrappers_are_kept(wrapper: str) -> None:
    found = launch(f"{wrapper} vllm serve m")
    assert (found.program, found.args) == ((*wrapper.split(), "vllm", "serve"), ("m",))
    assert editable(found)
    found = launch(f"{wrapper} docker run img m")
    assert (found.container, found.args) == ((*wrapper.split(), "docker", "run", "img"), ("m",))


@pytest.mark.parametrize(
    ("text", "program", "args"),
    [
        ("sh -c 'vllm serve m --max-model-len 8'", "vllm serve", ["m", "--max-model-len", "8"]),
        ("bash -lc 'cd /x && exec vllm serve m > log 2>&1; echo done'", "exec vllm serve", ["m"]),
        ("docker run img /bin/bash -c 'vllm serve m'", "vllm serve", ["m"]),
        (
            """sh -c 'A=1 vllm serve "$MODEL" --port ${PORT:-80} # x' name""",
            "A=1 vllm serve",
            ["$MODEL", "--port", "${PORT:-80}"],
        ),
        (
            """sh -c 'python -m vllm.entrypoints.openai.api_server \\\n  --model m'""",
            "python -m vllm.entrypoints.openai.api_server",
            ["--model", "m"],
        ),
        (f"sh -c {shlex.quote(INNER)}", "vllm serve", ["m", "--hf-overrides", '{"a": 1}']),
    ],
)
def test_server_inside_a_shell_script(text: str, program: str, args: list[str]) -> None:
    text = text.replace("\\n", "\n")
    found = launch(text)
    assert (found.program, list(found.args)) == (tuple(program.split()), args)
    assert editable(found)
    assert print_words(found) == shlex.split(text)


@pytest.mark.parametrize(
    "text", ["vllm serve 'm", 'vllm serve "', "vllm serve m \\", "", "   ", "sudo", "> log", "# only a comment"]
)
def test_broken_quoting_and_nothing_are_no_command(text: str) -> None:
    assert parse_text(text) is None


values = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
names = st.sampled_from(["A", "CUDA_VISIBLE_DEVICES", "_x1"])
heads = st.sampled_from(
    [
        ["vllm", "serve"],
        ["python", "-m", "vllm.entrypoints.openai.api_server"],
        ["docker", "run", "--gpus", "all", "--rm", "img"],
        ["docker", "run", "-e", "A=1", "img", "vllm", "serve"],
        ["bash", "-c"],
    ]
)


@given(st.lists(st.tuples(names, values), max_size=3), heads, st.lists(values, max_size=6))
def test_parsed_and_printed_the_words_are_the_same(
    env: list[tuple[str, str]], head: list[str], rest: list[str]
) -> None:
    argv = [*(f"{name}={value}" for name, value in env), *head, *rest]
    assert print_words(parse(argv)) == argv


@given(st.lists(values, max_size=6))
def test_any_words_survive(argv: list[str]) -> None:
    assert print_words(parse(argv)) == argv


@given(st.lists(st.tuples(names, values), max_size=3, unique_by=lambda pair: pair[0]), st.lists(values, max_size=6))
def test_printed_text_is_safe_for_a_shell(env: list[tuple[str, str]], args: list[str]) -> None:
    found = Launch(tuple(env), (), ("vllm", "serve"), tuple(args))
    assert shlex.split(print_text(found)) == print_words(found)


@given(st.text(max_size=40))
def test_any_text_can_be_given(text: str) -> None:
    found = parse_text(text)
    if found is not None:
        editable(found)
        print_text(found)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"model_tag": "m", "model": "m", "port": 9101, "max_model_len": 512},
            "vllm serve m --port 9101 --max-model-len 512",
        ),
        (
            {"model": "m", "enforce_eager": True, "enable_prefix_caching": False, "host": None},
            "vllm serve m --enforce-eager --no-enable-prefix-caching",
        ),
        (
            {"model": "m", "served_model_name": ["a", "b"], "gpu_memory_utilization": 0.95},
            "vllm serve m --served-model-name a b --gpu-memory-utilization 0.95",
        ),
        ({"model": "m", "hf_overrides": {"a": {"b": [1]}}}, """vllm serve m --hf-overrides '{"a": {"b": [1]}}'"""),
        ({"model": "m", "chat_template": "--x"}, "vllm serve m --chat-template=--x"),
        ({"model": "m", "seed": -1, "dispatch_function": "f", "subparser": "serve"}, "vllm serve m --seed -1"),
        ({"model": "my model; rm -rf /"}, "vllm serve 'my model; rm -rf /'"),
    ],
)
def test_rebuilds_the_command_from_printed_arguments(arguments: dict[str, object], text: str) -> None:
    found = from_arguments(arguments)
    assert found is not None
    assert print_text(found) == text
    assert editable(found)


@pytest.mark.parametrize("arguments", [{}, {"port": 1}, {"model": 3}, {"model": None}, {"model": ["m"]}])
def test_without_a_model_there_is_no_command(arguments: dict[str, object]) -> None:
    assert from_arguments(arguments) is None


@pytest.mark.parametrize("value", [{"a": {1, 2}}, {("a", 1): 2}, {b"a": b"b"}, 1j, b"x", (1, {"a": 1})])
def test_values_that_json_does_not_know_do_no_harm(value: object) -> None:
    found = from_arguments({"model": "m", "x": value})
    assert found is not None
    assert found.args[:2] == ("m", "--x")
