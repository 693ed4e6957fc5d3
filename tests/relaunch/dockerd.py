"""A stand-in for docker: a daemon that holds containers (processes out of the reach of whoever asked for them) and the
client in front of it, `python -m tests.relaunch.dockerd CLIENT-WORDS`. It knows run, stop, kill, rm and ps.

As with the real one: the client forwards signals to process 1 of the container; killing the client leaves the container
alone; a name is taken until its container is removed; `-t` wants a terminal; `-d` prints the id and returns.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SOCKET = "FAKE_DOCKER_SOCKET"
_SWITCHES = ("--rm", "--init", "--detach", "--tty", "--interactive")


class Container:
    """One container: its first process, which leads a session of its own."""

    def __init__(self, name: str, image_words: list[str], env: dict[str, str], out: int, auto_remove: bool) -> None:
        self.name, self.auto_remove = name, auto_remove
        self.process = subprocess.Popen(
            image_words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        threading.Thread(target=self._outlive, daemon=True).start()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def signal(self, signum: int) -> None:
        if self.running:
            self.process.send_signal(signum)

    def _outlive(self) -> None:
        """All of a container ends with its process 1."""
        self.process.wait()
        self.end()

    def end(self) -> None:
        """As `docker kill`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Daemon:
    """Holds containers; `calls` are the words of all clients."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        """`folder` gets `docker` and the socket; containers inherit `env`."""
        self.containers: dict[str, Container] = {}
        self.calls: list[list[str]] = []
        self._env = dict(env)
        self._lock = threading.Lock()
        self.socket = folder / "docker.sock"
        client = folder / "docker"
        client.write_text(
            f'#!/bin/sh\nexport {_SOCKET}={shlex.quote(str(self.socket))}\nexec {shlex.quote(sys.executable)} -m {__name__} "$@"\n'
        )
        client.chmod(0o755)
        daemon = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                daemon.serve(self.rfile, self.wfile, self.connection)

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self._server = Server(str(self.socket), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for container in self.containers.values():
            container.end()

    @property
    def names(self) -> list[str]:
        """Containers that exist, running or not."""
        return sorted(self.containers)

    def serve(self, asked: Any, answer: Any, connection: socket.socket) -> None:
        request = json.loads(asked.readline())
        argv, terminal = request["argv"], request["terminal"]
        self.calls.append(argv)

        def tell(**what: Any) -> None:
            with contextlib.suppress(OSError):
                answer.write(json.dumps(what).encode() + b"\n")
                answer.flush()

        if argv[:1] == ["container"]:
            argv = argv[1:]
        if argv[:1] == ["run"]:
            self._run(argv[1:], terminal, asked, tell)
        elif argv[:1] in (["stop"], ["kill"], ["rm"]):
            self._end(argv, tell)
        else:
            tell(text=f"docker: '{argv[0]}' is not a docker command.\n", status=1)

    def _run(self, words: list[str], terminal: bool, asked: Any, tell: Any) -> None:
        options, rest = _options(words)
        name = options.get("--name") or uuid.uuid4().hex
        env = self._env | dict(pair.split("=", 1) for pair in options.get("-e", "").split("\n") if pair)
        if "-t" in options and not terminal:
            tell(text="the input device is not a TTY\n", status=1)
            return
        reader, writer = os.pipe()
        with self._lock:
            if name in self.containers:
                tell(text=f'docker: Conflict. The container name "/{name}" is already in use.\n', status=125)
                return
            for inside, outside in (pair.split(":")[::-1] for pair in options.get("-p", "").split("\n") if pair):
                rest = [
                    outside if word == inside and rest[at - 1] == "--port" else word for at, word in enumerate(rest)
                ]
            words = [sys.executable, "-m", "vdoctor.demo.server", *rest]
            container = self.containers[name] = Container(name, words, env, writer, "--rm" in options)
        os.close(writer)
        if "-d" in options:
            tell(text=uuid.uuid4().hex + "\n", status=0)
            return
        threading.Thread(target=self._forward, args=(asked, container), daemon=True).start()
        with os.fdopen(reader, "rb", 0) as output:
            while data := output.read(4096):
                tell(text=data.decode("latin-1"))
        status = container.process.wait()
        if container.auto_remove:
            container.end()
            self.containers.pop(name, None)
        tell(text="", status=status if status >= 0 else 128 - status)

    def _forward(self, asked: Any, container: Container) -> None:
        """Signals that the client got. A client that is gone means nothing."""
        with contextlib.suppress(ConnectionError):
            for line in asked:
                container.signal(json.loads(line)["signal"])

    def _end(self, argv: list[str], tell: Any) -> None:
        names = [word for word in argv[1:] if not word.startswith("-")]
        for name in names:
            container = self.containers.get(name)
            if container is None:
                tell(text=f"Error response from daemon: No such container: {name}\n", status=1)
                return
            if argv[0] == "rm" and container.running and "-f" not in argv:
                tell(text="cannot remove a running container\n", status=1)
                return
            if argv[0] == "stop":
                container.signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    container.process.wait(2.0)
            container.end()
            if argv[0] == "rm" or container.auto_remove:
                self.containers.pop(name, None)
        tell(text="".join(name + "\n" for name in names), status=0)


def _options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options (values of repeated ones in lines), and what follows the image."""
    found: dict[str, str] = {}
    at = 0
    while words[at].startswith("-"):
        word = words[at]
        at += 1
        if word in _SWITCHES:
            found[{"--detach": "-d", "--tty": "-t", "--interactive": "-i"}.get(word, word)] = ""
        elif word[1] != "-" and set(word[1:]) <= set("dit"):
            found |= {f"-{letter}": "" for letter in word[1:]}
        else:
            name, equal, value = word.partition("=")
            if not equal:
                value = words[at]
                at += 1
            found[name] = f"{found[name]}\n{value}" if name in found else value
    return found, words[at + 1 :]


def client(argv: list[str]) -> int:
    """Ask the daemon, pass output and signals on."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ[_SOCKET])
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, lambda number, frame: link.sendall(json.dumps({"signal": number}).encode() + b"\n"))
    link.sendall(json.dumps({"argv": argv, "terminal": sys.stdin.isatty()}).encode() + b"\n")
    with link.makefile("rb") as answers:
        for line in answers:
            answer = json.loads(line)
            os.write(1, answer["text"].encode("latin-1"))
            if "status" in answer:
                return int(answer["status"])
    return 125


if __name__ == "__main__":
    sys.exit(client(sys.argv[1:]))
