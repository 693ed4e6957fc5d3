"""vdoctor analyze: what it reads, what it answers, what it refuses."""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
import zstandard

from tests.cases import FIXTURES
from tests.commands.conftest import FAILED, HEALTHY, Cli, Vdoctor
from tests.processes import VDOCTOR, Mark, Terminal, run, start

# answers


def test_healthy_log_gives_0(cli: Cli, healthy: Path) -> None:
    answer = cli("analyze", healthy)
    assert (answer.status, answer.err) == (0, "")
    assert "healthy" in answer.out


def test_finding_gives_1_with_its_cause_and_fix(cli: Cli, failed: Path, rules: Path) -> None:
    answer = cli("analyze", failed, "--rules", rules)
    assert (answer.status, answer.err) == (1, "")
    for text in ("failed in weight_load", "The frobnicator has 3 gears", "line 6", "--max-model-len 3"):
        assert text in answer.out


def test_json_is_one_object_for_one_log(cli: Cli, failed: Path, rules: Path) -> None:
    answer = cli("analyze", failed, "--rules", rules, "--format", "json")
    assert answer.status == 1
    assert answer.data["findings"][0]["rule"] == "model.frobnicator"
    assert answer.data["source"] == {"kind": "file", "name": str(failed), "lines": 6, "bytes": len(FAILED)}


def test_several_logs_give_a_list_in_their_order(cli: Cli, failed: Path, healthy: Path) -> None:
    answer = cli("analyze", failed, healthy, "--format", "json")
    assert answer.status == 1
    assert [one["verdict"] for one in answer.data] == ["failed", "healthy"]


def test_several_logs_are_told_apart_in_text(cli: Cli, failed: Path, healthy: Path) -> None:
    assert [line for line in cli("analyze", healthy, failed).out.splitlines() if line.startswith("==")] == [
        f"== {healthy}",
        f"== {failed}",
    ]


def test_one_of_several_that_cannot_be_read_does_not_hide_the_others(cli: Cli, failed: Path, tmp_path: Path) -> None:
    answer = cli("analyze", tmp_path / "missing.log", failed, "--format", "json")
    assert answer.status == 2
    assert "missing.log: no such file" in answer.err
    assert answer.data["verdict"] == "failed"


def test_zh_texts(cli: Cli, failed: Path, rules: Path) -> None:
    answer = cli("analyze", failed, "--rules", rules, "--lang", "zh")
    for text in ("失败", "变速器只有 3 个齿轮", "降一档。"):
        assert text in answer.out


def test_language_comes_from_the_locale(vdoctor: Vdoctor, failed: Path) -> None:
    assert "失败" in vdoctor("analyze", failed, LC_ALL="zh_CN.UTF-8").stdout.decode()


def test_verbose_shows_references_and_more(cli: Cli, failed: Path, rules: Path) -> None:
    short, long = (cli("analyze", failed, "--rules", rules, *more).out for more in ([], ["-v"]))
    assert "https://example.org/frobnicator" in long
    assert "https://example.org/frobnicator" not in short


def test_output_goes_to_a_file_in_utf_8_and_nowhere_else(cli: Cli, failed: Path, tmp_path: Path) -> None:
    answer = cli("analyze", failed, "--lang", "zh", "--output", tmp_path / "report.txt")
    assert (answer.status, answer.out, answer.err) == (1, "", "")
    assert "失败" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_output_minus_is_standard_output(cli: Cli, healthy: Path) -> None:
    assert "healthy" in cli("analyze", healthy, "--output", "-").out


def test_output_that_cannot_be_written_gives_2(cli: Cli, healthy: Path, tmp_path: Path) -> None:
    answer = cli("analyze", healthy, "--output", tmp_path / "no" / "report.txt")
    assert answer.status == 2
    assert "cannot be written" in answer.err
    assert "--output" in answer.err


def test_text_that_is_no_vllm_log_is_called_so(cli: Cli) -> None:
    answer = cli("analyze", "-", "--format", "json", stdin=b"srv  llama_model_load: error loading model\n")
    assert answer.status == 1
    assert (answer.data["verdict"], answer.data["looks_like"]) == ("not_vllm", "llama.cpp")


# what it reads


def test_standard_input(vdoctor: Vdoctor) -> None:
    done = vdoctor("analyze", "--format", "json", stdin=HEALTHY.encode())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"] == {"kind": "stdin", "name": "-", "lines": 9, "bytes": len(HEALTHY)}


def test_fifo(cli: Cli, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_text(HEALTHY))
    writer.start()
    answer = cli("analyze", fifo)
    writer.join()
    assert answer.status == 0


def test_file_behind_a_link_and_dev_stdin(cli: Cli, vdoctor: Vdoctor, healthy: Path, tmp_path: Path) -> None:
    (tmp_path / "link.log").symlink_to(healthy)
    assert cli("analyze", tmp_path / "link.log").status == 0
    assert vdoctor("analyze", "/dev/stdin", stdin=HEALTHY.encode()).returncode == 0


def _tar(data: bytes, mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        info = tarfile.TarInfo("logs/server.log")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _zip(data: bytes, method: int = zipfile.ZIP_DEFLATED, name: str = "logs/server.log") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(name, data)
    return out.getvalue()


PACKED = {
    "a.log.gz": gzip.compress(HEALTHY.encode()),
    "a.log.zst": zstandard.compress(HEALTHY.encode()),
    "a.zip": _zip(HEALTHY.encode()),
    "a.tar.gz": _tar(HEALTHY.encode(), "w:gz"),
    "a.tgz": _tar(HEALTHY.encode(), "w:gz"),
    "a.tar": _tar(HEALTHY.encode(), "w"),
    # The content decides, not the name.
    "gz-without-suffix": gzip.compress(HEALTHY.encode()),
    "plain.gz": HEALTHY.encode(),
    "two-members.gz": gzip.compress(HEALTHY[:200].encode()) + gzip.compress(HEALTHY[200:].encode()),
    "utf-16.log": HEALTHY.encode("utf-16"),
    "bom.log": b"\xef\xbb\xbf" + HEALTHY.encode(),
    "crlf.log": HEALTHY.replace("\n", "\r\n").encode(),
    "no-end.log": HEALTHY.rstrip("\n").encode(),
}


@pytest.mark.parametrize("name", PACKED)
def test_log_is_found_in_every_wrapping(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(PACKED[name])
    answer = cli("analyze", tmp_path / name, "--format", "json")
    assert (answer.status, answer.err) == (0, "")
    assert answer.data["facts"]["kv.tokens"]["value"] == 40_960


def test_folder_gives_its_logs_by_name(cli: Cli, tmp_path: Path) -> None:
    for name in ("b.log", "sub/a.txt", "a.out", "ticket.md", "notes.rst", ".hidden.log", ".git/x.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(HEALTHY)
    answer = cli("analyze", tmp_path, "--format", "json")
    names = [str(Path(one["source"]["name"]).relative_to(tmp_path)) for one in answer.data]
    assert (answer.status, names) == (0, ["a.out", "b.log", "ticket.md", "sub/a.txt"])


def test_damaged_file_in_a_folder_does_not_hide_the_others(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(HEALTHY)
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04 and nothing more")
    (tmp_path / "c.log").write_text(FAILED)
    answer = cli("analyze", tmp_path, "--format", "json")
    assert answer.status == 2
    assert "b.zip: is damaged" in answer.err
    assert [one["verdict"] for one in answer.data] == ["healthy", "failed"]


@pytest.mark.parametrize("name", ["a.log.gz", "a.log.zst"])
def test_cut_off_archive_gives_what_is_left(cli: Cli, tmp_path: Path, name: str) -> None:
    data = FAILED.encode() + b"".join(b"INFO line %d of many\n" % n for n in range(5000))
    packed = gzip.compress(data) if name.endswith("gz") else zstandard.compress(data)
    (tmp_path / name).write_bytes(packed[: len(packed) * 3 // 4])
    answer = cli("analyze", tmp_path / name, "--format", "json")
    assert answer.status in (1, 2)
    assert "fault in vdoctor" not in answer.err


# what it refuses


def refused(cli: Cli, *argv: str | Path, stdin: bytes = b"") -> str:
    """The message; status 2 and nothing on standard output."""
    answer = cli("analyze", *argv, stdin=stdin)
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.err.startswith("vdoctor: ")
    return answer.err


def test_missing_file(cli: Cli, tmp_path: Path) -> None:
    assert f"{tmp_path}/no.log: no such file or folder\n  check the path" in refused(cli, tmp_path / "no.log")


def test_dangling_link(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert "no such file" in refused(cli, tmp_path / "link")


def test_link_to_itself(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "link")
    assert "cannot be read" in refused(cli, tmp_path / "link")


def test_path_through_a_file(cli: Cli, healthy: Path) -> None:
    assert "cannot be read" in refused(cli, healthy / "x.log")


def test_name_too_long(cli: Cli) -> None:
    assert "cannot be read" in refused(cli, "x" * 300)


def test_folder_without_logs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"x")
    message = refused(cli, tmp_path)
    assert f"{tmp_path}: no logs in this folder" in message
    assert "*.log" in message


@pytest.mark.parametrize("data", [b"", b"\n\n \n", b"\xef\xbb\xbf"], ids=["nothing", "blanks", "bom"])
def test_empty_input(cli: Cli, data: bytes) -> None:
    assert "is empty" in refused(cli, "-", stdin=data)


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF\x02\x01\x01" + bytes(9000), b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, bytes(range(1, 32)) * 300],
    ids=["program", "picture", "controls"],
)
def test_binary_file(cli: Cli, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.log").write_bytes(data)
    assert "is a binary file" in refused(cli, tmp_path / "a.log")


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"])
def test_device(cli: Cli, device: str) -> None:
    assert "is a device or socket" in refused(cli, device)


def test_socket(cli: Cli, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
        assert "is a device or socket" in refused(cli, tmp_path / "socket")


DAMAGED = {
    "cut.gz": gzip.compress(HEALTHY.encode())[:12],
    "bad.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + b"\xff" * 200,
    "bad.zst": b"\x28\xb5\x2f\xfd" + b"\xff" * 200,
    "cut.zip": _zip(HEALTHY.encode())[:60],
    "bad.tar.gz": gzip.compress(b"logs/server.log".ljust(257, b"\0") + b"ustar" + b"\xff" * 400),
    "cut.tar.gz": _tar(os.urandom(40_000).hex().encode(), "w:gz")[:9000],
    "empty.zip": _zip(b"x", name="picture.png"),
    **{
        f"bad-{method}.zip": (lambda data: data[:60] + b"\xff" * 30 + data[90:])(_zip(HEALTHY.encode() * 3, method))
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    },
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archive(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name])
    message = refused(cli, tmp_path / name)
    assert f"{tmp_path / name}" in message
    assert any(word in message for word in ("is damaged", "no logs in this archive", "is empty")), message


def test_archive_with_a_password(cli: Cli, tmp_path: Path) -> None:
    data = bytearray(_zip(HEALTHY.encode()))
    # The flag "encrypted" in both headers.
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    assert "cannot be unpacked" in refused(cli, tmp_path / "a.zip")


def test_bomb(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"INFO 12-01 00:00:00 [a.py:1] x\n" + b" " * (66 << 20)))
    assert "unpacks to far more than a log" in refused(cli, tmp_path / "bomb.gz")


@pytest.mark.parametrize(
    "argv",
    [["--no-such-option"], ["--format", "xml", "-"], ["--lang", "fr", "-"], ["--output"], ["--rules"]],
    ids=lambda argv: argv[0],
)
def test_wrong_usage(cli: Cli, argv: list[str]) -> None:
    answer = cli("analyze", *argv)
    assert (answer.status, answer.out) == (2, "")
    assert "Error: " in answer.err


def test_unknown_command(cli: Cli) -> None:
    assert cli("analyse", "x.log").status == 2


RULE_FAULTS = {
    "not TOML": ("schema = = 1", "not valid TOML"),
    "unknown key": ('colour = "red"\n', "colour: unknown key\n  help: known keys: "),
    "bad regex": ("[[signal]]\nregex = 'the frobnicator ('\n", "regex: missing ), unterminated subpattern"),
    "unknown fact": ("[[when]]\nfact = 'gpu.colour'\nop = 'known'\n", "unknown fact 'gpu.colour'\n  help: known: gpu."),
}


@pytest.mark.parametrize("name", RULE_FAULTS)
def test_rule_with_an_error_names_place_reason_and_help(cli: Cli, healthy: Path, rules: Path, name: str) -> None:
    addition, expected = RULE_FAULTS[name]
    path = rules / "model" / "frobnicator.toml"
    text = path.read_text()
    path.write_text(text + "\n" + addition if addition.startswith("[[") else addition + text)
    answer = cli("analyze", healthy, "--rules", rules)
    assert (answer.status, answer.out) == (2, "")
    assert str(path) in answer.err
    assert expected in answer.err


def test_missing_folder_of_rules(cli: Cli, healthy: Path, tmp_path: Path) -> None:
    assert "no such folder of rules" in refused(cli, healthy, "--rules", tmp_path / "none")


def test_unreadable_file_and_folder(mark: Mark, healthy: Path, tmp_path: Path) -> None:
    """As somebody else, because root may read everything."""
    healthy.chmod(0)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    for path in (tmp_path, *tmp_path.parents):
        if path != Path("/") and path.stat().st_uid == os.getuid():
            path.chmod(path.stat().st_mode | 0o055)
    script = (
        "import os, sys, pkgutil, importlib, vdoctor\n"
        "for m in pkgutil.walk_packages(vdoctor.__path__, 'vdoctor.'):\n"
        "    if not m.name.endswith('__main__'): importlib.import_module(m.name)\n"
        "from vdoctor.launch import options; options.load()\n"
        "from vdoctor.store import load_rules; base = load_rules()\n"
        "import vdoctor.commands.analyze as analyze; analyze.load_rules = lambda folders: base\n"
        "os.getuid() or os.setuid(65534)\n"
        "from vdoctor.cli import main; main(['analyze', *sys.argv[1:]])\n"
    )
    done = run([sys.executable, "-c", script, str(healthy), str(closed / "x.log"), str(closed)], env=mark.env)
    assert (done.returncode, done.stdout) == (2, b""), done
    for path, reason in ((healthy, "Permission denied"), (closed / "x.log", "Permission denied"), (closed, "no logs")):
        assert re.search(f"vdoctor: {path}: .*{reason}", done.stderr.decode())
    closed.chmod(0o755)


# the streams of the caller


def test_terminal_on_standard_input_is_asked_for_a_file(mark: Mark) -> None:
    status, output = Terminal([*VDOCTOR, "analyze"], env=mark.env).finish()
    assert status == 2
    assert b"no log given" in output


def test_colour_on_a_terminal_but_not_with_no_color(mark: Mark, failed: Path) -> None:
    argv = [*VDOCTOR, "analyze", str(failed)]
    assert b"\x1b[" in Terminal(argv, env=mark.env).finish()[1]
    assert b"\x1b[" not in Terminal([*argv, "--no-color"], env=mark.env).finish()[1]
    assert b"\x1b[" not in Terminal(argv, env=mark.env | {"NO_COLOR": "1"}).finish()[1]


def test_reader_that_leaves_is_no_fault(mark: Mark, healthy: Path) -> None:
    process = start([*VDOCTOR, "analyze", "--format", "json", *[str(healthy)] * 10], env=mark.env)
    assert process.stdout is not None
    assert process.stderr is not None
    # A small pipe, so that the rest cannot be written.
    fcntl.fcntl(process.stdout.fileno(), getattr(fcntl, "F_SETPIPE_SZ", 1031), 4096)
    assert process.stdout.read1(1) == b"["
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 141


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_survived(mark: Mark, healthy: Path, closed: str) -> None:
    done = run(["sh", "-c", f'"$@" {closed}', "sh", *VDOCTOR, "analyze", str(healthy)], env=mark.env)
    assert (done.returncode, done.stderr) == (0, b"")


def test_terminal_without_unicode_gets_escapes(vdoctor: Vdoctor, failed: Path) -> None:
    text = vdoctor("analyze", failed, "--lang", "zh", PYTHONIOENCODING="ascii")
    assert text.returncode == 1
    assert b"\\u5931\\u8d25" in text.stdout
    data = vdoctor("analyze", failed, "--lang", "zh", "--format", "json", PYTHONIOENCODING="ascii")
    assert json.loads(data.stdout)["verdict"] == "failed"


def test_file_name_that_is_no_text(mark: Mark, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\xfe.log"
    Path(os.fsdecode(name)).write_text(FAILED)
    for form, output in (("text", "-"), ("json", str(tmp_path / "out"))):
        argv = [*VDOCTOR, "analyze", "--format", form, "--output", output, os.fsdecode(name), os.fsdecode(name)]
        done = subprocess.run(argv, env=mark.env, capture_output=True)
        assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads((tmp_path / "out").read_text())[0]["verdict"] == "failed"


def test_fault_in_vdoctor_itself_gives_3_and_one_line(cli: Cli, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*anything: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("vdoctor.commands.many.examine_input", broken)
    answer = cli("analyze", healthy)
    assert (answer.status, answer.out) == (3, "")
    assert "a fault in vdoctor itself: ZeroDivisionError: oh" in answer.err


def test_folder_of_sessions_reads_them_as_sessions(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(FIXTURES / "healthy" / "session-vllm-0.32.0-cold", tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-m", "vdoctor", "analyze", "--format", "json", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    assert [report["source"]["kind"] for report in json.loads(done.stdout)] == ["session", "session"]
