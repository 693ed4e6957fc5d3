"""Where the server of a command answers: for questions from this machine alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vdoctor.launch.command import variables
from vdoctor.launch.options import OptionTable
from vdoctor.launch.values import last_values
from vdoctor.model import Launch

_EVERYWHERE = ("", "0.0.0.0", "::", "[::]", "localhost")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host and port of the server. The key is never shown, printed or recorded."""

    host: str
    port: int
    tls: bool = False
    #: the server writes a line for each request that it answers
    logs_requests: bool = True
    key: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """`http://127.0.0.1:8000`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def endpoint(launch: Launch, options: OptionTable, environ: Mapping[str, str]) -> Endpoint | str:
    """The endpoint, or why the server cannot be asked."""
    if launch.container:
        return "the server runs in a container"
    if not _is_server(launch):
        return "the command is no vllm serve"
    given = last_values(launch, options)
    if "--uds" in given:
        return "the server listens on a Unix socket (--uds)"
    if "--headless" in given:
        return "a headless node has no API server"
    if given.get("--ssl-cert-reqs", "0") != "0":
        return "the server asks for a client certificate (--ssl-cert-reqs)"
    port = given.get("--port", "8000")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        return f"--port {port} is no port"
    host = given.get("--host", "").strip("[]")
    environment = {**environ, **variables(launch)}
    quiet = "--disable-uvicorn-access-log" in given or given.get("--uvicorn-log-level", "info") not in _TALKING
    return Endpoint(
        "127.0.0.1" if host in _EVERYWHERE else host,
        int(port),
        tls="--ssl-keyfile" in given,
        logs_requests=not quiet,
        key=given.get("--api-key") or environment.get("VLLM_API_KEY") or None,
    )


_TALKING = ("info", "debug", "trace")


def _is_server(launch: Launch) -> bool:
    words = (*launch.program, *launch.args[:1])
    return "serve" in words[:4] or any("api_server" in word for word in launch.program)
