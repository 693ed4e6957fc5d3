"""Where stuck processes stand, by the names of their functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vdoctor.model import Stack

#: Of each thread the innermost functions tell where it waits.
_FRAMES = 16
#: A wait for a file lock: the library that huggingface_hub and vLLM use, the hub's wrapper around it, the kernel's own.
_LOCK = re.compile(
    r"^\S{1,120} \((?:\S{0,200}/)?filelock/|^WeakFileLock \(|^(?:flock|fcntl) \(syscall:|^(?:flock|locks?|posix)_lock_\w{1,40} \("
)
#: A request that somebody has under way: whoever holds the lock is at work for those who wait for it.
_REQUEST = re.compile(
    r"^(?:[\w.]{1,100}\.)?(?:http_get|xet_get|_request_wrapper|get_hf_file_metadata|http_backoff|urlopen|recv_into) \("
)


def innermost(stacks: Sequence[Stack], pid: int | None) -> str:
    """Function names, innermost first, one a line: of the process `pid`, where there is no stack of it of all."""
    own = [stack for stack in stacks if stack.pid == pid] or list(stacks)
    names = (frame.partition(" ")[0] for stack in own for frame in reversed(stack.frames[-_FRAMES:]))
    return "\n".join(dict.fromkeys(names))


def file_lock(stacks: Sequence[Stack]) -> str | None:
    """The frame in which a process waits for a file lock; None where none does, or one of them is in a request.

    Of several ranks one takes the lock and downloads: the others wait for it, and the download is what hangs.
    """
    inner = [frame for stack in stacks for frame in stack.frames[-_FRAMES:]]
    if any(_REQUEST.search(frame) for frame in inner):
        return None
    return next((frame for frame in inner if _LOCK.search(frame)), None)
