"""The canary against real HTTP servers."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.processes import until
from vdoctor.launch.values import Address
from vdoctor.relaunch.canary import Client, Prober, canary
from vdoctor.relaunch.load import CONCURRENT, ROUNDS, TOKENS, measure

Answer = Callable[[str, dict[str, Any] | None, dict[str, str]], tuple[int, Any]]
MODELS = (200, {"data": [{"id": "m"}]})
DONE = (200, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 4}})


@contextmanager
def serving(answer: Answer) -> Iterator[Address]:
    """A server that answers (path, body, headers) with (status, body); status 0 hangs up."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            status, found = answer(self.path, body, dict(self.headers))
            if not status:
                self.close_connection = True
                return
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _do

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Address("127.0.0.1", server.server_address[1])
        server.shutdown()


def scene(**answers: tuple[int, Any]) -> Answer:
    """Answers by the last word of the path."""

    def answer(path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> tuple[int, Any]:
        name = "chat" if "chat" in path else path.rsplit("/", 1)[-1]
        return answers.get(name, (404, {}))

    return answer


@pytest.mark.parametrize(
    ("answers", "state", "reason"),
    [
        ({"models": MODELS, "completions": DONE}, "answered", None),
        ({"models": MODELS, "chat": DONE}, "answered", None),
        (
            {
                "models": MODELS,
                "completions": (400, {"message": "The model does not support Completions API"}),
                "chat": DONE,
            },
            "answered",
            None,
        ),
        ({"models": MODELS}, "skipped", "no canary: the model does not generate text"),
        ({"models": (200, {"data": []})}, "skipped", "no canary: the server lists no model"),
        ({"models": (401, {})}, "skipped", "no canary: GET /v1/models: 401, the API key is not known"),
        ({"models": MODELS, "completions": (500, {})}, "failed", "POST /v1/completions: 500 Internal Server Error"),
        (
            {"models": MODELS, "completions": (400, {"message": "bad"})},
            "failed",
            "POST /v1/completions: 400 Bad Request",
        ),
        (
            {"models": MODELS, "completions": (200, {"choices": []})},
            "failed",
            "POST /v1/completions: 200, but no completion",
        ),
        (
            {
                "models": MODELS,
                "completions": (200, {"choices": [{"text": ""}], "usage": {"completion_tokens": 0}}),
            },
            "failed",
            "POST /v1/completions: 200, but no completion",
        ),
        ({"models": MODELS, "completions": (200, {"choices": [None]})}, "failed", "POST /v1/completions: 200, but no"),
        (
            {"models": MODELS, "completions": (200, {"choices": {"a": 1}})},
            "failed",
            "POST /v1/completions: 200, but no",
        ),
        # The end of the text is a token, too, and has no letters.
        (
            {
                "models": MODELS,
                "completions": (200, {"choices": [{"text": ""}], "usage": {"completion_tokens": 1}}),
            },
            "answered",
            None,
        ),
        ({"models": MODELS, "completions": (200, {"choices": [{"text": " x"}]})}, "answered", None),
        (
            {"models": MODELS, "chat": (200, {"choices": [{"message": {"role": "assistant", "content": ""}}]})},
            "failed",
            "POST /v1/chat/completions: 200, but no completion",
        ),
        (
            {"models": MODELS, "chat": (200, {"choices": [{"message": {"content": None, "reasoning_content": "a"}}]})},
            "answered",
            None,
        ),
        ({"models": MODELS, "completions": (200, b"<html>")}, "failed", "POST /v1/completions: 200, but no completion"),
        ({"models": MODELS, "completions": (0, None)}, "failed", "POST /v1/completions: no answer"),
        ({"models": (503, {})}, "failed", "GET /v1/models: 503 Service Unavailable"),
    ],
)
def test_what_a_server_answers(answers: dict[str, tuple[int, Any]], state: str, reason: str | None) -> None:
    with serving(scene(**answers)) as address:
        found, why = canary(Client(address, None))
    assert found == state
    assert (why is None) == (reason is None)
    if why is not None and reason is not None:
        assert why["en"].startswith(reason)
        assert why["zh"]


def test_key_is_sent() -> None:
    seen: list[str] = []

    def answer(path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> tuple[int, Any]:
        seen.append(headers.get("Authorization", ""))
        return MODELS if "models" in path else DONE

    with serving(answer) as address:
        canary(Client(address, "secret"))
    assert seen == ["Bearer secret"] * 2


def test_nobody_there_is_no_answer() -> None:
    state, why = canary(Client(Address("127.0.0.1", 1), None))
    assert state == "failed"
    assert why is not None
    assert "no answer" in why["en"]


def test_probe_waits_for_health_and_needs_no_word_of_the_log() -> None:
    healthy = threading.Event()

    def answer(path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> tuple[int, Any]:
        if path == "/health":
            return (200, {}) if healthy.is_set() else (503, {})
        return MODELS if "models" in path else DONE

    with serving(answer) as address:
        prober = Prober(address, None)
        prober.start()
        assert not until(lambda: prober.state != "waiting", 0.6)
        healthy.set()
        assert until(lambda: prober.state == "answered")
        prober.stop()


def test_probe_without_an_address_waits_for_the_log() -> None:
    prober = Prober(None, None)
    prober.start()
    assert not until(lambda: prober.state != "waiting", 0.2)
    prober.told_ready.set()
    assert until(lambda: prober.state == "skipped")


def test_load_is_fixed_and_counted() -> None:
    asked: list[int] = []

    def complete(body: dict[str, Any]) -> Any:
        asked.append(body["max_tokens"])
        return {"usage": {"completion_tokens": body["max_tokens"]}}

    found = measure(complete)
    assert found is not None
    assert asked.count(TOKENS) == CONCURRENT * ROUNDS == found.requests
    assert found.tokens_per_second > 0
    assert 0 <= found.latency <= found.slowest


def test_load_with_a_request_that_fails_gives_no_number() -> None:
    assert measure(lambda body: None) is None
