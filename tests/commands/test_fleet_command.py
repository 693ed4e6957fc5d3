"""vdoctor fleet on the command line; the cluster itself is tested in tests/fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import HEALTHY, Cli

pytest.importorskip("distributed", reason="the extra vdoctor[fleet] is not installed")


@pytest.mark.parametrize("path", ["-", "file:///no/such/folder", "nosuchprotocol://x/y", "/no/such/folder"])
def test_what_cannot_be_read_is_said_before_a_cluster_starts(cli: Cli, tmp_path: Path, path: str) -> None:
    answer = cli("fleet", path, "--output", tmp_path / "out")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("vdoctor: ")


def test_scheduler_that_does_not_answer(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_text(HEALTHY)
    monkeypatch.setattr("distributed.Client", _no_client)
    answer = cli("fleet", tmp_path, "--output", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    assert answer.status == 2
    assert "no Dask scheduler answers" in answer.err


def _no_client(*anything: Any, **more: Any) -> None:
    raise OSError("Timed out")


@pytest.mark.parametrize("storage", ["{", "[1]"])
def test_storage_options_are_a_json_object(cli: Cli, tmp_path: Path, storage: str) -> None:
    answer = cli("fleet", tmp_path, "--output", tmp_path / "out", "--storage", storage)
    assert (answer.status, answer.out) == (2, "")
    assert "--storage: not" in answer.err
