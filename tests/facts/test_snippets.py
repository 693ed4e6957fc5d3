from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.tickets import read, values
from vdoctor.facts.registry import known
from vdoctor.facts.snippets import SnippetFacts, image_release

COMPOSE = """\
services:
  llm:
    image: vllm/vllm-openai:v0.10.1.1
    container_name: llm
    shm_size: '8gb'
    command: ["--model", "acme/chat-8b"]
"""

KUBERNETES = """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      hostIPC: true
      containers:
        - name: server
          image: "registry.acme.org/mirror/vllm-openai:v0.9.1"   # mirrored
          resources:
            limits:
              nvidia.com/gpu: "2"
          volumeMounts:
            - mountPath: /dev/shm
              name: shm
      volumes:
        - name: cache
          emptyDir:
            sizeLimit: 100Gi
        - name: shm
          emptyDir:
            medium: Memory
            sizeLimit: 4Gi
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "$ docker run --gpus all --shm-size=2g -p 8000:8000 vllm/vllm-openai:v0.8.5 --model m",
            {"launch.layer": "docker", "launch.ipc_host": False, "launch.shm_mib": 2048, "vllm.version": "0.8.5"},
        ),
        (
            "sudo podman run -d \\\n  --ipc=host \\\n  localhost/my-vllm:dev \\\n  --model m\n--shm-size=1g",
            {"launch.layer": "docker", "launch.ipc_host": True},
        ),
        ("docker run -d -p 3000:8080 ghcr.io/open-webui/open-webui:main", {}),
        ("I start it with docker run and it fails", {}),
        ("try --ipc=host or --shm-size=16g", {}),
        ("it works in vllm/vllm-openai:v0.8.4 only", {}),
    ],
)
def test_docker(text: str, expected: dict[str, object]) -> None:
    assert values(SnippetFacts(), text) == expected


def test_compose() -> None:
    assert values(SnippetFacts(), COMPOSE) == {
        "launch.layer": "compose",
        "launch.shm_mib": 8192,
        "vllm.version": "0.10.1.1",
    }
    assert values(SnippetFacts(), COMPOSE + "    ipc: host")["launch.ipc_host"] is True


def test_kubernetes() -> None:
    facts = read(SnippetFacts(), KUBERNETES)
    assert {name: fact.value for name, fact in facts.items()} == {
        "launch.layer": "kubernetes",
        "launch.ipc_host": True,
        "launch.shm_mib": 4096,
        "vllm.version": "0.9.1",
        "gpu.count": 2,
    }
    assert facts["launch.shm_mib"].source == "log:23"
    assert all(map(known, facts))


def test_a_manifest_of_something_else_says_nothing() -> None:
    assert values(SnippetFacts(), COMPOSE.replace("vllm/vllm-openai:v0.10.1.1", "redis:7")) == {"launch.shm_mib": 8192}


@pytest.mark.parametrize(
    ("line", "layer"),
    [
        ("$ kubectl logs chat-0 --previous", "kubernetes"),
        ("kubectl -n llm logs deploy/chat", "kubernetes"),
        ("root@host:~# docker compose logs -f llm", "compose"),
        ("docker-compose up -d", "compose"),
        ("somebody told me to use kubectl logs", None),
    ],
)
def test_commands_at_a_prompt(line: str, layer: str | None) -> None:
    assert values(SnippetFacts(), line).get("launch.layer") == layer


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("vllm/vllm-openai:v0.11.0", "0.11.0"),
        ("vllm/vllm-openai:v0.12.0-cu130", "0.12.0"),
        ("vllm/vllm-openai-rocm:v0.14.1", "0.14.1"),
        ("quay.io/acme/vllm-openai:v0.6.4.post1", "0.6.4.post1"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly-0123abc", None),
        ("acme/vllm:v1.2.3", None),
    ],
)
def test_image_release(text: str, release: str | None) -> None:
    assert image_release(text) == release


@given(
    st.lists(
        st.sampled_from([*COMPOSE.split("\n"), *KUBERNETES.split("\n"), "docker run -", "\\", ": ", "vllm", " " * 60])
    )
)
def test_any_mixture_is_read(parts: list[str]) -> None:
    read(SnippetFacts(), "".join(parts))
    read(SnippetFacts(), "\n".join(parts))
