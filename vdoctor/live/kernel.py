"""The kernel's log: whom it killed for memory, what a GPU reported, where a process crashed."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator

from vdoctor.facts.kernel import of_interest

_RECORD = re.compile(r"^\d+,\d+,\d+,[^;]*;(.*)")
_DMESG = re.compile(r"^\[\s*(\d+\.\d+)\] (.*)")
#: The log of a busy kernel holds thousands of lines; each read gives one.
_MAX_RECORDS = 4000


class KernelLog:
    """New lines of the kernel's log that tell why processes die. Silent where it may not be read (most containers)."""

    def __init__(self, device: str = "/dev/kmsg") -> None:
        """Begin at the end of the log."""
        self._fd: int | None = None
        self._since = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        with contextlib.suppress(OSError):
            self._fd = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)

    def read(self) -> tuple[str, ...]:
        """Lines of interest since the last call; never waits."""
        return tuple(line for line in self._records() if of_interest(line))

    def last_words(self) -> tuple[str, ...]:
        """As `read`, at the end: where the device may not be opened, dmesg is asked once."""
        return self.read() if self._fd is not None else tuple(dmesg_since(self._since))

    def close(self) -> None:
        """Stop reading."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _records(self) -> Iterator[str]:
        for _ in range(_MAX_RECORDS):
            if self._fd is None:
                return
            try:
                record = os.read(self._fd, 8192)
            except BlockingIOError:
                return
            except BrokenPipeError:
                # Older lines were overwritten: go on with the oldest that is left.
                continue
            except OSError:
                return
            # A regular file instead of the device (in tests) gives many lines at once, and an end.
            if not record:
                return
            for line in record.decode("utf-8", "replace").splitlines():
                if found := _RECORD.match(line):
                    yield found[1]


def dmesg_since(boot_seconds: float) -> Iterator[str]:
    """Lines of interest that dmesg shows for the time after; none where it may not."""
    try:
        done = subprocess.run(["dmesg"], stdin=subprocess.DEVNULL, capture_output=True, timeout=0.5)
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        found = _DMESG.match(line)
        # The kernel's clock for its log does not count suspend: a second of tolerance.
        if found and float(found[1]) >= boot_seconds - 1.0 and of_interest(found[2]):
            yield found[2]
