"""vdoctor bundle: packed, redacted, read back to the same report."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import resource
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import FIXTURES
from tests.commands.conftest import Cli, Vdoctor
from tests.commands.sessions import oom_session, planted_session, tried_session, write_session
from tests.processes import VDOCTOR, Mark, Terminal
from tests.report.planted import LOOKALIKES, SECRETS
from vdoctor.live.session import Session
from vdoctor.model import Line

RECORDED = sorted(FIXTURES.glob("*/session-*"))


def without_uuids(part: Any) -> Any:
    """The ledger names each GPU by its UUID, which a bundle hides."""
    if not isinstance(part, dict) or "gpus" not in part:
        return part
    return part | {"gpus": [{k: v for k, v in gpu.items() if k != "uuid"} for gpu in part["gpus"]]}


def same(told: dict[str, Any], read: dict[str, Any]) -> None:
    """All that a report says, but for names that were hidden."""
    for key in ("verdict", "phase", "step", "timeline", "phases", "elapsed", "memory", "exit", "not_evaluated"):
        assert without_uuids(read[key]) == without_uuids(told[key]), key
    assert read["source"]["lines"] == told["source"]["lines"]
    keys = ("id", "rule", "severity", "confidence", "phase", "step", "symptoms")
    assert [[finding[key] for key in keys] for finding in read["findings"]] == [
        [finding[key] for key in keys] for finding in told["findings"]
    ]
    assert [[e["line"] for e in finding["evidence"]] for finding in read["findings"]] == [
        [e["line"] for e in finding["evidence"]] for finding in told["findings"]
    ]
    own = ("fix", "verdict", "seconds", "finding", "step", "forward", "session", "tokens_per_second", "latency")
    assert [[trial[key] for key in own] for trial in read["trials"]] == [
        [trial[key] for key in own] for trial in told["trials"]
    ]


@pytest.mark.parametrize("session", RECORDED, ids=lambda path: path.name)
def test_bundle_of_a_recorded_session_gives_the_same_report(cli: Cli, tmp_path: Path, session: Path) -> None:
    packed = tmp_path / "packed.tar.gz"
    answer = cli("bundle", session, "--output", packed)
    assert (answer.status, answer.out) == (0, f"{packed}\n")
    told, read = (cli("analyze", path, "--format", "json").data for path in (session, packed))
    same(told, read)
    assert read["source"]["kind"] == "session"
    hidden = [cli("analyze", path, "--format", "json", "--redact").data["findings"] for path in (session, packed)]
    assert hidden[0] == hidden[1]


def test_bundle_of_a_failed_session_gives_the_same_report(cli: Cli, tmp_path: Path) -> None:
    session = oom_session(tmp_path / "s")
    cli("bundle", session, "--output", tmp_path / "p.tar.gz")
    told, read = (cli("analyze", path, "--format", "json").data for path in (session, tmp_path / "p.tar.gz"))
    same(told, read)
    assert read["findings"][0]["id"] == "oom.graph-capture"
    with tarfile.open(tmp_path / "p.tar.gz") as archive:
        inside = archive.extractfile("session/report.json")
        assert inside is not None
        kept = json.load(inside)
    assert kept["findings"] == read["findings"]
    assert kept["timeline"] == read["timeline"]


def test_bundle_in_a_folder_of_logs_is_read_as_a_session(cli: Cli, tmp_path: Path) -> None:
    session = oom_session(tmp_path / "s")
    (tmp_path / "many").mkdir()
    cli("bundle", session, "--output", tmp_path / "many" / "p.tar.gz")
    read = cli("analyze", tmp_path / "many", "--format", "json").data
    assert read["source"]["kind"] == "session"
    assert read["memory"]["gpus"]


@pytest.mark.parametrize("make", [planted_session, tried_session])
def test_nothing_planted_is_in_the_bundle(cli: Cli, tmp_path: Path, make: Callable[[Path], Path]) -> None:
    session = make(tmp_path / "s")
    answer = cli("bundle", session, "--output", tmp_path / "p.tar.gz")
    everything = ""
    with tarfile.open(tmp_path / "p.tar.gz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            everything += file.read().decode()
    for secret, _ in SECRETS:
        assert secret not in everything
        assert secret not in answer.out + answer.err
    log = "\n".join(json.dumps(kept) for kept in LOOKALIKES)
    assert [kept for kept, _ in LOOKALIKES if kept not in everything] == [], log
    same(*(cli("analyze", path, "--format", "json").data for path in (session, tmp_path / "p.tar.gz")))


def test_trials_come_along_and_can_be_read_by_themselves(cli: Cli, tmp_path: Path) -> None:
    session = tried_session(tmp_path / "s")
    told = cli("analyze", session, "--format", "json").data
    assert [trial["verdict"] for trial in told["trials"]] == ["same failure", "confirmed"]
    assert cli("bundle", session, "--output", tmp_path / "p.tar.gz").status == 0
    read = cli("analyze", tmp_path / "p.tar.gz", "--format", "json").data
    same(told, read)
    assert read["trials"][1]["changes"]["flags"]["--max-num-seqs"] == "32"
    shown = cli("analyze", tmp_path / "p.tar.gz", "--lang", "zh").out
    assert "--max-num-seqs 32" in shown
    with tarfile.open(tmp_path / "p.tar.gz") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    for number in ("001", "002"):
        trials = [path / "trials" / number for path in (session, tmp_path / "out" / "session")]
        same(*(cli("analyze", path, "--format", "json").data for path in trials))
    # A hash of a command would let a short key in it be guessed.
    keys = [json.loads(line)["key"] for line in (tmp_path / "out/session/trials.jsonl").read_text().splitlines()]
    assert keys == ["1", "2"]


def test_links_and_pipes_in_a_session_are_not_followed(cli: Cli, tmp_path: Path) -> None:
    session = tried_session(tmp_path / "s")
    (tmp_path / "outside").mkdir()
    (session / "trials" / "003").symlink_to(session / "trials" / "001")
    (session / "case.json").unlink()
    os.mkfifo(session / "case.json")
    (session / "trials" / "001" / "samples.jsonl").unlink()
    os.mkfifo(session / "trials" / "001" / "samples.jsonl")
    assert cli("bundle", session, "--output", tmp_path / "p.tar.gz").status == 0
    with tarfile.open(tmp_path / "p.tar.gz") as archive:
        names = archive.getnames()
    assert not any("003" in name for name in names)
    assert "session/case.json" not in names


def test_bar_on_a_terminal(mark: Mark, tmp_path: Path) -> None:
    session = oom_session(tmp_path / "s")
    with (session / "log.txt").open("a") as log:
        log.write("INFO 12-01 00:00:53 [loggers.py:9] Engine 000: Running: 1 reqs, Waiting: 0 reqs\n" * 25_000)
    command = [*VDOCTOR, "bundle", str(session), "--output", str(tmp_path / "p.tar.gz")]
    status, shown = Terminal(command, env=mark.env).finish()
    assert status == 0
    assert "━".encode() in shown
    assert shown.rindex("━".encode()) < shown.index(b"p.tar.gz")


@pytest.mark.parametrize("make", [planted_session, tried_session])
def test_same_session_gives_the_same_bytes(cli: Cli, tmp_path: Path, make: Callable[[Path], Path]) -> None:
    session = make(tmp_path / "s")
    digests = set()
    for name in ("a.tar.gz", "b.tar.gz"):
        cli("bundle", session, "--output", tmp_path / name)
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == ["session/bundle.json", *sorted(names[1:])]
    assert {(member.mtime, member.uid, member.gid, member.uname, member.mode) for member in members} == {
        (0, 0, 0, "", 0o644)
    }


def test_check_counts_and_writes_nothing(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = planted_session(tmp_path / "s")
    monkeypatch.chdir(tmp_path)
    answer = cli("bundle", session, "--check-redaction")
    assert answer.status == 0
    rows = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in answer.out.splitlines()[1:]}
    assert set(rows) == {
        "secret",
        "user",
        "email",
        "host",
        "ip",
        "mac",
        "gpu-uuid",
        "model-path",
        "org",
        "model",
        "prompt",
    }
    assert rows["secret"][0] >= 30
    assert not any(secret in answer.out for secret, _ in SECRETS)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


LINES = {
    "plain": b"one\ntwo\n",
    "no end": b"one\ntwo",
    "carriage returns": b"start\na\r10 %\r20 %\r\nb\r\n\rc\n\n\nd\r",
    "empty": b"start\n\n",
    "not UTF-8": b"\xff\xfe\x00 a\xe4b\n c\n",
    "UTF-16": "eins\nzwei \u4e2d\n".encode("utf-16"),
    "long": b"x" * 100_000 + b"\ny\n",
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_lines_keep_number_text_and_time(cli: Cli, tmp_path: Path, name: str, size: int) -> None:
    """Arrival times are kept line by line, however the chunks were cut."""
    data = LINES[name]
    if len(data) > 1000 and size < 7:
        size *= 10_000
    session = write_session(tmp_path / "s", [], ["vllm", "serve", "m"], {})
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    (session / "log.txt").write_bytes(data)
    entries = [json.dumps({"t": t + 1.0, "log": len(part)}) for t, part in enumerate(parts)]
    (session / "samples.jsonl").write_text("\n".join([*entries, '{"t":99999,"exit":{"status":1}}']) + "\n")
    assert cli("bundle", session, "--output", tmp_path / "p.tar.gz").status == 0

    def shown(path: Path) -> list[Line]:
        return [seen for seen in Session(path).observations() if isinstance(seen, Line)]

    before, after = shown(session), shown(tmp_path / "p.tar.gz")
    # A carriage return right before a line end leaves an empty piece that says nothing.
    assert [line for line in after if line.text] == [line for line in before if line.text]


@pytest.mark.parametrize("what", ["folder", "file", "missing", "bundle"])
def test_what_is_no_session_is_refused(cli: Cli, tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    cli("bundle", oom_session(tmp_path / "s"), "--output", tmp_path / "bundle")
    answer = cli("bundle", tmp_path / what)
    assert answer.status == 2
    assert "is no recorded session" in answer.err


def test_archive_that_cannot_be_written_is_refused(cli: Cli, tmp_path: Path) -> None:
    answer = cli("bundle", oom_session(tmp_path / "s"), "--output", tmp_path / "no" / "p.tar.gz")
    assert answer.status == 2
    assert "cannot be written" in answer.err


def hostile(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for info, data in [(tarfile.TarInfo("session/bundle.json"), b"{}"), *members]:
            info.size = len(data) if info.isfile() else 0
            archive.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


SESSION = b'{"command":["vllm","serve","m"]}'


@pytest.mark.parametrize(
    "info",
    [
        member("session/../../escaped.txt"),
        member("../escaped.txt"),
        member("/tmp/vdoctor-escaped.txt"),
        member("session/log.txt", tarfile.SYMTYPE, "/etc/passwd"),
        member("session/log.txt", tarfile.LNKTYPE, "/etc/passwd"),
        member("session/sub/log.txt"),
        member("session/trials/../log.txt"),
        member("session/trials/001/../../../../escaped.txt"),
        member("session/trials/abc/log.txt"),
        member("session/trials/001/log.txt", tarfile.SYMTYPE, "/etc/passwd"),
        member("session/log.txt", tarfile.FIFOTYPE),
        member("session/log.txt", tarfile.CHRTYPE),
    ],
    ids=lambda info: f"{info.name}-{info.type!r}",
)
def test_tricks_in_an_archive_lead_nowhere(cli: Cli, tmp_path: Path, info: tarfile.TarInfo) -> None:
    path = hostile(tmp_path / "h.tar.gz", [(info, b"root:x\n"), (member("session/session.json"), SESSION)])
    answer = cli("analyze", path)
    assert answer.status == 2
    assert "root:" not in answer.out + answer.err
    assert not (tmp_path / "escaped.txt").exists()
    assert not Path("/tmp/vdoctor-escaped.txt").exists()


def test_bomb_in_a_bundle_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = hostile(
        tmp_path / "h.tar.gz",
        [(member("session/session.json"), SESSION), (member("session/log.txt"), bytes(200 << 20))],
    )
    answer = cli("analyze", path)
    assert answer.status == 2
    assert "unpacks to far more" in answer.err


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("bundled", [True, False])
def test_header_that_claims_to_be_huge_is_refused(cli: Cli, tmp_path: Path, kind: bytes, bundled: bool) -> None:
    """tarfile reads such a header as a whole, before it tells of the member."""
    first = b"session/bundle.json" if bundled else b"a/server.log"
    info = member("x", kind)
    info.size = 300 << 20
    with gzip.open(tmp_path / "h.tar.gz", "wb") as file:
        head = member(first.decode())
        head.size = 2
        file.write(head.tobuf(tarfile.USTAR_FORMAT) + b"{}" + bytes(510))
        file.write(info.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(300):
            file.write(bytes(1 << 20))
    answer = cli("analyze", tmp_path / "h.tar.gz")
    assert answer.status in (1, 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < (1 << 20)
    assert "damaged" in answer.err or "unpacks to far more" in answer.err or not bundled


def test_bundle_that_was_cut_off_is_refused(cli: Cli, tmp_path: Path) -> None:
    cli("bundle", oom_session(tmp_path / "s"), "--output", tmp_path / "p.tar.gz")
    data = (tmp_path / "p.tar.gz").read_bytes()
    (tmp_path / "p.tar.gz").write_bytes(data[: len(data) // 2])
    answer = cli("analyze", tmp_path / "p.tar.gz")
    assert answer.status == 2
    assert "damaged" in answer.err


def test_bundle_leaves_no_temporary_files(vdoctor: Vdoctor, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    session = oom_session(tmp_path / "s")
    assert vdoctor("bundle", session, "--output", tmp_path / "p.tar.gz", TMPDIR=str(temporary)).returncode == 0
    assert vdoctor("analyze", tmp_path / "p.tar.gz", TMPDIR=str(temporary)).returncode == 1
    assert list(temporary.iterdir()) == []
