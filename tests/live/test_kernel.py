"""The kernel's log, read from a file in the format of /dev/kmsg, and from the device where it may be opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vdoctor.live.kernel import KernelLog, dmesg_since

KILLED = "Out of memory: Killed process 40118 (VLLM::EngineCor) total-vm:310112204kB, anon-rss:251110044kB"


def record(number: int, text: str) -> str:
    return f"6,{number},{number}000000,-;{text}\n SUBSYSTEM=memory\n"


def test_only_new_lines_of_interest_are_read(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(record(1, KILLED.replace("40118", "1")))
    reader = KernelLog(str(log))
    assert reader.read() == ()
    with log.open("a") as file:
        file.write(record(2, "eth0: link becomes ready") + record(3, KILLED))
    assert reader.read() == (KILLED,)
    assert reader.read() == ()
    with log.open("a") as file:
        file.write(record(4, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus."))
    assert len(reader.last_words()) == 1
    reader.close()
    assert reader.read() == ()


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log may not be read")
def test_the_real_device_never_blocks() -> None:
    reader = KernelLog()
    assert all(isinstance(line, str) for line in reader.read())
    reader.close()


def test_without_the_device_dmesg_is_asked_for_what_came_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "dmesg"
    fake.write_text(f"#!/bin/sh\necho '[   50.100000] {KILLED}'\necho '[  200.100000] {KILLED}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert list(dmesg_since(100.0)) == [KILLED]
    fake.write_text("#!/bin/sh\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1\n")
    assert list(dmesg_since(100.0)) == []
    assert KernelLog(str(tmp_path / "absent")).last_words() == ()
