"""vdoctor dies at one certain line of its keeper's work: `orphaned.py FIRST LAST` tries each of these lines.

The keeper kills vdoctor itself before it runs its n-th line, and waits until it is an orphan: the signal of that comes
there and nowhere else. Prints the number of lines that one life of a keeper has once it was too short for n.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType
from typing import Any

from vdoctor.live import keeper
from vdoctor.live.link import Closed

#: A server that survives SIGTERM, and a child of it that does, too.
SERVER = "trap '' TERM; echo up; sh -c \"trap '' TERM; sleep 300\" & sleep 300; wait"
_FILES = ("keeper.py", "child.py", "link.py", "subprocess.py")


class Assassin:
    """Counts the lines of the keeper and kills vdoctor at one of them."""

    def __init__(self, vdoctor: int, line: int) -> None:
        self._vdoctor, self._line, self._seen = vdoctor, line, 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        """A trace function."""
        if frame.f_code.co_filename.rsplit("/", 1)[-1] not in _FILES:
            return None
        if event == "line" and os.getpid() != self._vdoctor:
            self._seen += 1
            if self._seen == self._line:
                sys.settrace(None)
                os.kill(self._vdoctor, signal.SIGKILL)
                while os.getppid() == self._vdoctor:
                    time.sleep(0.001)
                return None
        return self


def die_at(line: int) -> bool:
    """A vdoctor that is killed at this line of its keeper; False when the keeper had done its work by then."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    try:
        sys.settrace(Assassin(os.getpid(), line))
        _, link, _ = keeper.fork_keeper(keeper.start_child(["sh", "-c", SERVER], os.environ), quiet=True)
        sys.settrace(None)
        end = time.monotonic() + 0.3
        try:
            while True:
                for message in link.receive():
                    if message.kind is keeper.Kind.GONE:
                        raise Closed
                if time.monotonic() > end:
                    link.send(keeper.Message(keeper.Kind.END))
                    end += 1000
                time.sleep(0.005)
        except Closed:
            link.close()
            time.sleep(0.3)
    finally:
        os._exit(0)


def main(first: int, last: int) -> None:
    """Die at each of these lines."""
    keeper._TERM_GRACE = keeper._GRACE = 0.05  # type: ignore[misc]
    for line in range(first, last):
        if not die_at(line):
            print(line)
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
