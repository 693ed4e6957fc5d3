"""Ring and link: bytes and words between two processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.live.link import Closed, Kind, Link, Message, pair
from vdoctor.live.ring import Ring


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=40), st.integers(1, 5))
def test_what_is_written_is_taken_in_order_whatever_the_sizes(pieces: list[bytes], behind: int) -> None:
    writer = Ring(64)
    reader = Ring.__new__(Ring)
    reader.__dict__.update(writer.__dict__)
    waiting: list[tuple[int, bytes]] = []
    taken = b""

    def take() -> bytes:
        length, wanted = waiting.pop(0)
        data = reader.take(length)
        writer.freed(length)
        assert data == wanted
        return data

    for piece in pieces:
        rest = piece
        while rest:
            room = writer.room(len(rest))
            if not len(room):
                taken += take()
                continue
            room[:] = rest[: len(room)]
            waiting.append((len(room), bytes(room)))
            writer.wrote(len(room))
            rest = rest[len(room) :]
        while len(waiting) > behind:
            taken += take()
    while waiting:
        taken += take()
    assert taken == b"".join(pieces)


def test_full_ring_has_no_room() -> None:
    ring = Ring(16)
    ring.wrote(len(ring.room(100)))
    assert len(ring.room(1)) == 0
    ring.freed(5)
    assert len(ring.room(100)) == 5


MESSAGES = st.builds(
    Message, st.just(Kind.OUTPUT), st.integers(1, 2), st.floats(0, 1e9), st.integers(0, 1 << 20), st.just(b"")
) | st.builds(lambda text: Message(Kind.SAY, 0, 0.0, len(text), text), st.binary(max_size=300))


def received(link: Link) -> list[Message]:
    found = []
    try:
        for message in link.receive():
            found.append(message)
    except Closed:
        pass
    return found


@given(st.lists(MESSAGES, max_size=30))
def test_messages_arrive_as_they_were_sent(messages: list[Message]) -> None:
    one, other = pair()
    for message in messages:
        one.send(message)
    one.close()
    got: list[Message] = []
    while new := received(other):
        got += new
    other.close()
    assert got == messages


def test_sending_never_blocks_and_nothing_is_lost() -> None:
    one, other = pair()
    text = b"x" * 100_000
    for _ in range(100):
        one.send(Message(Kind.SAY, text=text))
    assert one.waiting
    got = 0
    while got < 100:
        got += len(received(other))
        one.flush()
    assert one.waiting == 0
    one.close()
    other.close()


def test_end_of_the_other_side_is_told_after_its_last_message() -> None:
    one, other = pair()
    one.send(Message(Kind.GONE, number=3))
    one.close()
    assert [message.number for message in other.receive()] == [3]
    with pytest.raises(Closed):
        list(other.receive())
    with pytest.raises(Closed):
        other.send(Message(Kind.END))
    other.close()


def test_first_message_can_be_taken_alone() -> None:
    one, other = pair()
    one.send(Message(Kind.STARTED, number=7))
    one.send(Message(Kind.OUTPUT, number=1))
    assert [message.kind for message in other.receive(1)] == [Kind.STARTED]
    assert [message.kind for message in other.receive()] == [Kind.OUTPUT]
    one.close()
    other.close()
