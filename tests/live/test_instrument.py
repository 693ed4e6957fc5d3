"""What is added to the child's environment, and when nothing is."""

from __future__ import annotations

import pytest

from vdoctor.launch.command import parse
from vdoctor.live.instrument import SETTINGS, added


@pytest.mark.parametrize(
    ("env", "command", "names"),
    [
        ({}, "vllm serve m", ["NCCL_DEBUG", "PYTHONFAULTHANDLER"]),
        ({"NCCL_DEBUG": "INFO"}, "vllm serve m", ["PYTHONFAULTHANDLER"]),
        ({"NCCL_DEBUG": ""}, "vllm serve m", ["PYTHONFAULTHANDLER"]),
        ({}, "env PYTHONFAULTHANDLER=0 vllm serve m", ["NCCL_DEBUG"]),
        ({}, "docker run --gpus all vllm/vllm-openai --model m", []),
        ({}, "./start.sh", ["NCCL_DEBUG", "PYTHONFAULTHANDLER"]),
    ],
)
def test_only_what_the_user_did_not_set_is_added(env: dict[str, str], command: str, names: list[str]) -> None:
    assert added(env, parse(command.split())) == {name: SETTINGS[name] for name in names}
