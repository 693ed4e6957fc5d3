"""Looks run side by side; one that fails or hangs hides nothing of the others."""

from __future__ import annotations

import threading

from vdoctor.live.probe.finding import Seen, look


def seen(name: str) -> Seen:
    found = Seen()
    found.add(name, 1, "test")
    return found


def failing() -> Seen:
    raise OSError("the bus is gone")


def test_what_fails_is_told_with_the_reason() -> None:
    whole = look({"a": lambda: seen("port"), "b": failing}, seconds=5.0)
    assert whole.facts["port"].value == 1
    assert whole.unknown == {"b": "OSError: the bus is gone"}


def test_what_hangs_is_left_behind_and_named() -> None:
    never = threading.Event()

    def hanging() -> Seen:
        never.wait(60)
        return Seen()

    late: list[list[str]] = []
    whole = look(
        {"disk": hanging, "a": lambda: seen("port")},
        seconds=0.4,
        slow=lambda names: late.append([*names]),
        patience=0.1,
    )
    never.set()
    assert "port" in whole.facts
    assert whole.unknown == {"disk": "no answer within 0.4 s"}
    assert late == [["disk"]]


def test_nobody_is_told_when_nothing_is_slow() -> None:
    late: list[object] = []
    look({"a": lambda: seen("port")}, seconds=5.0, slow=late.append)
    assert late == []
