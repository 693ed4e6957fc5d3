"""Tail: files that grow, are renamed, emptied, or not there yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vdoctor.errors import UserError
from vdoctor.live.history import History
from vdoctor.live.tail import Tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "vllm.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_file_is_read_from_its_beginning_and_on(log: Path) -> None:
    append(log, b"one\n")
    tail = Tail(log)
    assert (tail.missing, tail.read(), tail.read()) == (False, b"one\n", b"")
    append(log, b"two\nthr")
    append(log, b"ee\n")
    assert (tail.read(4), tail.read()) == (b"two\n", b"three\n")


def test_file_that_is_not_there_yet_is_waited_for(log: Path) -> None:
    tail = Tail(log)
    assert (tail.missing, tail.read()) == (True, b"")
    append(log, b"late\n")
    assert (tail.read(), tail.missing) == (b"late\n", False)


def test_rotation_by_rename_reads_the_old_file_to_its_end(log: Path) -> None:
    append(log, b"one\n")
    tail = Tail(log)
    tail.read()
    log.rename(log.with_suffix(".1"))
    append(log.with_suffix(".1"), b"last of the old\n")
    append(log, b"first of the new\n")
    assert tail.read() == b"last of the old\n"
    assert tail.read() == b"first of the new\n"
    append(log, b"more\n")
    assert tail.read() == b"more\n"


def test_rotation_in_the_middle_of_a_line_joins_no_halves(log: Path) -> None:
    append(log, b"half a li")
    tail = Tail(log)
    assert tail.read() == b"half a li"
    log.rename(log.with_suffix(".1"))
    append(log, b"new\n")
    assert tail.read() == b"\nnew\n"


def test_rotation_before_the_new_file_is_there(log: Path) -> None:
    append(log, b"one\n")
    tail = Tail(log)
    tail.read()
    log.rename(log.with_suffix(".1"))
    assert tail.read() == b""
    append(log.with_suffix(".1"), b"still the old\n")
    assert tail.read() == b"still the old\n"
    append(log, b"new\n")
    assert tail.read() == b"new\n"


def test_truncation_starts_again(log: Path) -> None:
    """copytruncate"""
    append(log, b"a long first line\n")
    tail = Tail(log)
    tail.read()
    os.truncate(log, 0)
    append(log, b"new\n")
    assert tail.read() == b"new\n"


def test_truncation_is_noticed_when_the_file_has_grown_again(log: Path) -> None:
    append(log, b"old 1\n")
    tail = Tail(log)
    tail.read()
    log.write_bytes(b"new 1\n")
    assert tail.read() == b"new 1\n"
    log.write_bytes(b"newer, and longer than before\n")
    assert tail.read() == b"newer, and longer than before\n"


def test_deleted_file_is_followed_to_its_end(log: Path) -> None:
    append(log, b"one\n")
    tail = Tail(log)
    with log.open("ab") as writer:
        log.unlink()
        writer.write(b"two\n")
    assert tail.read() == b"one\ntwo\n"


@pytest.mark.parametrize(("make", "word"), [("folder", "folder"), ("fifo", "pipe"), ("device", "device")])
def test_what_is_no_file_is_refused(tmp_path: Path, make: str, word: str) -> None:
    path = {"folder": tmp_path, "fifo": tmp_path / "fifo", "device": Path("/dev/null")}[make]
    if make == "fifo":
        os.mkfifo(path)
    with pytest.raises(UserError, match=word):
        Tail(path)


def test_history_keeps_its_last_line_back() -> None:
    history = History()
    assert history.feed(b"one\ntwo\nthree\n") == b"one\ntwo\n"
    assert history.feed(b"") == b""
    assert history.feed(b"four") == b"three\n"
    assert history.close() == b"four"
    assert history.close() == b""
