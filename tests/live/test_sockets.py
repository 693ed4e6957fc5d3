"""Bytes over TCP of real processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vdoctor.live import sockets
from vdoctor.live.sockets import Sockets

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns/net").exists(), reason="Linux only")

READER = """
import socket, sys
with socket.create_connection(("{host}", int(sys.argv[1]))) as peer:
    while peer.recv(65536):
        pass
input()
"""


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question is asked, whatever it costs."""
    monkeypatch.setattr(sockets, "_SHARE", 1e9)


class Reader:
    """A process that reads from us."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as server:
            argv = [sys.executable, "-c", READER.format(host=host), str(server.getsockname()[1])]
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE)
            self.peer, _ = server.accept()

    @property
    def pid(self) -> int:
        return self.process.pid

    def close(self) -> None:
        self.peer.close()
        self.process.communicate(b"\n")


@pytest.fixture
def reader() -> Iterator[Reader]:
    one = Reader()
    yield one
    one.close()


def until(ask: Callable[[], int | None], value: int) -> int | None:
    """The answer, as soon as it is the one that is waited for."""
    limit = time.monotonic() + 10
    while (found := ask()) != value and time.monotonic() < limit:
        time.sleep(0.02)
    return found


def test_bytes_count_as_they_come(reader: Reader) -> None:
    one = Sockets()
    assert one.received([reader.pid]) == 0
    for number in range(1, 4):
        reader.peer.sendall(b"x" * 1000)
        assert until(lambda: one.received([reader.pid]), 1000 * number) == 1000 * number


def test_closed_connection_keeps_what_it_brought(reader: Reader) -> None:
    one = Sockets()
    reader.peer.sendall(b"x" * 500)
    assert until(lambda: one.received([reader.pid]), 500) == 500
    reader.peer.close()
    time.sleep(0.2)
    assert one.received([reader.pid]) == 500


def test_ipv6_counts_too() -> None:
    try:
        reader = Reader("::1")
    except OSError:
        pytest.skip("no IPv6 here")
    reader.peer.sendall(b"x" * 70)
    one = Sockets()
    assert until(lambda: one.received([reader.pid]), 70) == 70
    reader.close()


def test_connection_between_two_of_the_tree_does_not_count(reader: Reader) -> None:
    reader.peer.sendall(b"x" * 500)
    one = Sockets()
    assert until(lambda: Sockets().received([reader.pid]), 500) == 500
    assert one.received([reader.pid, os.getpid()]) == 0


def test_process_that_ended_is_no_error(reader: Reader) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert Sockets().received([gone.pid, reader.pid]) == 0


def test_process_in_another_network_cannot_be_told() -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-n", "true"], capture_output=True).returncode:
        pytest.skip("needs the right to make a network namespace")
    with subprocess.Popen([unshare, "-n", "sh", "-c", "echo there; cat"], stdin=subprocess.PIPE, stdout=-1) as process:
        assert process.stdout is not None and process.stdout.readline() == b"there\n"
        one = Sockets()
        assert one.received([process.pid]) is None
        assert one.received([os.getpid()]) is None  # it is not tried again
        process.communicate()


def test_dear_questions_are_asked_seldom(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_SHARE", 1e-9)
    one = Sockets()
    assert one.received([reader.pid]) == 0
    reader.peer.sendall(b"x" * 500)
    assert until(lambda: Sockets().received([reader.pid]), 500) == 500
    assert one.received([reader.pid]) == 0
