"""Asks the server how it fares: GET /health and /metrics on this machine, in a thread, with time limits."""

from __future__ import annotations

import contextlib
import http.client
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Collection

import psutil

from vdoctor.launch.endpoint import Endpoint
from vdoctor.model import Sample
from vdoctor.startup.stats import KEPT

#: A server that logs each request is asked as often as a usual Prometheus does, so that its log stays its own.
INTERVAL_S, QUIET_INTERVAL_S = 15.0, 5.0
#: While it is not ready nothing is asked until it listens, and that is looked up often.
_STARTING_S = 1.0
_LIMIT_S = 3.0
_MAX_PAGE = 8 << 20


class ServerProbe:
    """`begin` when the server is near ready; `take` what it answered; `stop`."""

    def __init__(
        self,
        endpoint: Endpoint,
        now: Callable[[], float],
        pids: Callable[[], Collection[int]],
        interval: float | None = None,
    ) -> None:
        """`now`: seconds since the launch; `pids`: the processes of which one must own the port."""
        self._endpoint = endpoint
        self._now = now
        self._pids = pids
        self._interval = interval or (INTERVAL_S if endpoint.logs_requests else QUIET_INTERVAL_S)
        self._queue: queue.SimpleQueue[Sample] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="vdoctor-metrics", daemon=True)
        self.begun = False
        #: /health has answered 200
        self.ready = False
        self._no_page = False

    def begin(self) -> None:
        """Begin to ask."""
        if not self.begun:
            self.begun = True
            self._thread.start()

    def take(self) -> list[Sample]:
        """Answers since the last call."""
        ready = []
        while not self._queue.empty():
            ready.append(self._queue.get())
        return ready

    def stop(self) -> None:
        """Stop asking; an answer that does not come is left behind (daemon thread)."""
        self._stop.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            if self.ready or listens(self._endpoint.port, self._pids()):
                sample = self._ask()
                if sample is not None:
                    self._queue.put(sample)
            self._stop.wait(self._interval if self.ready else min(_STARTING_S, self._interval))

    def _ask(self) -> Sample | None:
        page = self._page() if self.ready and not self._no_page else None
        if page is not None:
            return Sample(self._now(), metrics=page)
        if self.ready and self._no_page and self._endpoint.logs_requests:
            # Nothing to learn that is worth a line in its log.
            return None
        status, _ = self._get("/health")
        self.ready = self.ready or status == 200
        return Sample(self._now(), health=status)

    def _page(self) -> dict[str, float] | None:
        status, text = self._get("/metrics")
        if status == 404:
            self._no_page = True
        if status != 200:
            return None
        return read_page(text)

    def _get(self, path: str) -> tuple[int, str]:
        """Status and text; status 0 when there is no answer in time."""
        endpoint = self._endpoint
        connection: http.client.HTTPConnection
        if endpoint.tls:
            # The certificate is for the name that clients use; we talk to our own machine.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=_LIMIT_S, context=context)
        else:
            connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=_LIMIT_S)
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MAX_PAGE).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException, ValueError):
            return 0, ""
        finally:
            connection.close()


def read_page(text: str) -> dict[str, float]:
    """The values of a /metrics page that matter, by name: labels summed, of shares the highest. Empty for another page."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, float] = {}
    with contextlib.suppress(ValueError):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name not in KEPT:
                    continue
                before = found.get(sample.name)
                if before is None:
                    found[sample.name] = float(sample.value)
                elif sample.name.endswith("_perc"):
                    found[sample.name] = max(before, float(sample.value))
                else:
                    found[sample.name] = before + float(sample.value)
    return found


def listens(port: int, pids: Collection[int]) -> bool:
    """Whether one of these processes listens on the TCP port: another server there must not be taken for ours."""
    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            # psutil 6 renamed it.
            ask = getattr(process, "net_connections", None) or process.connections
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in ask(kind="tcp")):
                return True
    return False


def is_local(host: str) -> bool:
    """Whether an address is one of this machine: nothing else is ever asked."""
    with contextlib.suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as probe:
                probe.bind(address)
                return True
    return False
