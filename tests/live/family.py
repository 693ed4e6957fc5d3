"""Children that misbehave on purpose: `family.py ROLE [ARGUMENT...]`. Standard library only, starts in milliseconds."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

LONG = 600.0
WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def signals() -> None:
    """A parent and a child in one process group, each tells once of every signal that it gets."""
    reader, writer = os.pipe()
    child = os.fork()
    name = "parent" if child else "child"

    def tell(signum: int, frame: object) -> None:
        say(f"{name} {signal.Signals(signum).name}")
        os._exit(7 if child else 0)

    for signum in WATCHED:
        signal.signal(signum, tell)
    if not child:
        os.write(writer, b".")
        time.sleep(LONG)
    os.read(reader, 1)
    say("ready")
    while True:
        time.sleep(LONG)


def count(signum_name: str) -> None:
    """Says how often a signal came within half a second after the first one."""
    number = 0

    def tell(signum: int, frame: object) -> None:
        nonlocal number
        number += 1

    signal.signal(signal.Signals[signum_name], tell)
    say("ready")
    # pause() would sleep for ever when the signal comes just before it.
    while not number:
        time.sleep(0.01)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        time.sleep(0.05)
    say(f"came {number} times")


def stubborn() -> None:
    """Leaves a child behind that ignores SIGTERM."""
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("stubborn")
        time.sleep(LONG)
    time.sleep(0.2)


def daemon() -> None:
    """Leaves a daemon behind: own session, adopted by whoever adopts orphans."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writer, b".")
            os.close(writer)
            time.sleep(LONG)
        os._exit(0)
    os.read(reader, 1)
    say("daemon started")


def stopped() -> None:
    """Leaves a stopped child behind: it cannot react to SIGTERM."""
    child = os.fork()
    if child == 0:
        time.sleep(LONG)
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)


def chatter() -> None:
    """Leaves a child behind that never stops writing and ignores SIGTERM and closed pipes."""
    if os.fork() == 0:
        for signum in (signal.SIGTERM, signal.SIGPIPE):
            signal.signal(signum, signal.SIG_IGN)
        while True:
            try:
                os.write(1, b"chatter\n" * 1000)
            except OSError:
                time.sleep(0.01)
    time.sleep(0.1)


def refuses() -> None:
    """Does not end on SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("ready")
    time.sleep(LONG)


def deaf() -> None:
    """Ends on no signal that can be ignored."""
    for signum in WATCHED:
        signal.signal(signum, signal.SIG_IGN)
    say("ready")
    time.sleep(LONG)


def clan() -> None:
    """A tree of all kinds: children, a grandchild, a daemon in its own session, one that ignores SIGTERM."""
    for kind in ("plain", "deaf", "daemon"):
        if os.fork() == 0:
            if kind == "daemon":
                os.setsid()
                if os.fork():
                    os._exit(0)
            if kind == "deaf":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                if os.fork() == 0:
                    time.sleep(LONG)
            time.sleep(LONG)
    say("ready")
    while True:
        say("line")
        time.sleep(0.002)


def late() -> None:
    """Ends at once, with much in a large pipe that nobody has read yet."""
    fcntl.fcntl(1, getattr(fcntl, "F_SETPIPE_SZ", 1031), 1 << 20)
    os.write(1, b"0123456789abcde\n" * 60_000)


def numbers(target: str, count_text: str, name: str) -> None:
    """Numbered lines on one stream, with flushes in the middle of lines."""
    for number in range(int(count_text)):
        line = f"{name} {number}\n".encode()
        os.write(int(target), line[:3])
        os.write(int(target), line[3:])


def both(count_text: str) -> None:
    """Two processes that write numbered lines, one on each stream, at once."""
    child = os.fork()
    numbers("1" if child else "2", count_text, "out" if child else "err")
    if child:
        os.waitpid(child, 0)


def megabytes(count_text: str) -> None:
    """Many MiB of lines, every MiB different."""
    for number in range(int(count_text)):
        block = (b"%08d " % number + b"x" * 54 + b"\n") * (1 << 14)
        view = memoryview(block)
        while view:
            view = view[os.write(1, view) :]


def terminal() -> None:
    """What the outputs are, and colours."""
    for fd in (0, 1, 2):
        size = f" {os.get_terminal_size(fd).columns}x{os.get_terminal_size(fd).lines}" if os.isatty(fd) else ""
        say(f"fd {fd}: {'terminal' if os.isatty(fd) else 'other'}{size}")
    os.write(1, b"\x1b[31mred\x1b[0m \x1b[1;36m(EngineCore_DP0 pid=7)\x1b[0;0m\n")
    os.write(2, b"\rbar  10%|#   | 1/10\rbar 100%|####| 10/10\n")


def resized() -> None:
    """Tells the new size of its window."""

    def tell(signum: int, frame: object) -> None:
        say(f"now {os.get_terminal_size(1).columns}x{os.get_terminal_size(1).lines}")
        os._exit(0)

    signal.signal(signal.SIGWINCH, tell)
    say(f"ready {os.get_terminal_size(1).columns}x{os.get_terminal_size(1).lines}")
    while True:
        time.sleep(LONG)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
