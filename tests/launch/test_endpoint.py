"""Where the server of a command answers."""

from __future__ import annotations

import shlex

import pytest

from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse
from vdoctor.launch.endpoint import Endpoint, endpoint

TABLES = option_tables.load()


def found(command: str, **environ: str) -> Endpoint | str:
    return endpoint(parse(shlex.split(command)), TABLES, environ)


@pytest.mark.parametrize(
    ("command", "address", "logs"),
    [
        ("vllm serve m", "http://127.0.0.1:8000", True),
        ("vllm serve m --port 9000 --host 0.0.0.0", "http://127.0.0.1:9000", True),
        ("vllm serve m --host=:: --port=81", "http://127.0.0.1:81", True),
        ("vllm serve m --host 10.0.0.5", "http://10.0.0.5:8000", True),
        ("vllm serve m --host ::1", "http://[::1]:8000", True),
        ("python -m vllm.entrypoints.openai.api_server --model m --port 7", "http://127.0.0.1:7", True),
        ("vllm serve m --ssl-keyfile k --ssl-certfile c", "https://127.0.0.1:8000", True),
        ("vllm serve m --root-path /x", "http://127.0.0.1:8000", True),
        ("vllm serve m --disable-uvicorn-access-log", "http://127.0.0.1:8000", False),
        ("vllm serve m --uvicorn-log-level warning", "http://127.0.0.1:8000", False),
    ],
)
def test_endpoints(command: str, address: str, logs: bool) -> None:
    one = found(command)
    assert isinstance(one, Endpoint)
    assert (one.address, one.logs_requests, one.key) == (address, logs, None)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("vllm serve m --uds /run/v.sock", "Unix socket"),
        ("vllm serve m --headless", "headless"),
        ("vllm serve m --ssl-keyfile k --ssl-cert-reqs 2", "client certificate"),
        ("vllm serve m --port nine", "no port"),
        ("docker run --gpus all vllm/vllm-openai:v0.9.2 --model m", "container"),
        ("bash start.sh", "no vllm serve"),
        ("sleep 9", "no vllm serve"),
    ],
)
def test_who_cannot_be_asked_and_why(command: str, reason: str) -> None:
    answer = found(command)
    assert isinstance(answer, str) and reason in answer


def test_the_key_is_known_and_never_shown() -> None:
    for one in (
        found("vllm serve m --api-key s3cret"),
        found("vllm serve m", VLLM_API_KEY="s3cret"),
        found("env VLLM_API_KEY=s3cret vllm serve m"),
    ):
        assert isinstance(one, Endpoint)
        assert one.key == "s3cret"
        assert "s3cret" not in repr(one) + one.address
