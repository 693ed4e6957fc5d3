"""Unfinished downloads and free disk space. Runs in a thread of its own: a dead network disk blocks nothing else."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

#: Growth of a download is worth a look this often; free space changes slowly.
_DOWNLOAD_SECONDS, _DISK_SECONDS = 2.0, 10.0
#: A file that was last written before the launch is left over from an earlier one. File systems round to two seconds.
_ROUNDING = 2.0


class Places(NamedTuple):
    """Folders that a launch writes to: Hugging Face caches, and all whose disk may fill up."""

    caches: tuple[Path, ...]
    disks: tuple[Path, ...]


def places(env: Mapping[str, str], words: Sequence[str]) -> Places:
    """From the launch's environment and command line, as huggingface_hub and vLLM read them."""
    home = Path(env.get("HOME") or "/root")
    base = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    hub = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
    cache = Path(hub) if hub else Path(env.get("HF_HOME") or base / "huggingface") / "hub"
    given = _option(words, "--download-dir")
    caches = (Path(given), cache) if given else (cache,)
    compiled = Path(env.get("VLLM_CACHE_ROOT") or base / "vllm")
    others = (compiled, Path(env.get("TMPDIR") or "/tmp"))
    kernels = [Path(env[name]) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR") if env.get(name)]
    return Places(
        tuple(_expand(path, home) for path in caches), tuple(_expand(p, home) for p in (*caches, *others, *kernels))
    )


def _option(words: Sequence[str], name: str) -> str | None:
    for at, word in enumerate(words):
        if word == name and at + 1 < len(words):
            return words[at + 1]
        if word.startswith(name + "="):
            return word.partition("=")[2]
    return None


def _expand(path: Path, home: Path) -> Path:
    return home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path


class Downloads:
    """Finds `*.incomplete` files without walking the whole cache: a folder is listed only when it changed."""

    def __init__(self, caches: Sequence[Path], since: float) -> None:
        """`since`: time of the launch, seconds since the epoch; older leftovers do not count."""
        self._caches = caches
        self._since = since - _ROUNDING
        self._listed: dict[str, tuple[int, list[str]]] = {}

    def size(self) -> int | None:
        """Bytes on disk of all unfinished files; None where there is no cache."""
        total, there = 0, False
        for cache in self._caches:
            for folder in self._folders(cache):
                there = True
                total += sum(_size(path, self._since) for path in self._unfinished(folder))
        return total if there else None

    def _folders(self, cache: Path) -> list[str]:
        """`models--org--name/blobs`, and `.cache/huggingface/download` of a plain folder."""
        try:
            with os.scandir(cache) as entries:
                found = [f"{entry.path}/blobs" for entry in entries if entry.name.startswith("models--")]
        except OSError:
            return []
        return [str(cache), *found, f"{cache}/.cache/huggingface/download"]

    def _unfinished(self, folder: str) -> list[str]:
        try:
            changed = Path(folder).stat().st_mtime_ns
        except OSError:
            return []
        known = self._listed.get(folder)
        if known is None or known[0] != changed:
            try:
                with os.scandir(folder) as entries:
                    known = (changed, [entry.path for entry in entries if entry.name.endswith(".incomplete")])
            except OSError:
                return []
            self._listed[folder] = known
        return known[1]


def _size(path: str, since: float) -> int:
    """What is really there: a file that is made in full length first has few blocks."""
    try:
        found = Path(path).stat()
    except OSError:
        return 0
    return min(found.st_size, found.st_blocks * 512) if found.st_mtime >= since else 0


def free_space(paths: Sequence[Path]) -> dict[str, int]:
    """Bytes free for us on each file system, by the first of the paths that lies on it."""
    free: dict[str, int] = {}
    seen = set()
    for path in paths:
        there = _existing(path)
        try:
            device = there.stat().st_dev
            if device in seen:
                continue
            seen.add(device)
            numbers = os.statvfs(there)
        except OSError:
            continue
        free[str(path)] = numbers.f_bavail * numbers.f_frsize
    return free


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


class Storage:
    """Keeps `downloading` and `disk_free` fresh in a thread; `watch` says where to look."""

    def __init__(self) -> None:
        self.downloading: int | None = None
        self.disk_free: dict[str, int] = {}
        self._since = time.time()
        self._places: Places | None = None
        self._stop = threading.Event()
        self._new = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="vdoctor-storage", daemon=True)

    def watch(self, where: Places) -> None:
        """Look at these folders from now on."""
        if where != self._places:
            self._places = where
            self._new.set()
            if not self._thread.is_alive() and not self._stop.is_set():
                self._thread.start()

    def stop(self) -> None:
        """End the thread; where a disk hangs it is left behind (daemon)."""
        self._stop.set()
        self._new.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._new.clear()
            assert self._places is not None
            where, downloads, next_disk = self._places, Downloads(self._places.caches, self._since), 0.0
            while not self._new.is_set():
                begun = time.thread_time()
                self.downloading = downloads.size()
                if time.monotonic() >= next_disk:
                    self.disk_free = free_space(where.disks)
                    next_disk = time.monotonic() + _DISK_SECONDS
                # A cache of thousands of models costs more: never above a thousandth of a core.
                self._new.wait(max(_DOWNLOAD_SECONDS, 1000 * (time.thread_time() - begun)))
