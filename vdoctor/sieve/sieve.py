"""Leaves out of a long serving log what cannot change the report; see `Sieve`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vdoctor.diagnose import Examination
from vdoctor.intake.splitter import LineSplitter
from vdoctor.model import Line
from vdoctor.sieve.blocks import Block, Kept
from vdoctor.sieve.kinds import Kind, Kinds
from vdoctor.sieve.needles import Check, Needles, shape
from vdoctor.sieve.periodic import Periodic
from vdoctor.sieve.wanted import Test, Tests, Wanted

#: Bytes that are sieved at once: large enough for the passes to pay, small enough to stay in a processor's cache.
BLOCK = 1 << 20
#: The first and the last part of a log are always read line by line.
HEAD, TAIL = 16 << 10, 16 << 10
#: So often the last lines of all kinds are read though nothing happened; so often at least the clock of the log is told.
_BEAT, _TICK = 1 << 30, 8 << 20
_STEP = 16 << 10
#: After so many blocks in which no unknown process served, only every so-manieth is looked at. Servers announce themselves:
#: one that begins without a word, 16 MB into a log, is noticed up to 8 MB late.
_CALM, _RARELY = 16, 8
#: So few new shapes are always judged: a server has some hundred of them.
_STRANGE = 500


class _State(NamedTuple):
    """What of the examination decides which lines mean something now."""

    clock: str | None
    start: int
    serving: frozenset[int | str | None]
    open: frozenset[tuple[str | None, tuple[str | None, str] | None]]


class Sieve:
    """Bytes to the lines that an examination must see.

    A server that is up writes millions of lines of a few shapes: requests, statistics. Whether lines of a shape can mean
    anything is decided once per shape; then they are counted, and of each kind the latest is kept back and read as soon as
    something happens, so that times and last lines come out the same. All else is read: the beginning and the end of the log,
    everything until the server is ready, whatever is no plain record below ERROR, tracebacks, and every line that a pattern of
    the rules, the facts or the timeline matches. Line numbers stay those of the whole log.

    The examination must be fed with each list before the next one is asked for: what it has seen decides.
    """

    def __init__(self, examination: Examination, *, head: int = HEAD, tail: int = TAIL, block: int = BLOCK) -> None:
        self._seen = examination
        self._reader, self._matcher, self._progress, self._stranger = examination.watched()
        self._splitter = LineSplitter()
        self._kinds: Kinds | None = None
        self._head, self._tail, self._size = head, tail, block
        self._waiting: list[bytes] = []
        self._length = 0
        self._aligned = True
        self._latest: dict[object, Kept] = {}
        self._newest: Block | None = None
        self._periodic = Periodic(examination)
        self._serving: frozenset[int | str | None] = frozenset()
        self._calm = 0
        self._at = 1
        self._since = self._ticked = 0
        #: Number of lines that were left out, and of all bytes.
        self.skipped = 0
        self.bytes = 0

    @property
    def lines(self) -> int:
        """Number of lines so far as an editor counts them."""
        return self._splitter.lines

    def feed(self, data: bytes) -> Iterator[list[Line]]:
        """Take the next bytes; gives the lines to be read, in order."""
        self.bytes += len(data)
        self._waiting.append(data)
        self._length += len(data)
        if self._length < self._size + self._tail:
            return
        cut = data.rfind(b"\n", 0, max(0, len(data) - self._tail)) + 1
        if cut:
            whole, rest = b"".join((*self._waiting[:-1], memoryview(data)[:cut])), data[cut:]
        else:
            whole = b"".join(self._waiting)
            # Without a line end there is nothing to sieve: the splitter cuts such lines.
            cut = whole.rfind(b"\n", 0, len(whole) - self._tail) + 1 or len(whole)
            whole, rest = whole[:cut], whole[cut:]
        self._waiting, self._length = [rest], len(rest)
        yield from self._block(whole)

    def close(self) -> Iterator[list[Line]]:
        """The input ended: gives what is left."""
        rest = b"".join(self._waiting)
        self._waiting, self._length = [], 0
        cut = rest.rfind(b"\n", 0, max(0, len(rest) - self._tail)) + 1
        if cut and self._at > 1:
            # A log of one block is read as a whole.
            yield from self._block(rest[:cut])
        else:
            cut = 0
        yield self._read(rest[cut:])
        yield self._splitter.close()

    # ------------------------------------------------------------------ one block

    def _block(self, data: bytes) -> Iterator[list[Line]]:
        """Whole lines, unless the first or the last one has no end yet."""
        at = 0
        while at < len(data) and not self._may_sieve():
            end = data.find(b"\n", at + min(_STEP, self._size)) + 1 or len(data)
            self._aligned = data[end - 1 : end] == b"\n"
            self._head -= end - at
            yield self._read(data[at:end])
            at = end
        if at < len(data):
            yield from self._sift(data[at:])

    def _may_sieve(self) -> bool:
        ready = self._seen.timeline.ready and self._stranger.is_sure
        return self._head <= 0 and ready and self._aligned and self._splitter.is_utf8

    def _sift(self, block: bytes) -> Iterator[list[Line]]:
        if not block.endswith(b"\n"):
            self._aligned = False
            yield self._read(block)
            return
        view = Block(block, self._at)
        self._settle(view)
        kinds = self._known(view)
        start = 0
        state: _State | None = None
        while start < view.count:
            if state != (now := self._state()):
                state, wanted = now, Wanted(view, kinds, self._tests(view, kinds, now), self._periodic.note)
            spot, end = wanted.next_run(start)
            self._leave(view, kinds, start, spot)
            if spot == end:
                break
            yield self._read(view.part(spot, end))
            start = end
            if not self._may_sieve():
                # A new start begins.
                yield self._read(view.part(start, view.count))
                return
        self._calm += 1
        if self._since > _BEAT:
            yield self._read(b"")
        elif self._since - self._ticked > _TICK:
            self._tick()

    def _known(self, view: Block) -> dict[bytes, Kind | None]:
        if self._kinds is None:
            self._kinds = Kinds(Needles(self._matcher))
        known = self._kinds
        strange = sum(text not in known for text in view.distinct)
        if strange > _STRANGE and strange * 3 > view.count:
            # Lines that never come twice: to judge one takes longer than to read it.
            return {text: known.of(text, view) if text in known else None for text in view.distinct}
        return {text: known.of(text, view) for text in view.distinct}

    def _state(self) -> _State:
        timeline = self._seen.timeline
        self._periodic.follow()
        writers = {(_name(process), place) for process, _, place in self._reader.open_writers()}
        return _State(self._reader.clock, timeline.starts, frozenset(timeline.serving()), frozenset(writers))

    def _tests(self, view: Block, kinds: dict[bytes, Kind | None], state: _State) -> Tests:
        """What to try on the lines of each shape; None: all of them must be read. Shapes that mean nothing now are left out."""
        tests: Tests = {}
        of_kind: dict[Kind, tuple[Test, ...] | None] = {}
        for text, kind in kinds.items():
            if kind is None:
                tests[text] = None
                continue
            if kind not in of_kind:
                needed = self._needed(kind, state, view)
                of_kind[kind] = None if needed else tuple(self._test(check, state) for check in kind.checks)
            if (some := of_kind[kind]) != () or kind.statistics:
                tests[text] = some
        return tests

    def _needed(self, kind: Kind, state: _State, view: Block) -> bool:
        """All lines of this kind must be read now."""
        head = kind.head
        if head.clock is not None and state.clock not in (head.clock, "arrived"):
            return True
        if not head.is_access and state.open:
            place = (head.source, head.level)
            if any(process == head.process and at in (None, place) for process, at in state.open):
                return True
        return kind.serving and not self._all_serve(head.process, state, view)

    def _all_serve(self, process: str | None, state: _State, view: Block) -> bool:
        """All processes with such a name that wrote in this block are known to serve."""
        if process is None:
            return None in state.serving
        if state.serving != self._serving:
            self._serving, self._calm = state.serving, 0
        if self._calm >= _CALM and self._calm % _RARELY:
            return True
        likely = tuple((pid, name) for pid, name in self._seen.timeline.working() if pid in state.serving)
        known = view.pids(process, likely) <= state.serving
        self._calm = self._calm if known else 0
        return known

    def _test(self, check: Check, state: _State) -> Test:
        search = check.pattern.search
        if check.kind != "rule":
            return Test(check.literal, search)
        index, saturated = check.index, self._matcher.saturated
        return Test(check.literal, lambda message: search(message) and not saturated(index, state.start))

    # ------------------------------------------------------------------ what is left out

    def _leave(self, view: Block, kinds: dict[bytes, Kind | None], start: int, end: int) -> None:
        """Leave out a stretch of lines; the latest of each kind is kept back."""
        if start == end:
            return
        self._since += len(view.data) * (end - start) // view.count
        ends: dict[object, int] = {**view.latest(kinds, start, end)}
        families = {kind.head.process if kind else "" for kind in kinds.values()}
        for pid, name in self._seen.timeline.working():
            if _name(name) not in families and "" not in families:
                continue
            found = view.rfind(b" pid=%d)" % pid, start, end)
            if found is not None:
                ends[pid] = found
        for key, at in ends.items():
            self._latest[key] = Kept(view, at)
        self.skipped += end - start
        self._at += end - start

    def _settle(self, view: Block) -> None:
        """Lines kept back long ago leave their blocks, so that these can go."""
        for key, kept in self._latest.items():
            if kept.view is not self._newest:
                self._latest[key] = kept.alone()
        if self._newest is not None:
            self._newest.forget_shapes()
        self._newest = view

    def _read(self, data: bytes) -> list[Line]:
        """The lines that were kept back, now that something happens, then those of `data`."""
        self._periodic.tell({kept.number for kept in self._latest.values()})
        lines: list[Line] = []
        # The same line may be kept under two keys.
        for number, line in sorted({(kept.number, kept.line) for kept in self._latest.values()}):
            self._splitter.skip(number - self._splitter.number)
            lines += self._splitter.feed(line + b"\n")
        self._latest.clear()
        self._since = self._ticked = 0
        self._splitter.skip(self._at - self._splitter.number)
        lines += self._splitter.feed(data)
        self._at = self._splitter.number
        return lines

    def _tick(self) -> None:
        """The clock of the log goes on though no line is read: it must not miss a year, nor a leap day."""
        self._ticked = self._since
        stamped = [kept for key, kept in self._latest.items() if isinstance(key, Kind) and key.head.clock == "own"]
        latest = max(stamped, default=None, key=lambda kept: kept.number)
        kind = next((key for key, kept in self._latest.items() if kept is latest), None)
        if latest is not None and isinstance(kind, Kind) and (stamp := kind.head.stamp(latest.line)):
            self._reader.time_of(stamp)


def _name(process: str | None) -> str | None:
    return None if process is None else shape(process.encode()).decode()
