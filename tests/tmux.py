"""A real terminal that can be looked at: tmux."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import Mark

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A tmux server of its own; `screen` is what a person would see."""

    def __init__(self, folder: Path, mark: Mark) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]
        self._env = mark.env

    def start(self, *argv: str) -> None:
        """A window of 100 columns and 30 rows in which a command runs; it stays open after its end."""
        self._run("new-session", "-d", "-x", "100", "-y", "30", ";", "set", "-g", "remain-on-exit", "on")
        shell = ("sh", "-c", '"$@"; echo "status $?"', "sh")
        self._run("respawn-window", "-k", "-c", str(Path.cwd()), *shell, *argv)

    def screen(self, *options: str) -> str:
        """The text on the screen and what was scrolled out of it, blank lines dropped."""
        text = self._run("capture-pane", "-p", "-S", "-", *options)
        return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

    def press(self, key: str) -> None:
        """A key, as tmux names it (`C-z`)."""
        self._run("send-keys", key)

    def stop(self) -> None:
        """End the server and all in it."""
        self._run("kill-server")

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], env=self._env, capture_output=True, text=True, timeout=30)
        return done.stdout

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._run("resize-window", "-x", str(columns), "-y", str(rows))
