"""Facts of a stall and of a slow start."""

from __future__ import annotations

import pytest

from vdoctor.facts.motion import motion_facts, needs_hub
from vdoctor.facts.registry import known
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse_text
from vdoctor.model import Motion

STALL = Motion(99.0, "stalled", "weight_load.read", 41.6, "stopped", "Worker_TP1", 812, ("EngineCore", "Worker_TP0"))
SLOW = Motion(99.0, "slow", "weight_load.read", 0.4, None, "Worker", 812, doing="reading", percent=12.4, rate=11.52e6)


def values(motion: Motion | None, frames: str = "") -> dict[str, object]:
    return {name: fact.value for name, fact in motion_facts(motion, frames).items()}


def test_stall_says_who_where_how_long_and_who_waits() -> None:
    assert values(STALL, "a\nb") == {
        "stall.kind": "stopped",
        "stall.seconds": 42,
        "stall.process": "Worker_TP1",
        "stall.pid": 812,
        "stall.step": "weight_load.read",
        "stall.waiting": ("EngineCore", "Worker_TP0"),
        "stall.frames": "a\nb",
    }


def test_what_is_not_known_is_no_fact() -> None:
    found = values(Motion(9.0, "stalled", None, 61.0, "unknown"))
    assert found == {"stall.kind": "unknown", "stall.seconds": 61, "stall.step": "launch.config"}


def test_slow_start_says_what_it_does_and_how_fast() -> None:
    assert values(SLOW) == {
        "slow.doing": "reading",
        "slow.step": "weight_load.read",
        "slow.process": "Worker",
        "slow.rate_mb": 11.5,
        "slow.percent": 12,
    }


def test_start_on_its_way_has_no_such_facts() -> None:
    assert values(Motion(9.0, "progressing", "kv_init.profile", 0.0, doing="computing")) == {}
    assert values(None) == {}


def test_all_are_registered() -> None:
    assert all(known(name) for name in {**values(STALL, "f"), **values(SLOW)})


@pytest.mark.parametrize(
    ("command", "hub"),
    [
        ("vllm serve org/model", True),
        ("vllm serve model", True),
        ("vllm serve /models/m", False),
        ("vllm serve ./m --max-model-len 5", False),
        ("vllm serve ~/m", False),
        ("python -m vllm.entrypoints.openai.api_server --model /models/m", False),
        ("python -m vllm.entrypoints.openai.api_server --model org/m", True),
        ("HF_HUB_OFFLINE=1 vllm serve org/model", False),
        ("HF_HUB_OFFLINE=0 vllm serve org/model", True),
        ("./start.sh", True),
    ],
)
def test_hub_is_needed_unless_the_model_is_a_path(command: str, hub: bool) -> None:
    assert needs_hub(parse_text(command), option_tables.load()) is hub


def test_hub_may_be_needed_when_nothing_is_known() -> None:
    assert needs_hub(None, option_tables.load()) is True
