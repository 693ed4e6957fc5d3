"""Facts of a stall, or of a start that takes long: who, where, how long, what is seen."""

from __future__ import annotations

from vdoctor.facts.launch import launch_facts
from vdoctor.launch.options import OptionTable
from vdoctor.model import Fact, FactValue, Launch, Motion

_SOURCE = "watch"
#: Variables of huggingface_hub and transformers.
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def motion_facts(motion: Motion | None, frames: str = "", lock: str | None = None) -> dict[str, Fact]:
    """`stall.*` of a start that stands still, `slow.*` of one that takes long; nothing of one that is on its way.

    `frames`: function names of the stuck processes, innermost first, one a line; `lock`: the one in which a process
    waits for a file lock.
    """
    if motion is None or motion.state == "progressing":
        return {}
    values: dict[str, FactValue | None] = {}
    if motion.state == "stalled":
        values = {
            "stall.kind": motion.kind or "unknown",
            "stall.seconds": round(motion.since),
            "stall.process": motion.process,
            "stall.pid": motion.pid,
            "stall.step": motion.step or "launch.config",
            "stall.waiting": motion.waiting or None,
            "stall.frames": frames or None,
            "stall.lock": lock,
        }
    else:
        values = {
            "slow.doing": motion.doing,
            "slow.step": motion.step or "launch.config",
            "slow.kind": motion.kind,
            "slow.process": motion.process,
            "slow.rate_mb": round(motion.rate / 1e6, 1) if motion.rate else None,
            "slow.percent": round(motion.percent) if motion.percent is not None else None,
        }
    return {name: Fact(value, _SOURCE) for name, value in values.items() if value is not None}


def needs_hub(launch: Launch | None, options: OptionTable) -> bool:
    """Whether files may come over the network: not when the model is a path, or the hub is switched off."""
    if launch is None:
        return True
    if any(name in _OFFLINE and value.upper() in ("1", "ON", "YES", "TRUE") for name, value in launch.env):
        return False
    model = launch_facts(launch, options).get("model.name")
    return model is None or not str(model.value).startswith(("/", "./", "../", "~"))
