"""Events as JSON lines: into files, pipes with and without a reader, full disks."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from vdoctor.errors import UserError
from vdoctor.live.announce import EventFile


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def test_events_are_in_the_file_at_once(tmp_path: Path) -> None:
    file = EventFile(str(tmp_path / "events"))
    file.write({"event": "显存", "bad": "\udcff"})
    assert [one["event"] for one in lines((tmp_path / "events").read_bytes())] == ["显存"]
    file.close()


def test_events_are_added_to_what_is_there(tmp_path: Path) -> None:
    for number in range(2):
        file = EventFile(str(tmp_path / "events"))
        file.write({"event": number})
        file.close()
    assert [one["event"] for one in lines((tmp_path / "events").read_bytes())] == [0, 1]


def test_pipe_without_a_reader_does_not_block_and_is_served_when_one_comes(tmp_path: Path) -> None:
    place = tmp_path / "fifo"
    os.mkfifo(place)
    file = EventFile(str(place))
    file.write({"event": 1})
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    file.write({"event": 2})
    assert [one["event"] for one in lines(os.read(reader, 65536))] == [1, 2]
    os.close(reader)
    file.write({"event": 3})
    file.close()


def test_pipe_whose_reader_sleeps_does_not_block(tmp_path: Path) -> None:
    place = tmp_path / "fifo"
    os.mkfifo(place)
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    file = EventFile(str(place))
    for number in range(3000):
        file.write({"event": number, "filler": "x" * 100})
    got = b""
    while chunk := _read(reader):
        got += chunk
        file.flush()
    numbers = [one["event"] for one in lines(got)]
    # The oldest that did not fit are gone, no line is cut, the newest are there.
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (0, 2999)
    assert 1000 <= len(numbers) < 3000
    os.close(reader)
    file.close()


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        return b""


def test_descriptor_of_the_caller_works_as_a_path() -> None:
    reader, writer = os.pipe()
    file = EventFile(f"/dev/fd/{writer}")
    file.write({"event": 1})
    assert lines(os.read(reader, 65536)) == [{"event": 1}]
    file.close()
    os.close(writer)
    os.close(reader)


def test_full_disk_is_survived() -> None:
    file = EventFile("/dev/full")
    for number in range(3):
        file.write({"event": number})
    file.close()


def test_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        EventFile(str(tmp_path / "no" / "events"))
    with pytest.raises(UserError, match="cannot be written"):
        EventFile(str(tmp_path))


def test_new_file_is_for_others_to_read(tmp_path: Path) -> None:
    EventFile(str(tmp_path / "events")).close()
    assert stat.S_IMODE((tmp_path / "events").stat().st_mode) & 0o400
