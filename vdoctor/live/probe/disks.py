"""Disks behind the paths that a start reads and writes: free space, file system, permissions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from vdoctor.live.probe.finding import Seen

_GIB = 1 << 30
#: File systems that are reached over a network.
NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "glusterfs",
    "fuse.s3fs",
    "fuse.juicefs",
    "9p",
)


def places(env: Mapping[str, str]) -> dict[str, Path]:
    """Where vLLM and its libraries write under `env`: name -> path (huggingface_hub/constants.py, vllm/envs.py, triton)."""
    home = Path(env.get("HOME") or Path.home())
    cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    hub = Path(env.get("HF_HOME") or cache / "huggingface")
    return {
        "hub": Path(env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or hub / "hub"),
        "cache": Path(env.get("VLLM_CACHE_ROOT") or cache / "vllm"),
        "triton": Path(env.get("TRITON_CACHE_DIR") or home / ".triton" / "cache"),
        "tmp": Path(env.get("TMPDIR") or tempfile.gettempdir()),
    }


def disks(env: Mapping[str, str], model: Path | None) -> Seen:
    """Facts about the places above and, where the model is a local folder, its file system."""
    seen = Seen()
    mounts = {Path(part.mountpoint): part for part in psutil.disk_partitions(all=True)}
    for name, path in places(env).items():
        there = existing(path)
        try:
            room = os.statvfs(there)
        except OSError as error:
            seen.miss(f"disk.{name}", f"{there}: {error.strerror}")
            continue
        if os.access(there, os.W_OK | os.X_OK):
            seen.add(f"disk.{name}_free_gib", round(room.f_bavail * room.f_frsize / _GIB, 2), f"probe:{path}")
        else:
            # How much room there is does not matter, and a read-only file system is always full.
            seen.add("proc.path", str(path), f"probe:{there}")
            seen.add("disk.unwritable", True, f"probe:{there}")
        mount = mounts.get(mount_of(there, mounts))
        if name in ("cache", "tmp", "triton") and mount is not None and "noexec" in mount.opts.split(","):
            seen.add("disk.noexec", str(path), f"probe:{mount.mountpoint}")
    if model is not None and (mount := mounts.get(mount_of(existing(model), mounts))) is not None:
        seen.add("weights.filesystem", mount.fstype, f"probe:{model}")
        seen.add("weights.network", mount.fstype in NETWORK, f"probe:{model}")
    return seen


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that is there: where it would be made."""
    path = Path.cwd() / path
    while not _exists(path) and path != path.parent:
        path = path.parent
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # A folder above that may not be entered.
        return False


def mount_of(path: Path, mounts: Mapping[Path, object]) -> Path:
    """The mount point that holds a path."""
    real = Path(os.path.realpath(path))
    return next((place for place in (real, *real.parents) if place in mounts), Path("/"))
