"""The ground before a trial: is the port free, is the GPU's memory back? Only looks; a stranger is never touched."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from vdoctor.launch.values import Address
from vdoctor.live.nvml import Nvml
from vdoctor.model import GpuProcess, GpuSample

#: A socket that was just closed, memory that the driver gives back late: bounded waits.
PORT_SECONDS, MEMORY_SECONDS = 2.0, 30.0
#: What a driver keeps or another process takes meanwhile does not count.
_MEMORY_SLACK = 256 << 20
_PAUSE = 0.2
_PORTS_TO_LOOK_AT = 100
#: So many holders of memory are named.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Holder:
    """Who listens on a port; pid and name None where the system does not say (another user's process)."""

    port: int
    pid: int | None
    name: str | None
    free: int | None  # a port nearby that nobody holds


def holder(address: Address | None, seconds: float = PORT_SECONDS) -> Holder | None:
    """Who holds the port of a launch, after a bounded wait; None when it is free or not known."""
    if address is None:
        return None
    end = time.monotonic() + seconds
    while not _free(address.host, address.port):
        if time.monotonic() > end:
            pid, name = _owner(address.port)
            return Holder(address.port, pid, name, _free_near(address))
        time.sleep(_PAUSE)
    return None


def memory_used(samples: Callable[[], tuple[GpuSample, ...]] | None = None) -> dict[int, int]:
    """Bytes in use on each GPU; empty where there is none that NVML shows."""
    rows = (samples or _samples)()
    return {row.index: row.memory_used for row in rows if row.memory_used is not None}


def memory_holders(gpu: int, samples: Callable[[], tuple[GpuSample, ...]] | None = None) -> list[str]:
    """Who holds memory of a GPU, the largest first: `python (pid 4711), 20.0 GiB`; empty where the driver does not say
    (in a container, or for want of rights). They are only named."""
    rows = [row for row in (samples or _samples)() if row.index == gpu]
    held = [process for row in rows for process in row.processes or ()]
    held.sort(key=lambda process: -(process.memory or 0))
    return [_named(process) for process in held[:_NAMED]]


def _named(process: GpuProcess) -> str:
    held = f", {process.memory / (1 << 30):.1f} GiB" if process.memory else ""
    return f"{process.name or 'a process'} (pid {process.pid}){held}"


def _samples() -> tuple[GpuSample, ...]:
    """The rows of all GPUs. Who holds memory is asked of one GPU a call: as many calls as there are GPUs."""
    nvml = Nvml()
    try:
        rows = {row.index: row for row in nvml.samples()}
        for _ in range(len(rows) - 1):
            rows |= {row.index: row for row in nvml.samples() if row.processes is not None}
        return tuple(rows.values())
    finally:
        nvml.close()


def memory_back(
    before: dict[int, int],
    seconds: float = MEMORY_SECONDS,
    used: Callable[[], dict[int, int]] = memory_used,
) -> dict[int, int]:
    """Wait until no GPU holds more than `before`; what is held in excess after that, bytes by GPU."""
    end = time.monotonic() + seconds
    while True:
        now = used()
        excess = {gpu: now[gpu] - held for gpu, held in before.items() if now.get(gpu, 0) > held + _MEMORY_SLACK}
        if not excess or time.monotonic() > end:
            return excess
        time.sleep(_PAUSE)


def _free(host: str, port: int) -> bool:
    """Whether a server could listen there; on any other error the server itself has to say what is wrong."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As uvicorn and vLLM do: connections that linger after an end do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        return error.errno != errno.EADDRINUSE
    return True


def _owner(port: int) -> tuple[int | None, str | None]:
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            place = connection.laddr
            if connection.status == psutil.CONN_LISTEN and place and place.port == port and connection.pid:
                with contextlib.suppress(psutil.Error):
                    return connection.pid, psutil.Process(connection.pid).name()
                return connection.pid, None
    return None, None


def _free_near(address: Address) -> int | None:
    ports = range(address.port + 1, min(address.port + _PORTS_TO_LOOK_AT, 65536))
    return next((port for port in ports if _free(address.host, port)), None)
