"""Damaged logs: each mutation is something that copying, cutting, shipping or ill will does to a log."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.attacks import noise
from tests.serving import STYLES, Server

_LONGEST = 12_000
Mutation = Callable[[random.Random, bytes, list[bytes]], bytes]


def mutated(seed: int, logs: list[bytes]) -> tuple[int, bytes]:
    """The place in `logs` of the log that was taken, and what became of it."""
    dice = random.Random(seed)
    at = dice.randrange(len(logs))
    data = logs[at]
    for _ in range(dice.randrange(1, 5)):
        data = dice.choice(MUTATIONS)(dice, data, logs)
    return at, data[: 3 * _LONGEST]


def _cut(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
    begin = dice.randrange(len(data) + 1)
    return data[begin : begin + dice.randrange(len(data) + 1)] if dice.random() < 0.5 else data[:begin]


def _lines(change: Callable[[random.Random, list[bytes]], list[bytes]]) -> Mutation:
    def mutate(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
        return b"\n".join(change(dice, data.split(b"\n")))

    return mutate


def _drop(dice: random.Random, lines: list[bytes]) -> list[bytes]:
    share = dice.random() * 0.5
    return [line for line in lines if dice.random() > share]


def _double(dice: random.Random, lines: list[bytes]) -> list[bytes]:
    return [line for line in lines for _ in range(1 + (dice.random() < 0.1) * dice.randrange(5))]


def _swap(dice: random.Random, lines: list[bytes]) -> list[bytes]:
    for _ in range(dice.randrange(1, 20)):
        a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    return lines


def _ship(dice: random.Random, lines: list[bytes]) -> list[bytes]:
    lead = dice.choice(
        [b"> ", b"vllm-1  | ", b"2025-01-02T03:04:05.678901234Z stdout F ", b"[pod/x-0/vllm] ", b"    ", b"\x1b[32m"]
    )
    return [lead + line for line in lines]


def _interleave(dice: random.Random, lines: list[bytes]) -> list[bytes]:
    other = Server(dice.randrange(99), dice.choice(list(STYLES.values())), strange=True, busy=9).text(4).split(b"\n")
    for line in other:
        lines.insert(dice.randrange(len(lines) + 1), line)
    return lines


def _insert_noise(dice: random.Random, lines: list[bytes]) -> list[bytes]:
    for _ in range(dice.randrange(1, 6)):
        text = noise(dice.randrange(1 << 30), dice.choice([30, 300, 3000])).encode()
        lines.insert(dice.randrange(len(lines) + 1), text)
    return lines


def _flip(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(len(changed) // dice.choice([20, 200, 2000])):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _splice(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
    other = dice.choice(logs)
    a, b = dice.randrange(len(data) + 1), dice.randrange(len(other) + 1)
    return data[:a] + other[b : b + _LONGEST]


def _ends(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
    return data.replace(b"\n", dice.choice([b"\r\n", b"\r", b"\n\n", b"\r\r\n", b" \n", b""]))


def _encode(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(dice.choice(["utf-16", "utf-16-be", "utf-8-sig", "latin-1", "cp037"]), "replace")


def _controls(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randrange(1, 40)):
        changed.insert(
            dice.randrange(len(changed) + 1), dice.choice(b"\x00\x07\x08\x0b\x0c\x1b\x7f\x9b\x85\xff\xe2\xf0")
        )
    return bytes(changed)


def _long(dice: random.Random, data: bytes, logs: list[bytes]) -> bytes:
    """Lines run together."""
    return data.replace(b"\n", b" ", dice.randrange(1, 40))


MUTATIONS: tuple[Mutation, ...] = (
    _cut,
    _lines(_drop),
    _lines(_double),
    _lines(_swap),
    _lines(_ship),
    _lines(_interleave),
    _lines(_insert_noise),
    _flip,
    _splice,
    _ends,
    _encode,
    _controls,
    _long,
)
