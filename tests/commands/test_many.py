"""Many logs at once: in order, whatever is among them, over the cores as one by one."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
from pathlib import Path

import pytest

from tests.commands.conftest import FAILED, HEALTHY, Cli
from tests.processes import VDOCTOR, Mark, Terminal, start
from vdoctor.commands import many
from vdoctor.intake.inputs import Input
from vdoctor.launch import options as option_tables
from vdoctor.store import load_rules


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty logs on three machines, and what nobody can read."""
    for at in range(30):
        place = tmp_path / "logs" / f"node-{at % 3}" / f"{at:02}.log"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(FAILED if at % 5 == 0 else HEALTHY)
    (tmp_path / "logs" / "node-1" / "broken.gz").write_bytes(b"\x1f\x8b and no more")
    (tmp_path / "logs" / "node-2" / "empty.log").touch()
    return tmp_path / "logs"


def test_processes_give_what_one_gives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, options = load_rules(), option_tables.load()
    found = many.logs([str(folder), str(folder / "none")])
    one = list(many.examine_all(found, base, options))
    monkeypatch.setattr(many, "_workers", lambda found: 2)
    two = list(many.examine_all(many.logs([str(folder), str(folder / "none")]), base, options))
    assert [outcome.name for outcome in two] == [outcome.name for outcome in one]
    assert [outcome.report for outcome in two] == [outcome.report for outcome in one]
    assert [(o.error.what, o.error.hint) for o in two if o.error] == [
        (o.error.what, o.error.hint) for o in one if o.error
    ]
    assert sum(outcome.report is not None for outcome in two) == 30
    assert sum(outcome.error is not None for outcome in two) == 3


def die(*anything: object) -> None:
    """A log on which the process that reads it is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_log_that_kills_its_reader_stops_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = many.logs([str(folder / "node-0")])
    found.insert(3, Input("killer", die))  # type: ignore[arg-type]
    monkeypatch.setattr(many, "_workers", lambda found: 2)
    outcomes = list(many.examine_all(found, load_rules(), option_tables.load()))
    assert [outcome.name for outcome in outcomes] == [one.name for one in found if isinstance(one, Input)]
    dead = [outcome for outcome in outcomes if outcome.report is None]
    assert [outcome.error.what for outcome in dead if outcome.error] == ["killer: the process that read it died"]


def test_work_decides_about_processes(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    small = [Input("a", die, tmp_path / "a.log")]  # type: ignore[arg-type]
    assert many._workers(small * 20) == 1
    cores = len(os.sched_getaffinity(0))
    assert many._workers(small * 2000) == min(cores, 9)


def test_one_fault_of_vdoctor_spoils_no_other_log(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = many.examine_input

    def broken(one: Input, *rest: object) -> object:
        if one.name.endswith("03.log"):
            raise ZeroDivisionError("oh")
        return real(one, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(many, "examine_input", broken)
    answer = cli("analyze", folder, "--format", "json")
    assert (answer.status, len(answer.data)) == (3, 29)
    assert "03.log: a fault in vdoctor itself: ZeroDivisionError: oh" in answer.err


def test_several_logs_begin_with_a_summary(cli: Cli, folder: Path) -> None:
    head = cli("analyze", folder).out.partition("==")[0].split("\n")
    assert head[0] == "30 logs: 24 healthy, 6 failed"
    rows = [line.split() for line in head]
    assert ["24", "healthy"] in rows
    assert ["30", "0.11.0"] in rows
    assert ["10", "node-0"] in rows


def test_summary_names_the_host_of_the_log(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        "".join(f"Jan 02 03:04:05 gpu-7 vllm[12]: {line}\n" for line in HEALTHY.splitlines())
    )
    (tmp_path / "b.log").write_text("".join(f"[pod/vllm-0/vllm] {line}\n" for line in HEALTHY.splitlines()))
    answer = cli("analyze", tmp_path)
    assert "     1  gpu-7\n" in answer.out
    assert "     1  vllm-0\n" in answer.out
    assert "2 份日志" in cli("analyze", tmp_path, "--lang", "zh").out


def test_one_log_has_no_summary(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(HEALTHY)
    assert "logs:" not in cli("analyze", tmp_path).out


def test_json_lines_are_the_reports_of_the_list(cli: Cli, folder: Path, tmp_path: Path) -> None:
    answer = cli("analyze", folder, "--jsonl", "--output", tmp_path / "out.jsonl")
    assert (answer.status, answer.out) == (2, "")
    reports = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert reports == cli("analyze", folder, "--format", "json").data


def test_json_lines_come_while_the_rest_is_still_read(mark: Mark, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(FAILED)
    os.mkfifo(tmp_path / "b")
    # Somebody who may write, and does not.
    writer = os.open(tmp_path / "b", os.O_RDWR)
    process = start([*VDOCTOR, "analyze", "--jsonl", str(tmp_path / "a.log"), str(tmp_path / "b")], env=mark.env)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["verdict"] == "failed"
    os.write(writer, HEALTHY.encode())
    process.kill()
    process.wait(60)
    os.close(writer)


def test_bar_on_a_terminal(mark: Mark, folder: Path) -> None:
    shown = Terminal(
        [*VDOCTOR, "analyze", "--format", "json", "--output", os.devnull, str(folder)], env=mark.env
    ).finish()[1]
    assert b"/32" in shown


def test_truncated_gz_says_so(cli: Cli, tmp_path: Path) -> None:
    whole = gzip.compress(FAILED.encode() + b"".join(b"INFO %d of many\n" % n for n in range(9000)))
    (tmp_path / "a.log.gz").write_bytes(whole[: len(whole) // 2])
    answer = cli("analyze", tmp_path / "a.log.gz", "--format", "json")
    assert answer.data["verdict"] == "failed"
    assert "a.log.gz: is damaged or cut off: only its first" in answer.err


def test_gz_inside_of_an_archive_is_read(cli: Cli, tmp_path: Path) -> None:
    import tarfile

    data = gzip.compress(FAILED.encode())
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("../../etc/a.log.gz", "/abs/b.log.gz", "inner.tar.gz", "c.zip"):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("d.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        pipe = tarfile.TarInfo("e.log")
        pipe.type = tarfile.FIFOTYPE
        archive.addfile(pipe)
    before = sorted(tmp_path.parent.rglob("*"))
    answer = cli("analyze", tmp_path / "a.tar", "--format", "json")
    assert [one["verdict"] for one in answer.data] == ["failed", "failed"]
    assert sorted(tmp_path.parent.rglob("*")) == before
