"""The line that answers "hung or just slow?"."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

import pytest

from vdoctor.model import Motion, StallKind
from vdoctor.report.motion import motion_line, seconds, speed

STALL = Motion(
    300.0, "stalled", "launch.distributed_init", 240.2, "stopped", "Worker_TP1", 812, ("EngineCore", "Worker_TP0")
)
LOAD = Motion(90.0, "progressing", "weight_load.read", 0.3, doing="reading", percent=61.2, rate=210e6, eta=175.0)
CASES = [
    (LOAD, "reading weights 61 %, 210 MB/s, about 3 min left; not stuck"),
    (replace(LOAD, state="slow", rate=9.6e6, eta=None), "slower than usual: reading weights 61 %, 9.6 MB/s; not stuck"),
    (
        replace(LOAD, state="slow", kind="memory", percent=None, rate=None, eta=None),
        "slower than usual: reading weights; host memory is full; not stuck",
    ),
    (Motion(9.0, "progressing", "kv_init.profile", 2.0, doing="compiling"), "compiling; not stuck"),
    (Motion(9.0, "progressing", "kv_init.profile", 25.0, doing="waiting"), "waiting, quiet for 25 s; not stuck"),
    (Motion(9.0, "progressing", "runtime.serving", 0.0, doing="serving"), "serving"),
    (Motion(9.0, "progressing", "kv_init.profile", 3.0), "on its way; not stuck"),
    (
        Motion(9.0, "slow", "kv_init.profile", 95.0, doing="waiting"),
        "nothing has moved for 95 s in kv_init.profile; it may be stuck",
    ),
    (
        Motion(9.0, "slow", "kv_init.profile", 400.0),
        "no news in the log for 7 min in kv_init.profile; its processes are out of sight, so it may work or hang",
    ),
    (
        STALL,
        "Worker_TP1 (pid 812) has done nothing for 4 min in launch.distributed_init: stopped; "
        "EngineCore, Worker_TP0 wait for it",
    ),
    (
        replace(STALL, kind="rank-behind", waiting=("Worker_TP0",), since=64.0),
        "Worker_TP1 (pid 812) has done nothing for 64 s in launch.distributed_init: behind the other ranks; "
        "Worker_TP0 waits for it",
    ),
    (
        replace(STALL, kind="collective", process=None, pid=None, waiting=("Worker_TP0", "Worker_TP1")),
        "nothing has moved for 4 min in launch.distributed_init: the ranks wait for each other (Worker_TP0, Worker_TP1)",
    ),
    (
        replace(STALL, kind="deaf", process="APIServer", step="runtime.serving", waiting=("EngineCore",)),
        "APIServer (pid 812) has done nothing for 4 min in runtime.serving: it no longer answers /health; "
        "EngineCore waits for it",
    ),
    (
        replace(STALL, kind="rank-dead", pid=None),
        "Worker_TP1 died; nothing has moved for 4 min in launch.distributed_init; EngineCore, Worker_TP0 wait for it",
    ),
    (
        replace(STALL, kind="rank-behind", process=None, pid=None, waiting=("Worker_TP0", "Worker_TP1")),
        "Worker_TP0, Worker_TP1: waiting for a rank that is not here, for 4 min in launch.distributed_init",
    ),
]


@pytest.mark.parametrize(("motion", "line"), CASES)
def test_line_says_it(motion: Motion, line: str) -> None:
    assert motion_line(motion) == line


@pytest.mark.parametrize("motion", [motion for motion, _ in CASES])
def test_chinese_line_says_the_same(motion: Motion) -> None:
    line = motion_line(motion, "zh")
    assert re.search(r"[\u4e00-\u9fff]", line)
    assert "\n" not in line
    for part in (motion.process if motion.state == "stalled" else None, *motion.waiting):
        assert part is None or part in line
    if motion.percent is not None:
        assert f"{motion.percent:.0f} %" in line


@pytest.mark.parametrize("kind", get_args(StallKind))
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_kind_of_stall_has_words(kind: StallKind, lang: str) -> None:
    line = motion_line(replace(STALL, kind=kind), lang)
    assert "Worker_TP1" in line and "launch.distributed_init" in line
    assert len({motion_line(replace(STALL, kind=one), lang) for one in get_args(StallKind)}) == len(get_args(StallKind))


@pytest.mark.parametrize(
    ("value", "text"), [(0.4, "0 s"), (99.4, "99 s"), (100, "2 min"), (3600, "60 min"), (7500, "2 h 5 min")]
)
def test_seconds_read_well(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(12, "12 B/s"), (40e3, "40 kB/s"), (9.64e6, "9.6 MB/s"), (210e6, "210 MB/s"), (1.24e9, "1.2 GB/s")],
)
def test_speed_reads_well(rate: float, text: str) -> None:
    assert speed(rate) == text
