"""vdoctor demo: the main job on a simulated server."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from vdoctor.commands.examine import render, terminal_width, use_color
from vdoctor.commands.screen import Screen
from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.launch import options as option_tables
from vdoctor.launch.change import apply
from vdoctor.launch.command import parse, print_text
from vdoctor.live.session import Recorder
from vdoctor.live.watcher import Watcher
from vdoctor.model import Launch
from vdoctor.relaunch.trial import attempt, with_trial
from vdoctor.store import load_rules

_TIMEOUT = 120.0
_WORDS = {
    "start": (
        "A simulated vLLM on a 24 GB card starts; vdoctor watches:",
        "在 24 GB 显卡上启动一个模拟的 vLLM，由 vdoctor 监视：",
    ),
    "retry": ("\nvdoctor relaunches with fix 1:", "\nvdoctor 用修复 1 重新启动："),
    "none": ("no fix that code can apply was found", "没有可自动应用的修复"),
    "confirmed": (
        "confirmed: the server gets ready with this command ({seconds:.1f} s)",
        "已证实：使用该命令服务可以就绪（{seconds:.1f} 秒）",
    ),
    "refuted": ("not confirmed: {verdict}", "未证实：{verdict}"),
}


def demo(*, speed: float, lang: str, color: bool) -> int:
    """Watch, diagnose, relaunch, confirm; 0 when the fix was proven, 1 when not."""
    with tempfile.TemporaryDirectory(prefix="vdoctor-demo-") as folder:
        return _demo(Path(folder), speed, lang, use_color(color, sys.stdout.isatty()))


def _demo(folder: Path, speed: float, lang: str, color: bool) -> int:
    env = {
        **os.environ,
        "VDOCTOR_DEMO_SPEED": str(speed),
        "PATH": f"{_stand_in(folder)}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    rules, options = load_rules(), option_tables.load()
    launch = parse(_command(_free_port()))

    def watcher_of(examination: Examination, stop: Callable[[Examination, float], bool] | None, name: str) -> Watcher:
        recorder = Recorder(folder / name, [], {}, {})
        return Screen(examination, recorder, 0.5, lang, quiet=False, color=color, stop_when=stop, tell_ready=False)

    def say(text: str) -> None:
        print(text, flush=True)

    say(f"{_word('start', lang)}\n  $ vdoctor watch -- {print_text(launch)}\n")
    first = watcher_of(Examination(rules, options, launch), None, "first")
    _run(first, launch, env)
    report = first.report("demo")
    say("")
    say(render([report], "text", lang, color=color, verbose=False, width=terminal_width(1)))
    failure = report.findings[0] if report.findings else None
    fix = next((f for f in failure.fixes if f.change and f.safety != "manual"), None) if failure else None
    changed = apply(launch, fix.change, options) if fix else None
    if failure is None or fix is None or changed is None:
        say(_word("none", lang))
        return 1
    say(f"{_word('retry', lang)}\n  $ {print_text(changed)}\n")
    result = attempt(
        changed,
        fix,
        failure,
        env,
        lambda e, stop: watcher_of(e, stop, "trial"),
        Examination(rules, options, changed),
        timeout=_TIMEOUT / speed + 10,
    )
    report = with_trial(report, failure, result.trial)
    key = "confirmed" if result.trial.verdict == "confirmed" else "refuted"
    say("\n" + _word(key, lang).format(seconds=result.trial.seconds, verdict=result.trial.verdict))
    say(f"  {result.trial.command}")
    return 0 if report.trials[-1].verdict == "confirmed" else 1


def _run(watcher: Watcher, launch: Launch, env: dict[str, str]) -> None:
    from vdoctor.launch.command import words

    watcher.run(words(launch), env)


def _command(port: int) -> list[str]:
    return shlex.split(
        f"vllm serve demo/llama-8b --port {port} --max-model-len 8192 --gpu-memory-utilization 0.97 --max-num-seqs 256"
    )


def _stand_in(folder: Path) -> Path:
    """A folder with a `vllm` that starts the simulation."""
    place = folder / "bin"
    place.mkdir()
    script = place / "vllm"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m vdoctor.demo.server "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return place


def _free_port() -> int:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UserError(f"no free port on 127.0.0.1: {error}") from None


def _word(key: str, lang: str) -> str:
    return _WORDS[key][1 if lang == "zh" else 0]
