from __future__ import annotations

import pytest

from vdoctor.launch.command import parse_text
from vdoctor.model import Change
from vdoctor.relaunch.consent import permission, refusal
from vdoctor.relaunch.steps import Step


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("sudo vllm serve m", "root"),
        ("sudo -E docker run img m", "root"),
        ("sh -c 'sudo vllm serve m'", "root"),
        ("kubectl exec pod -- vllm serve m", "elsewhere"),
        ("ssh host vllm serve m", "elsewhere"),
        ("ray job submit -- vllm serve m", "elsewhere"),
        ("docker compose up", "script"),
        ("bash start.sh", "script"),
    ],
)
def test_what_is_not_started_again(command: str, word: str) -> None:
    launch = parse_text(command)
    assert launch is not None
    why = refusal(launch)
    assert why is not None
    assert word in why["en"]
    assert why["zh"]


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve m",
        "nohup vllm serve m",
        "docker run --init --rm -it --device x img m",
        "podman run --rm --init -e A=d img m",
        "docker run -d --name x -p 8000:8000 img m",
        "sh -c 'vllm serve m'",
        "uv run vllm serve sudo",
    ],
)
def test_what_may_be(command: str) -> None:
    launch = parse_text(command)
    assert launch is not None
    assert refusal(launch) is None


@pytest.mark.parametrize(
    ("mode", "answer", "safe", "lossy"),
    [
        ("auto", None, True, True),
        ("ask", None, True, False),
        ("ask", True, True, True),
        ("ask", False, True, False),
        ("never", True, False, False),
    ],
)
def test_who_allows_what(mode: str, answer: bool | None, safe: bool, lossy: bool) -> None:
    asked: list[str] = []

    def ask(step: Step) -> bool:
        asked.append(step.id)
        return bool(answer)

    allowed = permission(mode, ask if answer is not None else None)  # type: ignore[arg-type]
    found = [allowed(Step(one, Change(), one)) for one in ("safe", "lossy", "manual")]  # type: ignore[arg-type]
    assert found == [safe, lossy, False]
    assert "safe" not in asked
