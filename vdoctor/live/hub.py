"""A model's configuration and the headers of its weight files from the Hugging Face hub: only when asked (--online).

Nothing is kept on the disk. What the hub answers is hostile input.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from vdoctor.budget.config import ModelConfig, parse_config
from vdoctor.budget.tensors import Tensor, header_length, parse_header
from vdoctor.errors import UserError

#: huggingface_hub takes the same where HF_ENDPOINT is not set.
_ENDPOINT = "https://huggingface.co"
_NAME = re.compile(r"[A-Za-z0-9][\w.\-]{0,95}/[A-Za-z0-9_][\w.\-]{0,95}\Z")
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
#: Of a JSON file; the index of the largest checkpoints has some 10 MB.
_MOST_JSON = 64 << 20
#: Most headers are shorter: one question a file.
_FIRST = 256 << 10
_AT_ONCE = 8
_MOST_FILES = 400
_SHARD = re.compile(r"[\w.\-]{1,200}\Z")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of the hub. `tensors`: of all files, None where their headers are not told; `size`: bytes as the index says."""

    config: ModelConfig
    tensors: tuple[Tensor, ...] | None
    size: int | None
    endpoint: str


def fetch_model(name: str, environ: Mapping[str, str], revision: str = "main", seconds: float = 10.0) -> HubModel:
    """Ask the hub for one repository; `seconds` is the patience with each answer. UserError says what went wrong."""
    if not _NAME.match(name):
        raise UserError(f"{name[:100]}: not a repository id", "it reads as owner/name")
    hub = _Hub(name, revision, environ, seconds)
    raw = hub.json("config.json")
    if raw is None:
        raise UserError(f"{hub.endpoint}: {name} has no config.json", "check the name; vdoctor counts language models")
    config = parse_config(raw, f"{name}/config.json")
    index = hub.json(_INDEX)
    if index is not None:
        names, size = _files(index, name)
        return HubModel(config, hub.headers(names), size, hub.endpoint)
    return HubModel(config, hub.headers([_SINGLE]), None, hub.endpoint)


def _files(index: object, name: str) -> tuple[list[str], int | None]:
    """The weight files that an index names, and the bytes that it states."""
    told = index.get("weight_map") if isinstance(index, dict) else None
    names = sorted({one for one in told.values() if isinstance(one, str)}) if isinstance(told, dict) else []
    if not names or len(names) > _MOST_FILES or not all(_SHARD.match(one) for one in names):
        raise UserError(f"{name}/{_INDEX}: names no weight files that can be read", "look at the repository")
    metadata = index.get("metadata") if isinstance(index, dict) else None
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return names, int(total) if isinstance(total, int | float) and 0 < total < 1 << 60 else None


class _Hub:
    """Questions about one repository."""

    def __init__(self, name: str, revision: str, environ: Mapping[str, str], seconds: float) -> None:
        self.endpoint = (environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")
        if not self.endpoint.startswith(("http://", "https://")):
            raise UserError(f"HF_ENDPOINT={self.endpoint[:100]}: not an address", "as in: HF_ENDPOINT=" + _ENDPOINT)
        self._name, self._seconds = name, seconds
        self._base = f"{self.endpoint}/{name}/resolve/{urllib.parse.quote(revision, safe='')}/"
        self._token = environ.get("HF_TOKEN", "").strip()

    def json(self, file: str) -> Any:
        """A JSON file; None where the repository has none."""
        answer = self._ask(file, None, _MOST_JSON + 1)
        if answer is None:
            return None
        data = answer[0]
        if len(data) > _MOST_JSON:
            raise UserError(f"{self._name}/{file}: larger than {_MOST_JSON >> 20} MiB", "look at the repository")
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise UserError(f"{self._name}/{file}: broken JSON", f"look at {self._base}{file}") from None

    def headers(self, files: Sequence[str]) -> tuple[Tensor, ...] | None:
        """The tensors of these files; None where one is not there."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(self._header, files))
        if any(one is None for one in found):
            return None
        tensors: dict[str, Tensor] = {}
        for one in found:
            for tensor in one or ():
                tensors.setdefault(tensor.name, tensor)
        return tuple(tensors.values()) or None

    def _header(self, file: str) -> list[Tensor] | None:
        answer = self._ask(file, (0, _FIRST - 1), _FIRST)
        if answer is None:
            return None
        data, size = answer
        where = f"{self._name}/{file}"
        length = header_length(data[:8], size, where)
        if 8 + length > len(data):
            more = self._ask(file, (8, 7 + length), length)
            data = data[:8] + (more[0] if more is not None else b"")
        return parse_header(data[8 : 8 + length], size, where)

    def _ask(self, file: str, part: tuple[int, int] | None, most: int) -> tuple[bytes, int] | None:
        """(at most `most` bytes, size of the whole file); None for a file that is not there."""
        request = urllib.request.Request(self._base + file, headers={"User-Agent": "vdoctor"})
        if part is not None:
            request.add_header("Range", f"bytes={part[0]}-{part[1]}")
        if self._token:
            # Never sent on to where a download is redirected.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=self._seconds) as answer:
                if part is not None and part[0] and answer.status == 200:
                    # The server knows no ranges: what is in front is read, too.
                    answer.read(part[0])
                return answer.read(most), _size(answer)
        except urllib.error.HTTPError as error:
            error.close()
            self._refused(file, error.code)
            return None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise UserError(
                f"{self.endpoint}: cannot be reached: {str(reason)[:200] or type(error).__name__}",
                "check network and proxy, or HF_ENDPOINT; without --online nothing is asked",
            ) from None

    def _refused(self, file: str, code: int) -> None:
        """UserError for every answer but "not there"."""
        if code in (401, 403):
            hint = "accept its terms on the hub, and set HF_TOKEN" if not self._token else "HF_TOKEN may not read it"
            raise UserError(f"{self.endpoint}: {self._name} is gated, private or not there ({code})", hint)
        if code not in (404, 416):
            raise UserError(f"{self.endpoint}: {self._name}/{file}: answer {code}", "try again later")


def _size(answer: http.client.HTTPResponse) -> int:
    whole = (answer.headers.get("Content-Range") or "").rpartition("/")[2]
    text = whole if whole.isdecimal() else answer.headers.get("Content-Length") or ""
    return int(text) if text.isdecimal() and len(text) < 19 else 0
