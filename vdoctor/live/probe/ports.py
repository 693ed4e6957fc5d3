"""Whether the port of the launch is free."""

from __future__ import annotations

import errno
import socket

import psutil

from vdoctor.live.probe.finding import Seen


def port(host: str | None, number: int) -> Seen:
    """Facts `port` and `port.taken`; who listens is named where the system tells."""
    seen = Seen()
    seen.add("port", number, "argv")
    if number > 65535:
        # No port at all: what is wrong with the command is told, not what could not be looked at.
        return seen
    family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As vLLM binds it (entrypoints/openai/api_server.py: create_server_socket): a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host or "", number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                seen.add("port.taken", True, f"probe:port {number}")
                seen.add("port.holder", _holder(number), "probe:sockets")
            else:
                seen.miss("port.taken", f"{host or '*'}:{number}: {error.strerror}")
        else:
            seen.add("port.taken", False, f"probe:port {number}")
    return seen


def _holder(number: int) -> str | None:
    """`python3 (pid 812)`; None without the right to know."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for one in connections:
        if one.laddr and one.laddr.port == number and one.status == psutil.CONN_LISTEN and one.pid:
            try:
                return f"{psutil.Process(one.pid).name()} (pid {one.pid})"
            except psutil.Error:
                return f"pid {one.pid}"
    return None
