"""Bytes that the processes of a tree received over TCP, asked of the kernel's socket monitor (Linux, sock_diag).

The network interfaces tell of the whole machine; a download that hangs beside other traffic shows only here.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _DUMP = 4, 20, 0x301
_DONE, _ERROR = 3, 2
_INFO = 2
#: ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT: connections that carry or carried bytes.
_STATES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8
#: Offset of tcpi_bytes_received in struct tcp_info (include/uapi/linux/tcp.h, since Linux 4.1).
_RECEIVED_AT = 128
#: The question may take so large a share of the time: on a machine with thousands of connections it is asked less often.
_SHARE = 0.002
_TIMEOUT_S = 0.5


class Connection(NamedTuple):
    """One TCP connection. `received` in bytes since it was made."""

    inode: int
    local: tuple[bytes, int]
    remote: tuple[bytes, int]
    received: int


class Sockets:
    """Adds up what the connections of a changing set of processes received, closed ones included."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._total = 0
        self._next = 0.0
        self._works = True

    def received(self, pids: Iterable[int]) -> int | None:
        """Bytes so far; None where the system does not tell. Connections inside the tree do not count."""
        begun = time.monotonic()
        if not self._works:
            return None
        if begun < self._next:
            return self._total
        try:
            inodes = _inodes(pids)
            found = [one for family in (socket.AF_INET, socket.AF_INET6) for one in _connections(family)]
        except (OSError, struct.error, AttributeError):  # no netlink outside of Linux
            self._works = False
            return None
        self._add([one for one in found if one.inode in inodes])
        self._next = begun + (time.monotonic() - begun) / _SHARE
        return self._total

    def _add(self, own: list[Connection]) -> None:
        ends = {one.local for one in own}
        now = {one.inode: one.received for one in own if one.remote not in ends}
        self._total += sum(max(0, received - self._known.get(inode, 0)) for inode, received in now.items())
        self._known = now


def _inodes(pids: Iterable[int]) -> set[int]:
    """The sockets of these processes. Raises OSError when they live in another network, or may not be looked at."""
    network = Path("/proc/self/ns/net").readlink()
    found = set()
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/ns/net").readlink() != network:
                raise PermissionError("another network namespace")
            entries = list(os.scandir(f"/proc/{pid}/fd"))
        except (FileNotFoundError, ProcessLookupError):
            continue
        for entry in entries:
            try:
                target = os.readlink(entry.path)  # noqa: PTH115 - hundreds a second
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    return found


def _connections(family: int) -> list[Connection]:
    """All TCP connections of this network namespace. Raises OSError."""
    request = struct.pack("=IHHII", 72, _SOCK_DIAG_BY_FAMILY, _DUMP, 1, 0)
    request += struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _STATES)
    found: list[Connection] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(_TIMEOUT_S)
        link.send(request)
        while True:
            data = link.recv(1 << 18)
            at = 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _DONE:
                    return found
                if kind == _ERROR or length < 16:
                    raise OSError("sock_diag refused the question")
                if one := _connection(data[at + 16 : at + length]):
                    found.append(one)
                at += (length + 3) & ~3


def _connection(message: bytes) -> Connection | None:
    ports = struct.unpack_from(">HH", message, 4)
    local, remote = message[8:24], message[24:40]
    (inode,) = struct.unpack_from("=I", message, 68)
    at = 72
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _INFO and length >= 4 + _RECEIVED_AT + 8:
            (received,) = struct.unpack_from("=Q", message, at + 4 + _RECEIVED_AT)
            return Connection(inode, (local, ports[0]), (remote, ports[1]), received)
        if length < 4:
            break
        at += (length + 3) & ~3
    return None
