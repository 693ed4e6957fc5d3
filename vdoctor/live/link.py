"""What vdoctor and the keeper of its child tell each other: small messages over a socket pair."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

#: Kind, stream, time in seconds on the monotonic clock, number; text of that length follows where the kind has one.
_HEADER = struct.Struct("<BBdi")


class Kind(IntEnum):
    """From the keeper: STARTED to GONE; to the keeper: the rest."""

    STARTED = 1  # number: pid
    REFUSED = 2  # stream: 126 or 127; text: why
    OUTPUT = 3  # stream: 1 or 2; number: bytes in the ring
    LOST = 4  # number: bytes that were passed on while nobody took the record
    LEFT = 5  # number: processes that outlived the child
    DIED = 7  # t: when the child ended; number: its return code; its other processes are being ended
    UNWRITTEN = 8  # stream: 1 or 2; number: errno; output is lost from now on
    GONE = 6  # number: the child's return code as subprocess gives it
    FREED = 10  # number: bytes taken out of the ring
    SAY = 11  # text for standard error, whole lines
    SHOW = 12  # text of the lines below the output; empty: none
    RESIZE = 13
    END = 14  # end all processes now


_WITH_TEXT = frozenset({Kind.REFUSED, Kind.SAY, Kind.SHOW})


class Message(NamedTuple):
    """One message; which fields mean something is said at Kind."""

    kind: Kind
    stream: int = 0
    t: float = 0.0
    number: int = 0
    text: bytes = b""


class Closed(Exception):
    """The other side is gone."""


class Link:
    """One end. Sending never blocks: what does not fit waits in `waiting` bytes until `flush`."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._out = bytearray()
        self._in = bytearray()
        end.setblocking(False)
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    @property
    def waiting(self) -> int:
        """Bytes that the other side has not taken yet, beyond what the system holds for it."""
        return len(self._out)

    def send(self, message: Message) -> None:
        """Send or queue. Raises Closed."""
        number = len(message.text) if message.kind in _WITH_TEXT else message.number
        self._out += _HEADER.pack(message.kind, message.stream, message.t, number) + message.text
        self.flush()

    def flush(self) -> None:
        """Send what waits as far as the other side takes it. Raises Closed."""
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise Closed from error

    def receive(self, most: int = 1 << 30) -> Iterator[Message]:
        """The whole messages that are there, at most so many. Raises Closed at the end, after the last message."""
        ended = False
        try:
            data = self._socket.recv(1 << 18)
            ended = not data
            self._in += data
        except BlockingIOError:
            pass
        except OSError:
            ended = True
        yield from self._parsed(most)
        if ended:
            raise Closed

    def _parsed(self, most: int) -> list[Message]:
        messages: list[Message] = []
        at = 0
        while len(messages) < most and len(self._in) - at >= _HEADER.size:
            code, stream, t, number = _HEADER.unpack_from(self._in, at)
            kind = Kind(code)
            size = number if kind in _WITH_TEXT else 0
            if len(self._in) - at < _HEADER.size + size:
                break
            at += _HEADER.size + size
            messages.append(Message(kind, stream, t, number, bytes(self._in[at - size : at])))
        del self._in[:at]
        return messages

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def pair() -> tuple[Link, Link]:
    """Two ends."""
    one, other = socket.socketpair()
    return Link(one), Link(other)
