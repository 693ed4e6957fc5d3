"""The hub, as a server on this machine: what is asked, and what is made of wrong answers."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.budget.checkpoints import LLAMA, write_model
from vdoctor.errors import UserError
from vdoctor.live.hub import fetch_model
from vdoctor.live.model_folder import read_model


class Hub(http.server.ThreadingHTTPServer):
    """Serves folders below `root` as repositories; `answers` replaces files by (status, body)."""

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.asked: list[tuple[str, str, str]] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.ranges = True

    @property
    def env(self) -> dict[str, str]:
        return {"HF_ENDPOINT": f"http://127.0.0.1:{self.server_address[1]}/"}


class Handler(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        given = self.headers.get("Range", "")
        self.server.asked.append((self.path, given, self.headers.get("Authorization", "")))
        owner, name, _, _, file = self.path.strip("/").split("/")
        path = self.server.root / owner / name / file
        status, body = self.server.answers.get(file, (200, path.read_bytes()) if path.is_file() else (404, b"no"))
        if status == 302:
            self.send_response(302)
            self.send_header("Location", body.decode())
            self.end_headers()
            return
        whole = len(body)
        if given and status == 200 and self.server.ranges:
            first, last = given.removeprefix("bytes=").split("-")
            status, body = 206, body[int(first) : int(last) + 1]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    server = Hub(tmp_path)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("shards", "ranges"), [(1, True), (3, True), (1, False), (3, False)])
def test_what_the_hub_tells_is_what_the_files_tell(hub: Hub, shards: int, ranges: bool) -> None:
    folder = write_model(hub.root / "owner" / "name", shards=shards)
    hub.ranges = ranges
    found, files = fetch_model("owner/name", hub.env), read_model(folder)
    assert found.tensors is not None and files.tensors is not None
    assert sorted(found.tensors) == sorted(files.tensors)
    assert found.config.layers == LLAMA["num_hidden_layers"]
    assert {path.rpartition("/")[0] for path, _, _ in hub.asked} == {"/owner/name/resolve/main"}
    assert all(given.startswith("bytes=0-") for path, given, _ in hub.asked if path.endswith(".safetensors"))


def test_a_long_header_takes_a_second_question(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(hub.root / "owner" / "name")
    monkeypatch.setattr("vdoctor.live.hub._FIRST", 100)
    for hub.ranges in (True, False):
        assert fetch_model("owner/name", hub.env).tensors


def test_the_token_goes_to_the_hub_alone(hub: Hub) -> None:
    write_model(hub.root / "owner" / "name")
    write_model(hub.root / "else" / "where")
    hub.answers["model.safetensors.index.json"] = (302, b"/else/where/resolve/x/config.json")
    with pytest.raises(UserError):
        fetch_model("owner/name", hub.env | {"HF_TOKEN": "s3cret"})
    sent = {path.split("/")[1]: token for path, _, token in hub.asked}
    assert sent == {"owner": "Bearer s3cret", "else": ""}


@pytest.mark.parametrize(
    ("file", "answer", "says"),
    [
        ("config.json", (404, b""), "no config.json"),
        ("config.json", (401, b""), "gated"),
        ("config.json", (403, b""), "gated"),
        ("config.json", (500, b""), "answer 500"),
        ("config.json", (200, b"{"), "broken JSON"),
        ("config.json", (200, b"[" * 100_000), "broken JSON"),
        ("config.json", (200, b"{}"), "is missing"),
        ("model.safetensors.index.json", (200, b"[]"), "no weight files"),
        ("model.safetensors.index.json", (200, b'{"weight_map": {"a": "../../etc/passwd"}}'), "no weight files"),
        ("model.safetensors", (200, b"\xff" * 64), "header"),
        ("model.safetensors", (200, b""), "too short"),
    ],
)
def test_wrong_answers(hub: Hub, file: str, answer: tuple[int, bytes], says: str) -> None:
    write_model(hub.root / "owner" / "name")
    hub.answers[file] = answer
    with pytest.raises(UserError, match=says):
        fetch_model("owner/name", hub.env)


def test_no_weights_as_safetensors(hub: Hub) -> None:
    (write_model(hub.root / "owner" / "name") / "model.safetensors").unlink()
    assert fetch_model("owner/name", hub.env).tensors is None


@pytest.mark.parametrize(
    ("name", "env", "says"),
    [
        ("owner/name", {"HF_ENDPOINT": "http://127.0.0.1:1"}, "cannot be reached"),
        ("owner/name", {"HF_ENDPOINT": "ftp://x"}, "not an address"),
        ("owner/../x", {}, "not a repository id"),
        ("owner/na me", {}, "not a repository id"),
    ],
)
def test_wrong_questions(name: str, env: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        fetch_model(name, env)


def test_a_hub_that_does_not_answer_is_given_up(hub: Hub) -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(UserError, match="cannot be reached"):
            fetch_model("owner/name", {"HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}, seconds=0.3)


def test_the_command_asks_only_with_online(hub: Hub, tmp_path: Path) -> None:
    from tests.commands.test_estimate_command import answer, vdoctor

    write_model(hub.root / "owner" / "name")
    env = hub.env | {"HF_HUB_CACHE": str(tmp_path / "none"), "NO_PROXY": "*"}
    done = vdoctor("owner/name", "--gpu-memory", "24", **env)
    assert done.returncode == 2 and "--online" in done.stderr and hub.asked == []
    found = answer("owner/name", "--online", "--gpu-memory", "24", **env)
    assert hub.asked and "online" in [doubt["id"] for doubt in found["doubts"]]
    assert (
        json.loads((hub.root / "owner" / "name" / "config.json").read_text())["model_type"]
        == found["facts"]["model.type"]["value"]
    )
