"""Supervisor against real children: what they see, what our reader sees, what is left behind."""

from __future__ import annotations

import hashlib
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.live.conftest import CHILD, Supervised
from tests.processes import DEADLINE, read_until

# signals


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_signal_reaches_the_whole_process_group(supervised: Supervised, signum: signal.Signals) -> None:
    process = supervised.start(*CHILD, "signals")
    assert process.stdout is not None
    out = read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(signum)
    status, rest, _ = supervised.finish()
    assert status == 7
    assert sorted((out + rest).decode().split("\n")) == ["", f"child {signum.name}", f"parent {signum.name}", "ready"]
    assert supervised.seen["asked"] == signum.name
    assert supervised.mark.left() == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_child_that_dies_of_a_forwarded_signal_shows_it(supervised: Supervised, signum: signal.Signals) -> None:
    process = supervised.start("sh", "-c", "echo ready; exec sleep 600")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(signum)
    assert supervised.finish()[0] == 128 + signum
    assert (supervised.seen["signal"], supervised.seen["asked"]) == (signum.name, signum.name)


def test_child_may_take_its_time_after_a_forwarded_signal(supervised: Supervised) -> None:
    script = "trap 'sleep 0.7; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    process = supervised.start("sh", "-c", script)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.terminate()
    status, rest, _ = supervised.finish()
    assert (status, rest) == (0, b"saved\n")
    assert supervised.seen["ticks"] >= 3


@pytest.mark.parametrize("names", [["SIGTERM"], ["SIGUSR1"], ["SIGUSR2"], ["SIGUSR1", "SIGINT"]], ids=" ".join)
def test_signals_that_come_while_the_child_is_being_made_are_not_lost(supervised: Supervised, names: list[str]) -> None:
    done = supervised.run("sleep", "600", early=names)
    assert done.returncode == 128 + signal.Signals[names[0]]
    assert supervised.seen["asked"] == next((name for name in names if "USR" not in name), None)


def test_ignored_signal_stays_ignored_as_nohup_wants(supervised: Supervised) -> None:
    inner = supervised.argv(("sh", "-c", "echo ready; sleep 0.3; echo survived"), {})
    process = supervised.start(
        sys.executable,
        "-c",
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
        *inner,
    )
    assert process.stdout is not None
    out = read_until(process.stdout.fileno(), b"ready\n")
    # To the inner supervisor and its child alike.
    for alive in supervised.mark.alive():
        if alive.pid != process.pid:
            alive.send_signal(signal.SIGHUP)
    status, rest, _ = supervised.finish()
    assert (status, out + rest) == (0, b"ready\nsurvived\n")


def test_child_ends_when_the_supervisor_is_killed(supervised: Supervised) -> None:
    process = supervised.start("sh", "-c", "echo ready; exec sleep 600")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.kill()
    process.wait(DEADLINE)
    assert supervised.mark.left() == []


def test_observer_may_stop_the_child(supervised: Supervised) -> None:
    assert supervised.run("sh", "-c", "echo enough; exec sleep 600", stop_at=1).returncode == 128 + signal.SIGTERM
    assert supervised.seen["asked"] == "stop"


def test_child_that_is_stopped_but_refuses_is_killed(supervised: Supervised) -> None:
    assert supervised.run(*CHILD, "refuses", stop_at=1).returncode == 128 + signal.SIGKILL
    assert supervised.mark.left() == []


# leftovers


@pytest.mark.parametrize("role", ["stubborn", "daemon", "stopped", "chatter"])
def test_nothing_is_left_behind(supervised: Supervised, role: str) -> None:
    done = supervised.run(*CHILD, role)
    assert (done.returncode, done.stderr) == (0, b"")
    assert supervised.mark.left() == []


def test_nothing_is_left_behind_when_the_child_crashes(supervised: Supervised) -> None:
    done = supervised.run("sh", "-c", "sleep 600 & (sleep 601 &) ; kill -9 $$")
    assert done.returncode == 137
    assert supervised.mark.left() == []


def test_nothing_is_left_behind_when_the_observer_fails(supervised: Supervised) -> None:
    done = supervised.run("sh", "-c", "sleep 600 & echo started; sleep 601", raise_at=1)
    assert done.returncode == 125
    assert supervised.mark.left() == []


def test_process_that_outlives_the_child_briefly_is_heard(supervised: Supervised) -> None:
    """A worker that dies of its parent's end has the best lines."""
    done = supervised.run("sh", "-c", "(sleep 0.15; echo last words) & echo first")
    assert done.stdout == b"first\nlast words\n"


def test_adopted_orphan_that_ended_is_no_zombie_for_long(supervised: Supervised) -> None:
    script = "(true &) ; (true &) ; sleep 0.2; ps -o stat= --ppid $PPID | grep -c Z"
    assert int(supervised.run("sh", "-c", script).stdout or b"0") <= 2


# bytes


def test_bytes_pass_unchanged_on_both_streams(supervised: Supervised, tmp_path: Path) -> None:
    dice = random.Random(7)
    out, err = (dice.randbytes(300_000) + bytes(range(256)) + b"\r\n\x1b[31m\x00\xff" for _ in range(2))
    (tmp_path / "out").write_bytes(out)
    (tmp_path / "err").write_bytes(err)
    done = supervised.run("sh", "-c", f"cat '{tmp_path}/out' & cat '{tmp_path}/err' >&2; wait")
    assert done.stdout == out
    assert done.stderr == err
    assert supervised.seen["size"] == len(out) + len(err)


def test_standard_input_reaches_the_child_and_its_record_is_what_was_written(supervised: Supervised) -> None:
    data = b"one\ntwo\rthree\r\n\n\nfour \xff\xfe without an end"
    assert supervised.run("cat", stdin=data).stdout == data
    assert supervised.record == data


def test_order_is_kept_on_each_stream_and_no_line_is_cut_into(supervised: Supervised) -> None:
    done = supervised.run(*CHILD, "both", "3000")
    assert done.stdout.decode() == "".join(f"out {n}\n" for n in range(3000))
    assert done.stderr.decode() == "".join(f"err {n}\n" for n in range(3000))
    lines = supervised.record.decode().splitlines(keepends=True)
    assert [line for line in lines if line.startswith("out")] == done.stdout.decode().splitlines(keepends=True)
    assert [line for line in lines if line.startswith("err")] == done.stderr.decode().splitlines(keepends=True)
    assert len(lines) == 6000
    assert supervised.seen["in_order"]


def test_fifty_megabytes_arrive_whole(supervised: Supervised) -> None:
    process = supervised.start(*CHILD, "megabytes", "50")
    assert process.stdout is not None
    digest, size = hashlib.sha256(), 0
    while chunk := process.stdout.read1(1 << 20):
        digest.update(chunk)
        size += len(chunk)
    status, _, _ = supervised.finish()
    assert (status, size) == (0, 50 << 20)
    assert (supervised.seen["size"], supervised.seen["sha256"]) == (size, digest.hexdigest())


def test_partial_last_line_passes_and_is_recorded(supervised: Supervised) -> None:
    done = supervised.run("sh", "-c", "printf 'line\\nno end'; printf 'neither' >&2")
    assert (done.stdout, done.stderr) == (b"line\nno end", b"neither")
    assert sorted(re.findall(b"line\n|no end|neither", supervised.record)) == [b"line\n", b"neither", b"no end"]


def test_partial_line_is_passed_on_at_once(supervised: Supervised) -> None:
    """A prompt or a progress bar has no end of line."""
    process = supervised.start("sh", "-c", "printf 'working...'; sleep 600")
    assert process.stdout is not None
    assert read_until(process.stdout.fileno(), b"...") == b"working..."
    process.terminate()
    supervised.finish()


def test_output_that_nobody_read_when_the_child_ended_is_not_lost(supervised: Supervised) -> None:
    process = supervised.start(*CHILD, "late")
    # Longer than any grace: our reader is slow, the child is long gone.
    time.sleep(1.2)
    status, out, _ = supervised.finish()
    assert (status, len(out)) == (0, 16 * 60_000)
    assert process.returncode == 0


def test_child_meets_a_closed_pipe_when_our_reader_leaves(supervised: Supervised) -> None:
    process = supervised.start("yes")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"y\n")
    process.stdout.close()
    assert process.wait(DEADLINE) == 128 + signal.SIGPIPE
    assert supervised.mark.left() == []


def test_other_stream_goes_on_when_our_reader_of_one_leaves(supervised: Supervised) -> None:
    script = "trap '' PIPE; echo first; read go; echo lost 2>/dev/null; echo still here >&2; exit 4"
    reader, writer = os.pipe()
    process = supervised.start("sh", "-c", script)
    os.close(reader)
    os.close(writer)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"first\n")
    process.stdout.close()
    process.stdout = None
    status, _, err = supervised.finish()
    assert status == 4
    assert b"still here\n" in err


def test_full_disk_behind_our_output_does_not_disturb_the_child(supervised: Supervised) -> None:
    argv = supervised.argv(("sh", "-c", "echo one; sleep 0.1; echo two; exit 5"), {})
    done = supervised.run("sh", "-c", '"$@" > /dev/full', "sh", *argv)
    assert done.returncode == 5
    assert done.stderr == b""


def test_quiet_swallows_the_output_but_records_it(supervised: Supervised) -> None:
    done = supervised.run("sh", "-c", "echo out; echo err >&2", quiet=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert sorted(supervised.record.splitlines()) == [b"err", b"out"]
