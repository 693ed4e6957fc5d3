"""The HTTP side of the simulated server: /health, /v1/models, completions."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any

from vdoctor.demo.troubles import Troubles


class Handler(http.server.BaseHTTPRequestHandler):
    """As quiet as it can be. `model`, `troubles` and `key` are set by the server."""

    model = "demo"
    troubles = Troubles({})
    key: str | None = None

    def do_GET(self) -> None:
        """200 for what the real server answers while it is idle."""
        if self._is_refused():
            return
        if self.path == "/v1/models":
            self._answer(200, {"object": "list", "data": [{"id": self.model, "object": "model"}]})
        elif self.path == "/health":
            self._answer(200, None)
        else:
            self._answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """A completion of as many tokens as were asked for."""
        if self._is_refused():
            return
        size = int(self.headers.get("Content-Length") or 0)
        try:
            asked = json.loads(self.rfile.read(size))
            tokens = int(asked.get("max_tokens", 16))
        except (ValueError, AttributeError, TypeError):
            self._answer(400, {"error": {"message": "no JSON object", "code": 400}})
            return
        if self.path not in ("/v1/completions", "/v1/chat/completions") or "pooling" in self.troubles:
            self._answer(404, {"detail": "Not Found"})
        elif "canary-hangs" in self.troubles:
            threading.Event().wait()
        elif "canary-500" in self.troubles:
            self._answer(500, {"error": {"message": "Internal server error", "code": 500}})
        else:
            usage = {"prompt_tokens": 1, "completion_tokens": tokens}
            self._answer(200, {"object": "text_completion", "choices": [{"text": " demo" * tokens}], "usage": usage})
            self.troubles.answered()

    def log_message(self, format: str, *args: Any) -> None:
        """uvicorn's access log."""
        client = f"{self.client_address[0]}:{self.client_address[1]}"
        print(f'INFO:     {client} - "{self.requestline}" {args[1] if len(args) > 1 else 200} OK', flush=True)

    def _is_refused(self) -> bool:
        """Requests below /v1 need the key where there is one."""
        needed = self.key is not None and self.path.startswith("/v1/")
        if needed and self.headers.get("Authorization") != f"Bearer {self.key}":
            self._answer(401, {"error": "Unauthorized"})
            return True
        return False

    def _answer(self, status: int, body: object) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
