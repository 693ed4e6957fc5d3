from __future__ import annotations

import pytest

from vdoctor.facts.prompt import PromptReader


def command(*lines: str) -> str | None:
    reader = PromptReader()
    for line in lines:
        reader.feed(line)
    return reader.command


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "    ",
        "\t",
        "$ ",
        "# ",
        "% ",
        "> ",
        "+ ",
        "++ ",
        "root@gpu01:~# ",
        "root@3f2a9c:/workspace# ",
        "(base) user@host:/data/models$ ",
        "(vllm) root@pod-0:/# ",
        "[root@host ~]# ",
        "user@mac ~ % ",
        "➜  ~ ",
        "❯ ",
        "!",
        "$ sudo ",
        "# exec ",
        "+ exec ",
        "$ nohup ",
        "$ time ",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2",
        "/opt/venv/bin/vllm serve m",
        "python3 -m vllm.entrypoints.openai.api_server --model m",
        "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model m",
        "podman run --device nvidia.com/gpu=all docker.io/vllm/vllm-openai --model m",
    ],
)
def test_finds_a_command_behind_a_prompt(prompt: str, text: str) -> None:
    assert command(prompt + text) == text


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1 VLLM_USE_V1=0 vllm serve m",
        "env A=1 vllm serve m",
        "A=\"b c\" B='d e' vllm serve m",
        "HF_HUB_OFFLINE=1 docker run vllm/vllm-openai --model m",
        "uv run vllm serve m",
        "A=1 uv run vllm serve m",
    ],
)
def test_assignments_belong_to_the_command(text: str) -> None:
    assert command("$ " + text) == text
    assert command(text) == text


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            ["vllm serve m \\", "  --tensor-parallel-size 2 \\", "  --port 1"],
            "vllm serve m --tensor-parallel-size 2 --port 1",
        ),
        (["$ vllm serve m \\", "> --port 1"], "vllm serve m --port 1"),
        (["vllm serve m \\ ", "  --port 1"], "vllm serve m --port 1"),
        (
            [
                "docker run --gpus all \\",
                "  -v ~/.cache:/root/.cache \\",
                "  vllm/vllm-openai:latest \\",
                "  --model m",
            ],
            "docker run --gpus all -v ~/.cache:/root/.cache vllm/vllm-openai:latest --model m",
        ),
        (
            ["CUDA_VISIBLE_DEVICES=0 \\"[:22] + " vllm serve m \\", "--port 1"],
            "CUDA_VISIBLE_DEVICES=0 vllm serve m --port 1",
        ),
        (["vllm serve m \\", "```"], "vllm serve m"),
        (["vllm serve m \\", ""], "vllm serve m"),
        (["vllm serve m --port 1", "--not-a-continuation"], "vllm serve m --port 1"),
    ],
)
def test_joins_continuation_lines(lines: list[str], text: str) -> None:
    assert command(*lines) == text


def test_reads_commands_inside_fences() -> None:
    assert (
        command("I start it like this:", "```bash", "vllm serve m \\", "  --port 1", "```", "and it fails.")
        == "vllm serve m --port 1"
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "I ran vllm serve m",
        "vllm serve",
        "vllm serve is broken since 0.11",
        "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 fails for me",
        "vllm serve hangs",
        "vllm serve m works, but not with two GPUs",
        "vllm bench serve --model m",
        "docker run hello-world",
        "docker ps",
        "pip install vllm",
        "usage: vllm serve [-h]",
        "from vllm import LLM",
        'command: ["vllm", "serve", "m"]',
        "run the model",
    ],
)
def test_prose_and_other_commands_are_no_start(line: str) -> None:
    assert command(line) is None


def test_quoted_words_are_no_prose() -> None:
    text = 'vllm serve m --override-generation-config \'{"a": "the answer is this"}\''
    assert command(text) == text


def test_behind_a_prompt_everything_is_believed() -> None:
    assert command("$ vllm serve the --port 1") == "vllm serve the --port 1"


def test_the_last_command_counts() -> None:
    assert command("$ vllm serve a", "Killed", "$ vllm serve b") == "vllm serve b"


def test_a_line_that_was_taken_out_of_a_script_does_not_replace_the_command() -> None:
    assert command("vllm serve a --port 1", "# vllm serve b") == "vllm serve a --port 1"


def test_a_docker_command_of_something_else_is_forgotten() -> None:
    assert command("docker run hello \\", "  world", "$ vllm serve m") == "vllm serve m"


def test_an_endless_continuation_ends() -> None:
    found = command("vllm serve m \\", *["--port 1 \\"] * 10_000)
    assert found is not None
    assert len(found) < 5000


@pytest.mark.parametrize(
    "line",
    [
        "A=b " * 16000 + "vllm",
        "vllm serve " + "a " * 30000,
        "docker run " + "x " * 30000,
        "a@b:" + "x" * 60000 + "$ run",
        "(" * 60000 + "run",
    ],
)
def test_a_long_hostile_line_takes_linear_time(line: str) -> None:
    command(line)
