"""How children start and end, as a shell shows it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from vdoctor.live.child import status_of

STATUSES = (0, 1, 2, 125, 126, 127, 128, 255)
SIGNALS = ("KILL", "TERM", "SEGV", "ABRT", "BUS", "PIPE", "USR1", "INT")
UNKNOWN = ("no-such-command-anywhere", "/no/such/file", "./no-such-file", "/etc/passwd/x")

Ends = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def ends(
    run_all: Callable[[Sequence[Sequence[str]]], list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> Ends:
    """Many commands under one supervisor process, one after the other."""
    folder = tmp_path_factory.mktemp("programs")
    commands = {str(n): ["sh", "-c", f"exit {n}"] for n in STATUSES}
    commands |= {name: ["sh", "-c", f"kill -{name} $$"] for name in SIGNALS}
    commands["real-time"] = ["sh", "-c", "kill -40 $$"]
    commands |= {name: [name] for name in UNKNOWN}
    commands["script"] = [_file(folder / "script", b"#!/bin/sh\n", 0o644)]
    commands["folder"] = [str(folder)]
    commands["no program"] = [_file(folder / "data", b"\x00\x01\x02", 0o755)]
    commands["too long"] = ["true", "x" * (1 << 20)]
    commands["empty"] = [""]
    commands["from PATH"] = ["sh", "-c", "exit 9"]
    return dict(zip(commands, run_all(list(commands.values())), strict=True))


def _file(path: Path, content: bytes, mode: int) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("status", STATUSES)
def test_exit_status_is_the_childs(ends: Ends, status: int) -> None:
    end = ends[str(status)]
    assert (end["status"], end["signal"], end["asked"]) == (status, None, None)


@pytest.mark.parametrize("name", SIGNALS)
def test_death_by_signal_is_128_plus_its_number(ends: Ends, name: str) -> None:
    end = ends[name]
    assert (end["status"], end["signal"]) == (128 + signal.Signals[f"SIG{name}"], f"SIG{name}")
    assert end["asked"] is None


def test_death_by_a_real_time_signal_has_a_name(ends: Ends) -> None:
    assert ends["real-time"]["status"] == 168
    assert "40" in ends["real-time"]["signal"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_command_is_127(ends: Ends, name: str) -> None:
    assert (ends[name]["status"], ends[name]["error"]) == (127, f"{name}: command not found")


@pytest.mark.parametrize("name", ["script", "folder", "no program", "too long"])
def test_what_cannot_be_executed_is_126(ends: Ends, name: str) -> None:
    assert ends[name]["status"] == 126
    assert "cannot be executed: " in ends[name]["error"]


def test_empty_command_word_cannot_be_started(ends: Ends) -> None:
    assert ends["empty"]["status"] in (126, 127)


@pytest.mark.parametrize(
    ("code", "status", "name"),
    [(0, 0, None), (3, 3, None), (-9, 137, "SIGKILL"), (-15, 143, "SIGTERM"), (-63, 191, "signal 63")],
)
def test_status_as_a_shell_shows_it(code: int, status: int, name: str | None) -> None:
    assert status_of(code) == (status, name)
