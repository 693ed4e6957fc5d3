"""Processes that stand still, each in its own way: `stuck.py WAY [FIFO]`. Says "ready" before it does."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from pathlib import Path


def waits_for_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    os.write(1, b"ready\n")
    lock.acquire()


def reads_fifo(path: str) -> None:
    os.write(1, b"ready\n")
    with Path(path).open() as fifo:
        fifo.read()


def computes_natively() -> None:
    os.write(1, b"ready\n")
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)


if __name__ == "__main__":
    {"lock": waits_for_lock, "fifo": reads_fifo, "native": computes_natively}[sys.argv[1]](*sys.argv[2:])
