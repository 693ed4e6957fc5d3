"""Tracebacks as blocks: several processes write theirs at once, each is put together on its own."""

from __future__ import annotations

import builtins
import re

from vdoctor.model import Traceback

START = re.compile(r"\s*(?:[+|] )*(?:\w[\w :]{0,40}: )?(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'[ \t]{0,40}File "(?P<file>[^"]{1,400})", line \d+(?:, in (?P<name>.{1,120}))?')
_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*|(?:[A-Za-z_]\w*\.)+\w*error)"
    r"(?::\s?(?P<message>.*))?$",
    re.DOTALL,
)
_SURE = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Unavailable|Failed)(?::|$)")
# Python prints other exceptions with their module; "Loading: done" is a line of somebody else.
_BUILTINS = frozenset(
    [name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)]
    + ["ExceptionGroup", "BaseExceptionGroup"]
)
CHAIN = re.compile(r"(?:The above exception was the direct cause|During handling of the above exception, another)")
# The lines of an exception group stand behind a ruler.
_RULER = re.compile(r"\A\s*[|+] ?")
# Ray repeats the remote traceback below this line: its own exception line follows.
_REMOTE = re.compile(r"[\w.]{0,200}Ray\w{0,60}Error\([\w.]{1,200}\): ")
# After the exception line its message may go on (pydantic, CUDA hints, compiler output): at most this long.
_MAX_TAIL = 60

# Which process a traceback without a prefix belongs to (vLLM 0.32 on): the innermost entry point says.
_OWNERS = (
    ("Worker", frozenset({"worker_main", "worker_busy_loop", "_run_worker_process"})),
    ("EngineCore", frozenset({"run_engine_core", "run_busy_loop", "run_mp_engine"})),
    ("APIServer", frozenset({"run_server", "run_server_worker", "run_multi_api_server"})),
)
_MAX_FRAMES = 400
#: So many lines of others may stand between the lines of a traceback that carries no process tag.
_MAX_STRAYS = 4
_KEEP_FIRST, _KEEP_LAST = 200, 200


class Block:
    """A traceback being put together."""

    def __init__(self, number: int, line: int, process: str | None) -> None:
        self.number = number
        self.process = process
        self.first_line = line
        self.last_line = line
        self.exception_line = line
        self.frames: list[str] = []
        self.exception = ""
        self.message = ""
        self.tail = 0
        self.grouped = False
        self._strays = 0
        self._after_frame = False

    def accept(self, line: int, text: str) -> bool:
        """Take the next line of the same writer; False when it does not belong to the block."""
        if self.grouped:
            text = _RULER.sub("", text, count=1)
        if not self.exception:
            if not self._body(text):
                self.stray()
                return False
            self.exception_line = line
        elif not self._continues(text):
            return False
        self.last_line = line
        return True

    def stray(self) -> None:
        """A line of something else came in between."""
        self._strays += 1

    @property
    def complete(self) -> bool:
        """No more lines can belong to it: its end was seen, or too much else was written."""
        return bool(self.exception) or self._strays > _MAX_STRAYS

    def freeze(self) -> Traceback:
        """The block as it stands."""
        return Traceback(
            self.number,
            self.process or owner(self.frames),
            self.first_line,
            self.last_line,
            self.exception_line,
            tuple(self.frames),
            self.exception,
            self.message,
        )

    def _body(self, text: str) -> bool:
        if frame := _FRAME.match(text):
            if len(self.frames) < _MAX_FRAMES and frame["name"]:
                self.frames.append(frame["name"].strip())
            self._after_frame = True
            return True
        # The source line below a frame; pasted logs often lost its indentation.
        source, self._after_frame = self._after_frame, False
        if not text or text[0] in " \t|+^~.)]}" or _REMOTE.match(text):
            return True
        if source and not _SURE.match(text):
            return True
        found = _EXCEPTION.match(text)
        if found is None or not ("." in found["type"] or found["type"] in _BUILTINS or _SURE.match(text)):
            return False
        if self._strays and not _SURE.match(text):
            return False
        self.exception = found["type"]
        self.message = (found["message"] or "").strip()
        return True

    def _continues(self, text: str) -> bool:
        self.tail += 1
        # In a ticket prose follows the fence.
        return self.tail <= _MAX_TAIL and not CHAIN.match(text) and not text.startswith("```")


def owner(frames: list[str]) -> str | None:
    """The process whose entry point is nearest to the failing frame; None when none is there."""
    for name in reversed(frames):
        for process, entries in _OWNERS:
            if name in entries:
                return process
    return None


class BlockAssembler:
    """Assigns lines to tracebacks. Writers are told apart by the key that the caller gives."""

    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}
        self._open: dict[object, Block] = {}
        self._count = 0

    def place(self, key: object, line: int, text: str, process: str | None) -> int | None:
        """The number of the block that this line belongs to, or None."""
        if START.match(text):
            self._count += 1
            block = Block(self._count, line, process)
            block.grouped = text.lstrip()[:1] in ("|", "+")
            self.blocks[block.number] = block
            self._forget()
            self._open[key] = block
            return block.number
        open_block = self._open.get(key)
        if open_block is None or open_block.number not in self.blocks:
            return None
        if open_block.accept(line, text):
            return open_block.number
        if open_block.complete:
            del self._open[key]
        return None

    def open_keys(self) -> list[object]:
        """The writers whose next line may still belong to a traceback."""
        return [key for key, block in self._open.items() if block.number in self.blocks]

    def _forget(self) -> None:
        """A server that logs a traceback per request for weeks: the first and the latest ones are kept."""
        old = self._count - _KEEP_LAST
        if old > _KEEP_FIRST:
            self.blocks.pop(old, None)

    def interrupt(self, key: object) -> None:
        """The writer, or another one without a tag, began something else (a record of another place)."""
        block = self._open.get(key)
        if block is not None:
            block.stray()
            if block.complete:
                del self._open[key]
