"""What vdoctor may relaunch, and which changes it may try. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from vdoctor.launch.command import editable
from vdoctor.model import Launch
from vdoctor.relaunch.steps import Step

Mode = Literal["ask", "auto", "never"]

_ROOT = ("sudo", "doas", "su", "pkexec")
#: Whose servers run elsewhere: what is started there cannot be stopped from here for certain.
_ELSEWHERE = ("kubectl", "ssh", "srun", "sbatch", "systemctl", "docker-compose", "helm", "qsub", "bsub")


def refusal(launch: Launch) -> Mapping[str, str] | None:
    """Why a launch is not started again by vdoctor; None when it may be."""
    words = [word.rsplit("/", 1)[-1] for word in (*launch.container, *launch.program)]
    if any(word in _ROOT for word in (*words[:3], *launch.program)):
        return {
            "en": "the command needs root, and vdoctor never becomes root",
            "zh": "该命令需要 root，vdoctor 从不使用 root",
        }
    if (words[:1] and words[0] in _ELSEWHERE) or words[:3] == ["ray", "job", "submit"]:
        return {
            "en": f"{words[0]} starts the server elsewhere, where vdoctor cannot end it for certain",
            "zh": f"{words[0]} 在别处启动服务，vdoctor 无法保证能把它停掉",
        }
    if not editable(launch):
        return {
            "en": "the command is a script that vdoctor cannot edit",
            "zh": "该命令是 vdoctor 无法修改的脚本",
        }
    return None


def permission(mode: Mode, ask: Callable[[Step], bool] | None) -> Callable[[Step], bool]:
    """Which steps may be tried: all that are safe; what gives something up only with `auto`, or when the person at
    the terminal agrees (`ask`; None where nobody can be asked)."""

    def allowed(step: Step) -> bool:
        if step.safety == "safe":
            return mode != "never"
        if step.safety == "manual" or mode == "never":
            return False
        return mode == "auto" or (ask is not None and ask(step))

    return allowed
