"""How the container is started: `docker run`, compose files and Kubernetes manifests that a ticket shows."""

from __future__ import annotations

import re

from vdoctor.facts.sizes import mib
from vdoctor.facts.spots import state
from vdoctor.model import Event, Fact

_RUN = re.compile(r"(?:docker|podman|nerdctl) (?:container )?run(?= {1,8}-| {1,8}\\$)")
_IPC_HOST = re.compile(r"--ipc[= ]\"?host\b")
_SHM_SIZE = re.compile(r"--shm-size[= ][\"']?(?P<size>\d[\w.]{0,20})")
_IMAGE_RELEASE = re.compile(
    r"\bvllm-openai(?:-\w{1,20})?:v(?P<release>\d{1,3}(?:\.\d{1,3}){2,3}(?:\.?(?:post|rc)\d{1,3})?)\b"
)
_MAX_LINES = 60
# YAML: `key: value`, also in a list, quoted, with a comment behind it.
_YAML = re.compile(
    r"\s{0,40}(?:- )?(?P<key>[A-Za-z][\w./\-]{1,40}): {0,8}[\"']?(?P<value>[^\s\"'#]{0,300})[\"']?\s{0,8}(?:#.{0,200})?$"
)
_COMPOSE = frozenset(("container_name", "shm_size", "services"))
_KUBERNETES = frozenset(("apiVersion", "imagePullPolicy", "hostIPC", "emptyDir", "nvidia.com/gpu"))
_COMMAND = re.compile(
    r"\s{0,8}(?:\S{0,60}[$#] )?(?:sudo )?(?P<name>docker[ -]compose|kubectl|oc) (?:-\S{1,40} (?:\S{1,60} )?)?(?:up|logs|apply|get|describe|exec)\b"
)


def image_release(text: str) -> str | None:
    """The vLLM release that the tag of the official image names."""
    found = _IMAGE_RELEASE.search(text)
    return found["release"] if found else None


class SnippetFacts:
    """Fed with the lines of a ticket."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self._docker: _DockerRun | None = None
        self._manifest = _Manifest(self.facts)

    def feed(self, event: Event) -> None:
        """Take the next line."""
        text, line = event.text, event.line
        if self._docker is None and " run" in text and (head := _RUN.search(text)):
            self._docker = _DockerRun(line)
            text = text[head.end() :]
        if self._docker is not None:
            if self._docker.take(text):
                self._docker.conclude(self.facts)
                self._docker = None
        elif ": " in text or text.endswith(":"):
            if pair := _YAML.match(text):
                self._manifest.take(pair["key"], pair["value"], line)
        elif command := _COMMAND.match(text):
            layer = "compose" if "compose" in command["name"] else "kubernetes"
            state(self.facts, "launch.layer", layer, line)


class _DockerRun:
    """One command, over its continuation lines."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._left = _MAX_LINES
        self._ours = self._ipc_host = False
        self._shm: float | None = None
        self._release: str | None = None

    def take(self, text: str) -> bool:
        """Read the next line; True when the command ends with it."""
        text = text.rstrip()
        self._left -= 1
        self._ours = self._ours or "vllm" in text
        self._ipc_host = self._ipc_host or _IPC_HOST.search(text) is not None
        if size := _SHM_SIZE.search(text):
            self._shm = mib(size["size"])
        self._release = self._release or image_release(text)
        return not text.endswith("\\") or self._left <= 0

    def conclude(self, facts: dict[str, Fact]) -> None:
        """State what the command says, if it starts vLLM and not something beside it."""
        if not self._ours:
            return
        state(facts, "launch.layer", "docker", self._line)
        state(facts, "launch.ipc_host", self._ipc_host, self._line)
        if self._shm is not None:
            state(facts, "launch.shm_mib", round(self._shm), self._line)
        if self._release is not None:
            state(facts, "vllm.version", self._release, self._line)


class _Manifest:
    """Pairs of a compose file or a Kubernetes manifest. Which of the two it is shows sooner or later than its image."""

    def __init__(self, facts: dict[str, Fact]) -> None:
        self._facts = facts
        self._kind: str | None = None
        self._image = False
        self._in_memory = False

    def take(self, key: str, value: str, line: int) -> None:
        """Read the next pair."""
        self._kind = self._kind or ("compose" if key in _COMPOSE else "kubernetes" if key in _KUBERNETES else None)
        if key == "image" and "vllm" in value:
            self._image = True
            if release := image_release(value):
                state(self._facts, "vllm.version", release, line)
        if self._kind and self._image:
            state(self._facts, "launch.layer", self._kind, line)
        if (key, value) in (("ipc", "host"), ("hostIPC", "true")):
            state(self._facts, "launch.ipc_host", True, line)
        elif key == "nvidia.com/gpu" and value.isdecimal() and len(value) < 4:
            # The limit of the container is what vLLM sees, however many the node has.
            state(self._facts, "gpu.count", int(value), line)
        self._shared_memory(key, value, line)

    def _shared_memory(self, key: str, value: str, line: int) -> None:
        """`shm_size`, or the size of a volume in memory: with vLLM that is /dev/shm."""
        if key == "medium":
            self._in_memory = value == "Memory"
        elif key == "shm_size" or (key == "sizeLimit" and self._in_memory):
            size = mib(value)
            if size is not None:
                state(self._facts, "launch.shm_mib", round(size), line)
