"""A file system whose storage is as slow as one likes, or silent: read-only, one flat folder, through /dev/fuse.

``python -m tests.slowfs SOURCE MOUNTPOINT RATE HOLD`` serves the files of SOURCE at RATE bytes a second, and answers
no read while the file HOLD exists. It needs the right to mount; the kernel's pages are real, so are the states of the
processes that wait for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
#: The version of the protocol that is spoken, of include/uapi/linux/fuse.h.
MAJOR, MINOR = 7, 31
ROOT = 1
MNT_DETACH = 2
_VALID_S = 3600


class SlowFolder:
    """Answers the kernel."""

    def __init__(self, device: int, source: Path, rate: float, hold: Path) -> None:
        self.device, self.rate, self.hold = device, rate, hold
        self.paths = [source, *sorted(path for path in source.iterdir() if path.is_file())]

    def serve(self) -> None:
        """Until the file system is gone."""
        while True:
            try:
                request = os.read(self.device, 1 << 20)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                continue
            _, opcode, unique, node = struct.unpack_from("=IIQQ", request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            try:
                self._send(unique, 0, self._answer(opcode, node, request[40:]))
            except OSError as error:
                self._send(unique, -(error.errno or errno.EIO), b"")

    def _send(self, unique: int, error: int, body: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever asked was interrupted
            os.write(self.device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)

    def _answer(self, opcode: int, node: int, body: bytes) -> bytes:
        if opcode == INIT:
            return struct.pack("=IIIIHHIIHHI28x", MAJOR, MINOR, 128 << 10, 0, 12, 9, 128 << 10, 1, 32, 0, 0)
        if opcode == LOOKUP:
            name = body.rstrip(b"\0").decode()
            found = next((at for at, path in enumerate(self.paths) if at and path.name == name), None)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, name)
            return struct.pack("=QQQQII", found + ROOT, 0, _VALID_S, _VALID_S, 0, 0) + self._attributes(found + ROOT)
        if opcode == GETATTR:
            return struct.pack("=QII", _VALID_S, 0, 0) + self._attributes(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("=QIi", node, 0, 0)
        if opcode == READ:
            return self._read(node, *struct.unpack_from("=8xQI", body))
        if opcode == READDIR:
            return self._list(*struct.unpack_from("=8xQI", body))
        if opcode == STATFS:
            return struct.pack("=5Q4I24x", 1 << 20, 0, 0, 100, 0, 4096, 255, 4096, 0)
        if opcode in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        raise OSError(errno.ENOSYS, "not here")

    def _attributes(self, node: int) -> bytes:
        path = self.paths[node - ROOT]
        known = path.stat()
        mode = (stat.S_IFDIR | 0o555) if node == ROOT else (stat.S_IFREG | 0o444)
        blocks = (known.st_size + 511) // 512
        times = (int(known.st_mtime),) * 3
        return struct.pack("=6Q10I", node, known.st_size, blocks, *times, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _read(self, node: int, offset: int, size: int) -> bytes:
        path = self.paths[node - ROOT]
        with path.open("rb") as file:
            data = os.pread(file.fileno(), size, offset)
        if path.suffix == ".safetensors":
            time.sleep(len(data) / self.rate)
            while self.hold.exists():
                time.sleep(0.1)
        return data

    def _list(self, offset: int, size: int) -> bytes:
        found = b""
        for at, path in enumerate(self.paths[1:], 1):
            name = path.name.encode()
            entry = struct.pack("=QQII", at + ROOT, at, len(name), stat.S_IFREG >> 12) + name
            entry += b"\0" * (-len(entry) % 8)
            if at > offset and len(found) + len(entry) <= size:
                found += entry
        return found


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def may_mount() -> bool:
    """Whether this process may make such a file system."""
    return Path("/dev/fuse").exists() and os.geteuid() == 0 and _mount_trial()


def _mount_trial() -> bool:
    # In a container root may lack the right: an argument that is refused for itself tells EPERM from EINVAL.
    _libc().mount(b"none", b"/proc/self/nowhere", b"fuse", 0, b"")
    return ctypes.get_errno() != errno.EPERM


@contextlib.contextmanager
def slow_folder(source: Path, mountpoint: Path, rate: float, hold: Path) -> Iterator[Path]:
    """SOURCE under ``mountpoint`` in a process of its own; unmounted at the end, whoever waits for it."""
    mountpoint.mkdir()
    command = [sys.executable, "-m", "tests.slowfs", str(source), str(mountpoint), str(rate), str(hold)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None and server.stdout.readline() == b"mounted\n"
        yield mountpoint
    finally:
        _libc().umount2(os.fsencode(mountpoint), MNT_DETACH)
        server.kill()  # open requests fail now
        server.wait()


def main(source: str, mountpoint: str, rate: str, hold: str) -> None:
    """Mount and serve."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    if _libc().mount(b"slowfs", os.fsencode(mountpoint), b"fuse", 1 | 2 | 4, options.encode()):  # ro, nosuid, nodev
        sys.exit(os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    SlowFolder(device, Path(source), float(rate), Path(hold)).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
