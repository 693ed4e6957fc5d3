"""Logs on Dask: the same findings as one by one, whatever is among them, and a run that was killed goes on."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.commands.conftest import FAILED, HEALTHY
from vdoctor.errors import UserError
from vdoctor.intake.files import inputs
from vdoctor.intake.inputs import Input
from vdoctor.launch import options as option_tables
from vdoctor.report.json import to_dict
from vdoctor.sieve.examine import examine_input
from vdoctor.store import load_rules

pytest.importorskip("distributed", reason="the extra vdoctor[fleet] is not installed")

from vdoctor.fleet import run
from vdoctor.fleet.listing import logs
from vdoctor.fleet.parts import Parts
from vdoctor.fleet.rows import COLUMNS, analyse_part

pytestmark = pytest.mark.xdist_group("fleet")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster of two local processes, shared by the tests."""
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
    ):
        yield cluster.scheduler_address


def go(paths: list[str], output: Path, **how: Any) -> Parts:
    form = how.pop("form", "jsonl")
    return run.analyse(paths, output, load_rules(), option_tables.load(), form=form, fleet=run.Fleet(**how))


def one_by_one(folder: Path) -> dict[str, Any]:
    base, options = load_rules(), option_tables.load()
    found = inputs(str(folder), sys.stdin.buffer)
    return {one.name: to_dict(examine_input(one, base, options)) for one in found}


def test_five_hundred_logs_give_the_findings_of_one_by_one(tmp_path: Path, scheduler: str) -> None:
    small = [case.log for case in cases() if len(case.log) < 6000][:25]
    folder = tmp_path / "logs"
    folder.mkdir()
    for at in range(500):
        (folder / f"{at:03}.log").write_bytes(small[at % len(small)])
    parts = go([str(folder)], tmp_path / "out", scheduler=scheduler)
    got = {row["name"]: row["report"] for row in parts.rows(["name", "report"])}
    assert len(got) == 500
    assert got == one_by_one(folder)


def test_bad_logs_stop_nothing(tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "a.log").write_text(HEALTHY)
    (tmp_path / "b.gz").write_bytes(b"\x1f\x8b and no more")
    (tmp_path / "c.log").write_bytes(bytes(9000))
    (tmp_path / "d.log").write_text(FAILED)
    (tmp_path / "e.log.gz").write_bytes(gzip.compress((FAILED + "INFO many\n" * 50_000).encode())[:-30])
    parts = go([str(tmp_path)], tmp_path / "out", scheduler=scheduler)
    rows = {Path(row["name"]).name: row for row in parts.rows(list(COLUMNS))}
    assert {name: row["status"] for name, row in rows.items()} == {
        "a.log": "ok",
        "b.gz": "unreadable",
        "c.log": "unreadable",
        "d.log": "ok",
        "e.log.gz": "ok",
    }
    assert "cut off" in rows["e.log.gz"]["message"]


def die() -> Iterator[bytes]:
    """A log on which the process that reads it is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
    yield b""


def test_log_that_kills_its_worker_is_named(tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(4):
        (tmp_path / f"{at}.log").write_text(HEALTHY)
    found = [*logs([str(tmp_path)]), Input("killer", die)]
    monkeypatch.setattr(run, "logs", lambda paths, storage: found)
    rows = list(go(["-"], tmp_path / "out", scheduler=scheduler).rows(["name", "status", "message"]))
    assert {row["status"] for row in rows if row["name"] != "killer"} == {"ok"}
    killer = next(row for row in rows if row["name"] == "killer")
    assert (len(rows), killer["status"], killer["message"]) == (5, "fault", "the process that read it died")


def test_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    folder, output = tmp_path / "logs", tmp_path / "out"
    folder.mkdir()
    for at in range(60):
        (folder / f"{at:02}.log").write_text(FAILED if at % 2 else HEALTHY)
    command = [sys.executable, "-m", "vdoctor", "fleet", str(folder), "--output", str(output), "--workers", "2"]
    process = subprocess.Popen([*command, "--part", "3"], stdout=subprocess.DEVNULL, start_new_session=True)
    for _ in range(600):
        if list(output.glob("part-*.jsonl")):
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    before = {path: path.stat().st_mtime_ns for path in output.glob("part-*.jsonl")}
    assert 0 < len(Parts(output, "jsonl").done()) < 60
    (output / "part-000099.tmp").write_text("half a li")
    done = subprocess.run([*command, "--part", "3"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("60 logs: 30 failed, 30 healthy\n") or "30 healthy, 30 failed" in done.stdout
    names = [row["name"] for row in Parts(output, "jsonl").rows(["name"])]
    assert (len(names), len(set(names))) == (60, 60)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert list(output.glob("*.tmp")) == []


def test_parquet_holds_the_rows_and_knows_what_is_done(tmp_path: Path, scheduler: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.log").write_text(FAILED)
    (tmp_path / "b.log").write_text(HEALTHY)
    go([str(tmp_path)], tmp_path / "out", scheduler=scheduler, form="parquet")
    table = parquet.read_table(tmp_path / "out" / "part-000000.parquet")
    assert table.column_names == list(COLUMNS)
    assert table.column("verdict").to_pylist() == ["failed", "healthy"]
    assert json.loads(table.column("report").to_pylist()[1])["schema"] == "vdoctor.report/1"
    (tmp_path / "c.log").write_text(HEALTHY)
    parts = go([str(tmp_path)], tmp_path / "out", scheduler=scheduler, form="parquet")
    assert len(list(parts.rows(["name"]))) == 3
    with pytest.raises(UserError, match="another form"):
        go([str(tmp_path)], tmp_path / "out", scheduler=scheduler)


def test_urls_are_read_through_fsspec(tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "a.log").write_text(FAILED)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(HEALTHY.encode()))
    (tmp_path / "c.zip").write_bytes(b"PK\x03\x04")
    parts = go([f"file://{tmp_path}/*"], tmp_path / "out", scheduler=scheduler)
    rows = {row["name"].rsplit("/", 1)[-1]: row for row in parts.rows(["name", "status", "verdict"])}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "a.log": "failed",
        "b.log.gz": "healthy",
        "c.zip": None,
    }
    assert rows["c.zip"]["status"] == "unreadable"
    assert [one.name for one in logs([f"file://{tmp_path}"])] == [
        f"file://{tmp_path}/{name}" for name in ("a.log", "b.log.gz")
    ]


def test_rows_of_faults_have_all_columns() -> None:
    def broken() -> Iterator[bytes]:
        raise ZeroDivisionError("oh")
        yield b""

    rows = analyse_part([Input("x", broken)], load_rules(), option_tables.load(), "en")
    assert [list(row) for row in rows] == [list(COLUMNS)]
    assert (rows[0]["status"], rows[0]["message"]) == ("fault", "ZeroDivisionError: oh")
