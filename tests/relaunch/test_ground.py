"""The ground before a trial: real sockets; memory as a function of time."""

from __future__ import annotations

import os
import socket
import time

from vdoctor.launch.values import Address
from vdoctor.model import GpuSample
from vdoctor.relaunch.ground import holder, memory_back, memory_used

MIB = 1 << 20


def test_free_port_has_no_holder() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert holder(Address("127.0.0.1", port), 0.1) is None
    assert holder(None, 0.1) is None


def test_holder_of_a_port_is_named_and_another_port_found() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = holder(Address("127.0.0.1", port), 0.1)
        assert found is not None
        assert (found.port, found.pid) == (port, os.getpid())
        assert found.free is not None
        assert found.free > port
        socket.create_connection(("127.0.0.1", port)).close()


def test_port_that_gets_free_meanwhile_is_free() -> None:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    import threading

    threading.Timer(0.4, taken.close).start()
    assert holder(Address("127.0.0.1", port), 10.0) is None


def test_host_that_is_not_ours_is_for_the_server_to_complain_about() -> None:
    assert holder(Address("192.0.2.1", 80), 0.1) is None


def test_memory_is_waited_for() -> None:
    readings = [{0: 900 * MIB}, {0: 700 * MIB}, {0: 120 * MIB}]
    assert memory_back({0: 100 * MIB}, 10.0, lambda: readings.pop(0)) == {}
    assert readings == []


def test_memory_that_does_not_come_back_is_told_after_a_bounded_time() -> None:
    begun = time.monotonic()
    assert memory_back({0: 100 * MIB, 1: 0}, 0.3, lambda: {0: 900 * MIB, 1: 10}) == {0: 800 * MIB}
    assert time.monotonic() - begun < 30


def test_memory_of_gpus_that_answer() -> None:
    rows = (GpuSample(0, memory_used=5), GpuSample(1))
    assert memory_used(lambda: rows) == {0: 5}
    assert memory_back({}, 0.1, lambda: {0: 1 << 40}) == {}
