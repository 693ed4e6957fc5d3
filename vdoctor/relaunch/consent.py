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
    if launch.container and any(_detaches(word) for word in launch.container[2:-1]):
        return {
            "en": "the container runs detached: without -d vdoctor can follow and end it",
            "zh": "容器在后台运行：去掉 -d 后 vdoctor 才能跟踪并结束它",
        }
    if launch.container and not {"--init", "--rm"} <= set(launch.container):
        # Process 1 of a container is deaf to SIGTERM until it has a handler; a container that stays keeps its name.
        return {
            "en": "with --init and --rm in docker run vdoctor can end the container for certain and leave nothing behind",
            "zh": "在 docker run 中加上 --init 和 --rm，vdoctor 才能确保结束容器且不留残余",
        }
    if not editable(launch):
        return {
            "en": "the command is a script that vdoctor cannot edit",
            "zh": "该命令是 vdoctor 无法修改的脚本",
        }
    return None


def _detaches(word: str) -> bool:
    return word == "--detach" or (
        word[:1] == "-" and word[1:2] != "-" and "d" in word[1:] and set(word[1:]) <= set("ditPq")
    )


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
