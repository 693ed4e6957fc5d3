"""Files that have no end, are no files, or hold far more than they should, for every command that reads some."""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.commands.conftest import FAILED, Cli, Vdoctor
from tests.commands.sessions import oom_session, tried_session
from tests.report.hostile import TEXTS
from tests.report.test_html import check as check_page
from tests.report.test_markdown import check

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _pipe(place: Path) -> None:
    os.mkfifo(place)


def _device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def _large(place: Path) -> None:
    place.touch()
    os.truncate(place, 400 << 20)


def _loop(place: Path) -> None:
    place.symlink_to(place)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "log.txt").write_text(FAILED)
    oom_session(tmp_path / "s")
    return tmp_path


COMMANDS = {
    "GPU log": ("x.csv", ["analyze", "{tree}/log.txt", "--gpu-log", "{tree}/x.csv"]),
    "rule": ("rules/fam/a.toml", ["analyze", "{tree}/log.txt", "--rules", "{tree}/rules"]),
    "lint": ("a.toml", ["rules", "lint", "{tree}/a.toml"]),
    "lint of a folder": ("rules/fam/a.toml", ["rules", "lint", "{tree}/rules"]),
    "draft": ("x.log", ["rules", "new", "oom.mine", "--from-log", "{tree}/x.log:1", "--dir", "{tree}/out"]),
    "manifest": ("x.yaml", ["confirm", "{tree}/s", "--manifest", "{tree}/x.yaml"]),
    "model": ("m/config.json", ["estimate", "{tree}/m"]),
    "log of a model": ("m/config.json", ["check", "--", "vllm", "serve", "{tree}/m"]),
    "config": ("x.yaml", ["check", "--", "vllm", "serve", "m", "--config", "{tree}/x.yaml"]),
    "description": ("t/session.json", ["analyze", "{tree}/t"]),
}


@pytest.mark.parametrize("kind", [_device, _large, _loop, _pipe], ids=lambda kind: kind.__name__.strip("_"))
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_file_is_told_and_never_waited_for(vdoctor: Vdoctor, tree: Path, name: str, kind: object) -> None:
    if name == "GPU log" and kind is _pipe:
        pytest.skip("a recording may come through a pipe, and is waited for like a log")
    file, words = COMMANDS[name]
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    kind(tree / file)  # type: ignore[operator]
    if name == "description":
        (tree / "t" / "log.txt").write_text(FAILED)
    done = vdoctor(words[0], *(word.format(tree=tree) for word in words[1:]))
    assert done.returncode in ((0, 1, 2) if words[0] in ("check", "analyze") else (1, 2))
    assert b"a fault in vdoctor itself" not in done.stderr
    if words[0] not in ("check",) and name != "description":
        assert done.stderr.startswith(b"vdoctor: ") or b"cannot be read" in done.stderr or b"is " in done.stderr


def test_pipe_with_a_recording_is_read(vdoctor: Vdoctor, tree: Path) -> None:
    rows = "timestamp, index, memory.used [MiB], memory.total [MiB]\n2025/12/01 00:00:05.000, 0, 100 MiB, 81559 MiB\n"
    done = vdoctor("analyze", tree / "log.txt", "--gpu-log", "/dev/stdin", stdin=rows.encode())
    assert done.returncode == 1


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_line_of_200_MB_is_read_in_little_memory(vdoctor: Vdoctor, tmp_path: Path, form: str) -> None:
    piece = b"ab/c 1.2.3.4 hf_x key=model: " * 40_000
    with (tmp_path / "log.txt").open("wb") as file:
        for _ in range(200_000_000 // len(piece)):
            file.write(piece)
        file.write(b"\n" + FAILED.encode())
    done = vdoctor("analyze", tmp_path / "log.txt", "--format", form)
    assert done.returncode == 1
    assert len(done.stdout) < 2_000_000


def test_endless_lines_in_a_recording_are_left_out(vdoctor: Vdoctor, tree: Path) -> None:
    with (tree / "s" / "samples.jsonl").open("a") as file:
        file.write('{"t":54,"x":"' + "y" * (40 << 20) + '"}\n{"t":55,"gpus":[]}\n')
    before = vdoctor("analyze", tree / "s", "--format", "json")
    assert before.returncode == 1
    assert json.loads(before.stdout)["exit"]["status"] == 1


@pytest.mark.parametrize("command", ["analyze", "compare", "fleet"])
def test_archives_in_archives_and_bombs(vdoctor: Vdoctor, tmp_path: Path, command: str) -> None:
    bomb = gzip.compress(bytes(80 << 20))
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", bytes(80 << 20))
    (tmp_path / "many").mkdir()
    with tarfile.open(tmp_path / "many" / "nested.tar.gz", "w:gz") as outer:
        for name, data in (
            ("b.log.gz", gzip.compress(bomb)),
            ("c.log", inner.getvalue()),
            ("../../d.log", FAILED.encode()),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            outer.addfile(info, io.BytesIO(data))
    (tmp_path / "many" / "bomb.log.gz").write_bytes(bomb)
    (tmp_path / "many" / "zip.zip").write_bytes(inner.getvalue())
    (tmp_path / "many" / "pipe.log").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "many" / "fifo.log")
    if command == "fleet":
        pytest.importorskip("distributed")
        done = vdoctor("fleet", tmp_path / "many", "--output", tmp_path / "out", "--workers", "1")
    elif command == "compare":
        done = vdoctor("compare", tmp_path / "many" / "bomb.log.gz", tmp_path / "many" / "zip.zip")
    else:
        done = vdoctor("analyze", tmp_path / "many", "--format", "json")
        reports = json.loads(done.stdout)
        names = [one["source"]["name"] for one in (reports if isinstance(reports, list) else [reports])]
        assert any(name.endswith("../../d.log") for name in names)
    assert done.returncode == 2
    assert b"fault in vdoctor" not in done.stderr
    assert not (tmp_path.parent / "d.log").exists()


@pytest.mark.parametrize("command", ["rules", "estimate", "confirm"])
def test_hostile_text_in_files_never_reaches_the_terminal(vdoctor: Vdoctor, tree: Path, command: str) -> None:
    for number, text in enumerate(TEXTS):
        evil = text.encode("utf-8", "replace").decode()
        if command == "rules":
            (tree / "a.toml").write_text(
                f"schema = 1\nid = {json.dumps(evil)}\nstatus = {json.dumps(evil)}\n[[signal]]\nregex = {json.dumps(evil)}\n"
            )
            done = vdoctor("rules", "lint", tree / "a.toml")
        elif command == "estimate":
            (tree / "m").mkdir(exist_ok=True)
            (tree / "m" / "config.json").write_text(
                json.dumps({"model_type": evil, "architectures": [evil], "num_hidden_layers": 2, "hidden_size": 64,
                            "num_attention_heads": 4, "vocab_size": 100, "quantization_config": {"quant_method": evil}, "layer_types": [evil, evil]})
            )  # fmt: skip
            done = vdoctor("estimate", tree / "m")
        else:
            session = json.loads((tree / "s" / "session.json").read_text())
            session["command"] = ["vllm", "serve", evil, "--x", evil]
            (tree / "s" / "session.json").write_text(json.dumps(session))
            done = vdoctor("confirm", tree / "s", "--dry-run")
        assert not CONTROLS.search((done.stdout + done.stderr).decode().replace("\r\n", "\n")), (number, done)
        assert b"fault in vdoctor" not in done.stderr


def _spoilt(folder: Path, text: str) -> Path:
    """A session with trials in which every text that somebody may have written is hostile."""
    tried_session(folder)
    for place in (folder, folder / "trials" / "001"):
        data = json.loads((place / "session.json").read_text())
        data["command"] = ["vllm", "serve", text, "--served-model-name", text, "--api-key", text]
        data["env"] = {"HF_HOME": text, "X": text}
        data["facts"] = {"vllm.version": {"value": text, "source": text}, "gpu.name": {"value": text, "source": "x"}}
        (place / "session.json").write_text(json.dumps(data))
        (place / "case.json").write_text(json.dumps({"id": text, "note": text}))
        log = (place / "log.txt").read_text()
        shown = text.encode("utf-8", "replace").decode().replace("\n", " ")
        (place / "log.txt").write_text(log.replace("512.00 MiB is free.", f"512.00 MiB is free. {shown}"))
    samples = (folder / "samples.jsonl").read_text().replace('"NVIDIA H100 80GB HBM3"', json.dumps(text))
    (folder / "samples.jsonl").write_text(samples.replace('"signal": null', f'"signal": {json.dumps(text)}'))
    entry = json.loads((folder / "trials.jsonl").read_text().splitlines()[0])
    entry |= {"command": text, "fix": text, "finding": text, "reason": {"en": text, "zh": text}}
    entry["changes"]["flags"] = {"--x": text, text: "1"}
    (folder / "trials.jsonl").write_text(json.dumps(entry) + "\n")
    return folder


@pytest.mark.parametrize("text", [" ".join(TEXTS[at::4]) for at in range(4)], ids=range(4))
def test_hostile_session_is_text_in_every_form(cli: Cli, tmp_path: Path, text: str) -> None:
    session = _spoilt(tmp_path / "s", text)
    packed = tmp_path / "p.tar.gz"
    answer = cli("bundle", session, "--output", packed)
    assert answer.status == 0
    assert not CONTROLS.search(answer.out + answer.err)
    answer = cli("confirm", session, "--dry-run")
    assert answer.status in (0, 1)
    assert not CONTROLS.search(answer.out + answer.err)
    for command in (["analyze", session], ["compare", session, packed]):
        for form in ("text", "json", "markdown", "html"):
            for redact in ("--redact", "--no-redact"):
                answer = cli(*command, "--format", form, redact)
                assert answer.status in (0, 1), answer.err
                assert not CONTROLS.search(answer.out + answer.err), (command[0], form)
                if form == "html":
                    check_page(answer.out)
                if form == "markdown":
                    check(answer.out)


def test_only_the_streams_print() -> None:
    """What a command prints goes through `show` and `tell`, which leave nothing that a terminal would obey."""
    for path in sorted((Path(__file__).parent.parent.parent / "vdoctor" / "commands").glob("*.py")):
        if path.name in ("streams.py", "demo.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called not in ("print", "sys.stdout.write", "sys.stderr.write"), f"{path.name}:{node.lineno}"  # type: ignore[attr-defined]
