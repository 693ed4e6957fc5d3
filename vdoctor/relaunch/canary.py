"""Ask a relaunched server whether it serves: GET /health, then one short completion through the OpenAI API."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vdoctor.launch.values import Address
from vdoctor.relaunch.load import Measured, measure

#: Between two questions, and for one answer: the first request may compile kernels.
_PAUSE, _HEALTH_SECONDS, _ANSWER_SECONDS = 0.25, 5.0, 120.0
#: A server that says it is ready listens soon after.
_SILENCE = 30
_TOKENS = 4
#: What a server without text generation answers to a completion: no route, wrong method, not implemented; some say 400.
_NO_SUCH_TASK, _NOT_SUPPORTED = (404, 405, 501), "does not support"

Text = Mapping[str, str]
State = Literal["waiting", "answered", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request: status 0 and a reason when there was none."""

    status: int
    body: Any = None
    reason: str = ""


class Client:
    """Requests to one server. The key is sent and never shown."""

    def __init__(self, address: Address, key: str | None) -> None:
        self._address = address
        self._key = key
        # Only this very server is asked, whatever proxy the environment names; its certificate may be its own.
        context = ssl._create_unverified_context() if address.secure else None
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, path: str, body: object = None, timeout: float = _ANSWER_SECONDS) -> Reply:
        """GET, or POST where there is a body; never raises."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        data = json.dumps(body).encode() if body is not None else None
        try:
            with self._opener.open(
                urllib.request.Request(self._address.url + path, data, headers), timeout=timeout
            ) as answer:
                return Reply(answer.status, _json(answer.read(1 << 20)))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, _json(error.read(1 << 16)), error.reason)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Reply(0, None, str(getattr(error, "reason", error)) or type(error).__name__)


class Prober:
    """Probes in a thread of its own, so that a server that does not answer stops nothing."""

    def __init__(self, address: Address | None, key: str | None, *, load: bool = False) -> None:
        """`load`: measure the speed after the canary."""
        self.state: State = "waiting"
        self.reason: Text | None = None
        self.measured: Measured | None = None
        self.told_ready = threading.Event()
        #: It serves and is asked for text; no answer yet.
        self.asking = False
        self._client = Client(address, key) if address is not None else None
        self._load = load
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vdoctor-canary", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking; a request under way is left behind (daemon thread)."""
        self._stop.set()

    def _run(self) -> None:
        if self._client is None:
            self.told_ready.wait()
            self._end(
                "skipped", _left_out("the command does not tell where the server listens", "命令未说明服务监听的位置")
            )
            return
        if not self._healthy(self._client):
            return
        self.asking = True
        state, reason = canary(self._client)
        if state == "answered" and self._load and not self._stop.is_set():
            self.measured = measure(self._answer)
        self._end(state, reason)

    def _answer(self, body: dict[str, Any]) -> Any:
        assert self._client is not None
        models = self._client.ask("/v1/models").body
        return self._client.ask("/v1/completions", {"model": _model(models), **body}).body

    def _healthy(self, client: Client) -> bool:
        """Wait for /health; False when told to stop, or when a server that says it is ready stays silent."""
        silent = 0.0
        while not self._stop.wait(_PAUSE):
            reply = client.ask("/health", timeout=_HEALTH_SECONDS)
            if reply.status == 200 or (reply.status and self.told_ready.is_set()):
                return True
            if self.told_ready.is_set():
                silent += _PAUSE
                if silent >= _SILENCE:
                    self._end("failed", _said("GET /health", reply))
                    return False
        return False

    def _end(self, state: State, reason: Text | None) -> None:
        self.reason = reason
        self.state = state


def canary(client: Client) -> tuple[State, Text | None]:
    """One short completion: (state, reason). Servers without text generation are not asked for text."""
    models = client.ask("/v1/models")
    if models.status in (401, 403):
        answer = f"GET /v1/models: {models.status}"
        return "skipped", _left_out(f"{answer}, the API key is not known", f"{answer}，不知道 API key")
    model = _model(models.body)
    if models.status == 200 and model is None:
        return "skipped", _left_out("the server lists no model", "服务未列出模型")
    if models.status != 200:
        return "failed", _said("GET /v1/models", models)
    prompt = {"model": model, "max_tokens": _TOKENS, "temperature": 0}
    reply = client.ask("/v1/completions", {**prompt, "prompt": "Hello"})
    path = "/v1/completions"
    if _is_unsupported(reply):
        path = "/v1/chat/completions"
        reply = client.ask(path, {**prompt, "messages": [{"role": "user", "content": "Hello"}]})
    if _is_unsupported(reply):
        return "skipped", _left_out("the model does not generate text", "该模型不生成文本")
    if reply.status == 200 and _has_tokens(reply.body):
        return "answered", None
    return "failed", _said(f"POST {path}", reply)


def _has_tokens(body: Any) -> bool:
    """A choice, and text in it or a token counted: the first token may be the end, which has no text."""
    choices = body.get("choices") if isinstance(body, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return False
    usage, message = body.get("usage"), first.get("message")
    counted = usage.get("completion_tokens") if isinstance(usage, dict) else None
    # Thoughts and calls of tools are an answer, too.
    said = [text for name, text in message.items() if name != "role"] if isinstance(message, dict) else []
    return bool(counted or first.get("text") or any(said))


def _is_unsupported(reply: Reply) -> bool:
    return reply.status in _NO_SUCH_TASK or (reply.status == 400 and _NOT_SUPPORTED in json.dumps(reply.body))


def _left_out(en: str, zh: str) -> Text:
    return {"en": f"no canary: {en}", "zh": f"未请求补全：{zh}"}


def _said(request: str, reply: Reply) -> Text:
    if not reply.status:
        return {"en": f"{request}: no answer ({reply.reason})", "zh": f"{request}：没有应答（{reply.reason}）"}
    if reply.status == 200:
        return {"en": f"{request}: 200, but no completion", "zh": f"{request}：200，但没有补全内容"}
    text = f"{request}: {reply.status} {reply.reason}".rstrip()
    return {"en": text, "zh": text}


def _model(body: Any) -> str | None:
    rows = body.get("data") if isinstance(body, dict) else None
    first = rows[0] if isinstance(rows, list) and rows else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
