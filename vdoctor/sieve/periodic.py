"""Lines of statistics that are left out: what they say of the load is kept all the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from vdoctor.diagnose import Examination
from vdoctor.facts.progress import Load, load
from vdoctor.model import Event, Line
from vdoctor.sieve.kinds import Kind

#: So many of each engine are told: two hours of a line every ten seconds, and no reader of them looks further back.
KEPT = 720
_IDLE: Load = (None, None)


#: A line: its number, its kind, its bytes, its message. A plain tuple: there is one for each line of statistics.
_Note = tuple[int, Kind, bytes, str]


class Periodic:
    """Remembers the latest lines of each engine, and the one since which the load is what it is."""

    def __init__(self, examination: Examination) -> None:
        self._seen = examination
        self._reader, _, self._progress, _ = examination.watched()
        self._kept: dict[str, deque[_Note]] = {}
        self._load: Load = _IDLE
        self._changed: _Note | None = None

    def follow(self) -> None:
        """Nothing is left out at the moment: the load is what the examination saw last."""
        if not self._kept:
            self._load = self._progress.load

    def note(self, number: int, kind: Kind, line: bytes, message: str) -> None:
        """A line that is left out."""
        note = (number, kind, line, message)
        engine = message[:11] if message.startswith("Engine ") else ""
        kept = self._kept.get(engine)
        if kept is None:
            kept = self._kept[engine] = deque(maxlen=KEPT)
        kept.append(note)
        # The same as `load`, without a call for the commonest line.
        said = _IDLE if "prompt throughput: 0" not in message else load(message)
        if said is not None and said != self._load:
            self._load = said
            self._changed = note

    def tell(self, read: Collection[int]) -> None:
        """What was left out, to those who read nothing else of such a line; lines in `read` are read as a whole."""
        if not self._kept:
            return
        notes = {note[0]: note for kept in self._kept.values() for note in kept}
        changed = self._changed[0] if self._changed is not None else None
        if self._changed is not None and self._load != _IDLE:
            notes[self._changed[0]] = self._changed
        for number in sorted(notes):
            if number == changed:
                # Lines in between may be forgotten.
                self._progress.interrupt()
            if number not in read:
                self._seen.glance(self._event(notes[number]))
        self._kept.clear()
        self._changed = None

    def _event(self, note: _Note) -> Event:
        number, kind, line, message = note
        stamp = kind.head.stamp(line)
        if stamp is not None:
            return Event(number, "record", message, message, time=self._reader.time_of(stamp))
        return self._reader.read([Line(number, line.decode("utf-8", "replace").rstrip("\r"))])[0]
