"""A flood in which one line says why the server died."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processes import VDOCTOR, Mark, run
from vdoctor.live.late import Late
from vdoctor.live.session import Session
from vdoctor.live.skipping import late_lines
from vdoctor.model import Line

BORING = b"(APIServer pid=7) INFO 12-01 00:00:01 [x.py:1] request was served\n"
FATAL = (
    b"(EngineCore_DP0 pid=12) ERROR 12-01 00:00:05 [core.py:2] ValueError: No available memory for the cache blocks. "
    b"Try increasing `gpu_memory_utilization` when initializing the engine.\n"
)
#: 100 MB a second, the one line at a part of the way.
FLOOD = f"""
import os, sys, time
size, share = int(sys.argv[1]), float(sys.argv[2])
block = {BORING!r} * 16000
begun, sent, said = time.monotonic(), 0, False
while sent < size:
    if not said and sent >= size * share:
        os.write(1, {FATAL!r})
        said = True
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
    sent += len(block)
    time.sleep(max(0.0, sent / 100e6 - (time.monotonic() - begun)))
sys.exit(1)
"""


@pytest.mark.parametrize(("megabytes", "share"), [(60, 0.15), (300, 0.5), (60, 0.9)])
def test_the_fatal_line_of_a_flood_is_found(mark: Mark, tmp_path: Path, megabytes: int, share: float) -> None:
    folder, out = tmp_path / "s", tmp_path / "report.json"
    options = ["-q", "--session", str(folder), "--format", "json", "--output", str(out), "--no-redact"]
    flood = [sys.executable, "-S", "-E", "-c", FLOOD, str(megabytes * 1_000_000), str(share)]
    with (tmp_path / "passed").open("wb") as passed:
        done = run([*VDOCTOR, "watch", *options, "--", *flood], env=mark.env, stdout=passed.fileno())
    assert done.returncode == 1
    live = json.loads(out.read_text())
    assert (live["findings"][0]["id"], live["phase"]) == ("oom.kv-none", "kv_init")
    assert live["facts"]["watch.skipped_bytes"]["value"] > 10_000_000
    log = (folder / "log.txt").read_bytes()
    assert live["findings"][0]["evidence"][0]["line"] == log[: log.index(FATAL)].count(b"\n") + 1
    replayed = json.loads(run([*VDOCTOR, "analyze", str(folder), "--format", "json"], env=mark.env).stdout)
    assert {**replayed, "source": None} == {**live, "source": None}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40_000), st.sampled_from([FATAL, b"Traceback (most recent call last):\n"])), max_size=4),
    st.integers(0, 5),
)  # fmt: skip
def test_what_is_found_are_whole_lines_with_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, spots: list[tuple[int, bytes]], cut: int
) -> None:
    lines = [BORING] * 40_000
    for at, line in spots:
        lines.insert(at, line)
    data = b"".join(lines)
    path = tmp_path_factory.getbasetemp() / "late.log"
    path.write_bytes(data)
    late = Late(lambda: ())
    first = sum(len(line) for line in lines[:cut])
    late.note(first, len(data) - first, cut + 1)
    found = late.search(path)
    assert found == sorted(found)
    numbered: dict[int, Line] = {}
    for one in found:
        part = data[one.start : one.start + one.length]
        assert data[: one.start].count(b"\n") + 1 == one.line
        assert part.endswith(b"\n")
        numbered |= {line.no: line for line in late_lines(part, one.line)}
    wanted = {number for number, line in enumerate(lines, 1) if line != BORING and number > cut}
    assert wanted <= set(numbered)
    assert all(numbered[number].text == lines[number - 1].decode().rstrip() for number in wanted)
    assert sum(one.length for one in found) <= 8192 * (len(spots) + 1)


def test_a_flood_of_errors_does_not_bury_a_rare_one(tmp_path: Path) -> None:
    noise = b"(Worker pid=9) ERROR 12-01 00:00:05 [x.py:2] ValueError: request is too long\n"
    data = noise * 40_000 + b"torch.OutOfMemoryError: CUDA out of memory.\n" + noise * 40_000
    (tmp_path / "log").write_bytes(data)
    late = Late(lambda: (b"CUDA out of memory",))
    late.note(0, len(data), 1)
    found = late.search(tmp_path / "log")
    assert any(one.line <= 40_001 < one.line + data[one.start : one.start + one.length].count(b"\n") for one in found)
    assert sum(one.length for one in found) < 400_000


def test_a_recording_with_a_damaged_late_entry_is_read_or_refused(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_text('{"command": ["vllm"]}')
    (tmp_path / "log.txt").write_text("one\ntwo\n")
    (tmp_path / "samples.jsonl").write_text('{"t": 0, "log": 8}\n{"t": 1, "late": [4, 999999999999, 2]}\n')
    assert [line.text for line in Session(tmp_path).observations() if isinstance(line, Line)] == ["one", "two", "two"]
