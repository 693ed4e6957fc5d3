"""A supervisor in a process of its own, for tests of real children."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.processes import DEADLINE, Mark, marked, run, start

HERE = Path(__file__).parent
#: A process that plays a role: `[*CHILD, "signals"]`. See family.py.
CHILD = (sys.executable, "-S", "-E", str(HERE / "family.py"))


class Supervised:
    """Starts commands under a Supervisor; `seen` holds what its observer saw of the last one."""

    def __init__(self, folder: Path, mark: Mark) -> None:
        self.mark = mark
        self._result = folder / "seen.json"
        self._options = folder / "options.json"
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *command: str, stdin: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        return run(self.argv(command, options), env=self.mark.env, stdin=stdin)

    def start(self, *command: str, **options: Any) -> subprocess.Popen[bytes]:
        """Run a command in the background."""
        self._process = start(self.argv(command, options), env=self.mark.env)
        return self._process

    def finish(self) -> tuple[int, bytes, bytes]:
        """Wait for the command in the background: status, rest of stdout, of stderr."""
        assert self._process is not None
        out, err = self._process.communicate(timeout=DEADLINE)
        return self._process.returncode, out, err

    def run_all(self, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Run commands one after the other under one process, as `confirm` does; what was seen of each."""
        run(self.argv((), {"commands": commands}), env=self.mark.env)
        found: list[dict[str, Any]] = json.loads(self._result.read_text())
        return found

    @property
    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._result.read_text())
        return found

    @property
    def record(self) -> bytes:
        """The first MiB of the bytes for the record."""
        return str(self.seen["record"]).encode("latin-1")

    def argv(self, command: Sequence[str], options: dict[str, Any]) -> list[str]:
        """The words that run a command under a Supervisor."""
        script = str(HERE / "supervised.py")
        self._options.write_text(json.dumps(options))
        return [sys.executable, script, str(self._result), str(self._options), "--", *command]


@pytest.fixture(scope="module")
def run_all(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Sequence[Sequence[str]]], list[dict[str, Any]]]]:
    """Supervised.run_all for a whole module."""
    with marked() as found:
        yield Supervised(tmp_path_factory.mktemp("supervised"), found).run_all


@pytest.fixture
def supervised(tmp_path: Path, mark: Mark) -> Supervised:
    return Supervised(tmp_path, mark)
