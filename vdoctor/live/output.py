"""Writing to descriptors that others hold, too: they stay blocking, and whoever is behind them may be gone."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable

#: epoll refuses plain files, which standard input may be.
SELECTOR: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def write_all(fd: int, data: memoryview, lost: Callable[[OSError], None] | None = None) -> bool:
    """Write everything; False when the reader is gone. `lost` hears why what is left could not be written."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            # Somebody else made it so; setting it back would surprise him.
            time.sleep(0.005)
        except BrokenPipeError:
            return False
        except OSError as error:
            # A full disk, a closed descriptor: the output is lost, the child and the record go on.
            if lost is not None:
                lost(error)
            return True
    return True


def same_file(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same place (`2>&1`, or one terminal)."""
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    if os.isatty(one) and os.isatty(other):
        return first.st_rdev == second.st_rdev
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
