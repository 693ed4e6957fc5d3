"""vdoctor demo --play FOLDER: a recorded start, played by stand-ins and watched as a real one is."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from vdoctor.commands.examine import emit, render, verdict_status
from vdoctor.commands.screen import Screen
from vdoctor.commands.streams import show, terminal_width, use_color
from vdoctor.demo.playback import cast_of, kind_of
from vdoctor.diagnose import Examination
from vdoctor.errors import UserError
from vdoctor.launch import options as option_tables
from vdoctor.launch.command import parse
from vdoctor.live.session import Recorder, Session, is_session
from vdoctor.startup.patience import LEAST
from vdoctor.store import load_rules

#: A start that serves or stalls is looked at for so long, in seconds; one that hangs gets so long for it after its last line.
_LOOK, _HANGS = 3.0, 45.0
_WORDS = {
    "begin": (
        "{folder} is played by stand-ins, {speed:g} times as fast; vdoctor watches:",
        "由替身进程重演 {folder}（{speed:g} 倍速），由 vdoctor 监视：",
    ),
}


def play(folder: Path, *, speed: float, cast: str, lang: str, color: bool) -> int:
    """0 nothing wrong with the start, 1 something found. Raises UserError when there is nothing to play."""
    if not (folder / "log.txt").is_file():
        raise UserError(f"{folder}: holds no log.txt", "give a folder that watch recorded, or one of fixtures/*/*")
    try:
        cast_of(cast)
    except ValueError as error:
        raise UserError(f"--cast: {error}", "such as Worker_TP0=spin,Worker_TP1=stopped") from None
    color = use_color(color, sys.stdout.isatty())
    command = Session(folder).command if is_session(folder) else []
    options = option_tables.load()
    stall_after = LEAST if kind_of(folder) == "stall" or cast else None
    examination = Examination(load_rules(), options, parse(command) if command else None, None, stall_after)
    show(_WORDS["begin"][1 if lang == "zh" else 0].format(folder=folder, speed=speed))
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="vdoctor-demo-") as place:
        screen = Screen(
            examination,
            Recorder(Path(place) / "session", command, {}, {}),
            0.5,
            lang,
            quiet=False,
            color=color,
            stop_when=_over(),
            tell_ready=False,
        )
        argv = [sys.executable, "-m", "vdoctor.demo.playback", str(folder.absolute()), "--speed", f"{speed:g}"]
        argv += ["--linger", f"{_HANGS:g}"]
        end = screen.run([*argv, *(["--cast", cast] if cast else [])], dict(os.environ))
        report = screen.finish(screen.recorder, end)
    told = render([report], "text", lang, color=color, verbose=False, width=terminal_width(1))
    emit("\n" + told, None)
    return verdict_status(report)


def _over() -> Callable[[Examination, float], bool]:
    """When the play has been seen: the server is ready for a while, or it stands still and its stacks were taken."""
    since: list[float] = []

    def over(examination: Examination, t: float) -> bool:
        motion = examination.motion
        stalled = motion is not None and motion.state == "stalled"
        if not examination.ready and not stalled:
            since.clear()
            return False
        since.append(t)
        del since[1:]
        return t - since[0] >= _LOOK

    return over
