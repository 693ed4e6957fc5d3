"""Frames that tell a wait for a file lock from a request."""

from __future__ import annotations

import pytest

from vdoctor.model import Stack
from vdoctor.startup.frames import file_lock

LOCK = "BaseFileLock.acquire (filelock/_api.py:344)"


def stack(*frames: str, pid: int = 7) -> Stack:
    return Stack(pid, None, "MainThread", frames, "py-spy")


@pytest.mark.parametrize(
    ("frames", "lock"),
    [
        (("hf_hub_download (file_download.py:1)", LOCK, "clock_nanosleep (libc.so.6:0)"), LOCK),
        (("hf_hub_download (f.py:1)", "WeakFileLock (utils/_fixes.py:9)", "select (x:1)"), "WeakFileLock (utils/_fixes.py:9)"),
        (("state S (kernel:0)", "flock (syscall:73)", "locks_lock_inode_wait (kernel:0)"), "flock (syscall:73)"),
        (("hf_hub_download (f.py:1)", "SSLSocket.recv_into (ssl.py:1)"), None),
        (("acquire (threading.py:5)", "futex_do_wait (kernel:0)"), None),
        # Far out: the lock was taken, and something else is under way.
        ((LOCK, *(f"f{n} (x.py:1)" for n in range(16))), None),
    ],
)  # fmt: skip
def test_a_wait_for_a_file_lock(frames: tuple[str, ...], lock: str | None) -> None:
    assert file_lock([stack(*frames)]) == lock


def test_ranks_that_wait_for_the_one_that_downloads_wait_for_the_download() -> None:
    assert file_lock([stack(LOCK), stack("http_get (huggingface_hub/file_download.py:1)", pid=8)]) is None
