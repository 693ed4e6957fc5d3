"""Edits of compose and Kubernetes files: only the lines that must change do."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.launch import options as tables
from vdoctor.launch.manifest import edit, servers
from vdoctor.model import Change

TABLE = tables.load()
LEN = Change({"--max-model-len": "8192"})


def diff(text: str, change: Change) -> list[str]:
    """Changed lines only."""
    done = edit(textwrap.dedent(text), change, TABLE)
    assert done is not None
    return [line for line in done.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


K8S = """\
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: llm   # ours
    spec:
      template:
        spec:
          containers:
          - name: sidecar
            image: nginx
            args: ["-g", "daemon off;"]
          - name: vllm
            image: vllm/vllm-openai:v0.11.0
            {command}
            ports:
            - containerPort: 8000
            env:
            - name: HF_TOKEN   # secret
              valueFrom:
                secretKeyRef: {{name: hf, key: token}}
            - name: NCCL_P2P_DISABLE
              value: "1"
          volumes: []
"""


def k8s(command: str) -> str:
    return K8S.format(command=command.replace("\n", "\n            "))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            'args: ["--model", "org/m", "--max-model-len", "32768"]  # long',
            [
                '-        args: ["--model", "org/m", "--max-model-len", "32768"]  # long',
                '+        args: ["--model", "org/m", "--max-model-len", "8192"]  # long',
            ],
        ),
        (
            "args:\n- --model\n- org/m\n- --max-model-len=32768  # x",
            ["-        - --max-model-len=32768  # x", '+        - "--max-model-len=8192"'],
        ),
        ("args:\n  - --model\n  - org/m", ['+          - "--max-model-len"', '+          - "8192"']),
        (
            'command: ["vllm", "serve", "org/m"]',
            [
                '-        command: ["vllm", "serve", "org/m"]',
                '+        command: ["vllm", "serve", "org/m", "--max-model-len", "8192"]',
            ],
        ),
        (
            'command: ["/bin/sh", "-c"]\nargs: ["vllm serve $M --port 80"]',
            [
                '-        args: ["vllm serve $M --port 80"]',
                '+        args: ["vllm serve $M --port 80 --max-model-len 8192"]',
            ],
        ),
        (
            "command:\n- sh\n- -c\n- |\n  set -e\n  vllm serve org/m \\\n    --port 80\n  echo done",
            ["-            --port 80", "+            --port 80 --max-model-len 8192"],
        ),
        (
            'command: [python3, -m, vllm.entrypoints.openai.api_server]\nargs: [--model, "org/m"]',
            ['-        args: [--model, "org/m"]', '+        args: [--model, "org/m", "--max-model-len", "8192"]'],
        ),
    ],
)
def test_options_in_a_kubernetes_file(command: str, expected: list[str]) -> None:
    assert diff(k8s(command), LEN) == expected


COMPOSE = """\
    services:
      web:
        image: nginx
        command: nginx -g x
      llm:
        image: vllm/vllm-openai:latest  # pinned later
        {command}
        environment:
          - HF_TOKEN=${{HF_TOKEN}}
        shm_size: 1gb
        ports:
          - "8000:8000"
    volumes:
      cache:
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "command: --model org/m --port 80",
            ["-    command: --model org/m --port 80", "+    command: --model org/m --port 80 --max-model-len 8192"],
        ),
        (
            'command: "--model org/m"',
            ['-    command: "--model org/m"', '+    command: "--model org/m --max-model-len 8192"'],
        ),
        (
            'command: ["--model", "org/m"]',
            ['-    command: ["--model", "org/m"]', '+    command: ["--model", "org/m", "--max-model-len", "8192"]'],
        ),
        (
            "command: >\n  --model org/m\n  --max-model-len 4096\n  --port 80",
            ["-      --max-model-len 4096", "+      --max-model-len 8192"],
        ),
        (
            "entrypoint: [vllm, serve]\ncommand: org/m",
            ["-    command: org/m", "+    command: org/m --max-model-len 8192"],
        ),
    ],
)
def test_options_in_a_compose_file(command: str, expected: list[str]) -> None:
    text = COMPOSE.format(command=command.replace("\n", "\n        "))
    assert diff(text, LEN) == expected


def test_variables_in_a_kubernetes_file() -> None:
    text = k8s('args: ["--model", "m"]')
    assert diff(text, Change(env={"NCCL_P2P_DISABLE": "0"})) == [
        "+        - name: NCCL_P2P_DISABLE",
        '+          value: "0"',
        "-        - name: NCCL_P2P_DISABLE",
        '-          value: "1"',
    ]
    assert diff(text, Change(env={"NCCL_P2P_DISABLE": None})) == [
        "-        - name: NCCL_P2P_DISABLE",
        '-          value: "1"',
    ]
    assert diff(text, Change(env={"A": "x y"})) == ["+        - name: A", '+          value: "x y"']
    assert diff(text, Change(env={"GONE": None})) == []


def test_variables_where_there_are_none_yet() -> None:
    text = "services:\n  llm:\n    image: vllm/vllm-openai\n    command: --model m\n"
    assert diff(text, Change(env={"A": "1"})) == ["+    environment:", '+      - "A=1"'] or diff(
        text, Change(env={"A": "1"})
    ) == ["+    environment:", "+      - A=1"]


def test_variables_and_shared_memory_in_a_compose_file() -> None:
    text = COMPOSE.format(command="command: --model m")
    assert diff(text, Change(env={"HF_TOKEN": None})) == ["-      - HF_TOKEN=${HF_TOKEN}"]
    assert diff(text, Change(container={"--shm-size": "16g"})) == ["-    shm_size: 1gb", '+    shm_size: "16g"']
    assert diff(text, Change(container={"--ipc": "host"})) == ["+    ipc: host"]


def test_what_has_no_place_is_said() -> None:
    done = edit(textwrap.dedent(k8s('args: ["--model", "m"]')), Change(container={"--shm-size": "16g"}), TABLE)
    assert done is not None
    assert done.diff == ""
    assert done.left.container == {"--shm-size": "16g"}


@pytest.mark.parametrize(
    "text", ["", "a: b", "services:\n  x:\n    image: nginx\n", "command: [vllm", "{", "- - -", "image: vllm\nargs:\n"]
)
def test_file_without_a_server_is_none(text: str) -> None:
    assert edit(text, LEN, TABLE) is None


@given(st.text(st.sampled_from("ab: -\n[]\"'|>#{}vllm"), max_size=80))
def test_any_text_does_no_harm(text: str) -> None:
    text = "image: vllm\n" + text + "\nargs: [--model, m]\n"
    servers(text)
    edit(text, Change({"--port": "1"}, {"A": "1"}), TABLE)
