"""Model hubs on this machine that answer, drip and fall silent, or never answer, for ``HF_ENDPOINT``."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPOSITORY = "acme/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
#: So many bytes come at once, this often, while it drips.
DRIP_BYTES, DRIP_S = 16, 1.0


class Hub(ThreadingHTTPServer):
    """Serves one folder as one repository. ``drip_s``: the first file drips so long, then nothing comes any more."""

    daemon_threads = True

    def __init__(self, folder: Path, drip_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.drip_s = drip_s
        self.began: float | None = None  # time of the first request for a file's content
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        name = path.rpartition("/")[2]
        file = self.server.folder / name
        if path.startswith("/api/"):
            files = [{"rfilename": one.name} for one in sorted(self.server.folder.iterdir())]
            data = json.dumps({"id": REPOSITORY, "sha": COMMIT, "siblings": files, "tags": []}).encode()
            if "/tree/" in path:
                data = b"[]"
            self._send(200, data if body else b"", len(data), {"Content-Type": "application/json"})
        elif "/resolve/" not in path or not file.is_file():
            self._send(404, b"", 0, {"X-Error-Code": "EntryNotFound"})
        else:
            data = file.read_bytes()
            headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()[:40]}"', "X-Repo-Commit": COMMIT}
            self._send(200, b"", len(data), headers)
            if body:
                self._drip(data)

    def _send(self, status: int, data: bytes, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _drip(self, data: bytes) -> None:
        self.close_connection = True
        self.server.began = self.server.began or time.monotonic()
        sent = 0
        while not self.server.over.wait(DRIP_S):
            if time.monotonic() - self.server.began < self.server.drip_s and sent < len(data) - DRIP_BYTES:
                self.wfile.write(data[sent : sent + DRIP_BYTES])
                self.wfile.flush()
                sent += DRIP_BYTES


@contextmanager
def dripping_hub(folder: Path, drip_s: float) -> Iterator[Hub]:
    """The hub, as long as the block lasts."""
    with Hub(folder, drip_s) as hub:
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.over.set()
            hub.shutdown()
            thread.join()


class MuteHub:
    """Accepts every connection, reads what is asked, and says nothing."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._held: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.asked = False  # a request has come

    def serve(self) -> None:
        """Until the listener is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._held.append(connection)
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        try:
            while connection.recv(1 << 16):
                self.asked = True
        except OSError:
            pass

    def close(self) -> None:
        """Hang up."""
        for connection in self._held:
            connection.close()


@contextmanager
def mute_hub() -> Iterator[MuteHub]:
    """The hub, as long as the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hub = MuteHub(listener)
        thread = threading.Thread(target=hub.serve, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            hub.close()
