"""vdoctor confirm from another folder than the recorded start, and the command that it prints to go on."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.commands.test_confirm import FULL, Bench, verdicts
from tests.processes import VDOCTOR, Mark, run, start, until


@pytest.fixture
def bench(mark: Mark, tmp_path: Path) -> Bench:
    """The server dies at once where its file of --config is not there, as the real one."""
    found = Bench(mark, tmp_path)
    server = tmp_path / "bin" / "vllm"
    first, rest = server.read_text().split("\n", 1)
    server.write_text(f"{first}\n[ -f mine.yaml ] || {{ echo 'FileNotFoundError: mine.yaml' >&2; exit 1; }}\n{rest}")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.yaml").write_text("max-num-seqs: 256\n")
    return found


def record(bench: Bench, name: str) -> Path:
    words = ["vllm", "serve", "demo/m", "--port", str(bench.port), *FULL, "--config", "mine.yaml"]
    session = bench.folder / name
    done = run(
        [*VDOCTOR, "watch", "-q", "--session", str(session), "--", *words], env=bench.env, cwd=bench.folder / "there"
    )
    assert done.returncode == 1, done.stdout
    return session


@pytest.mark.parametrize("relative", [True, False])
def test_trials_run_where_the_recorded_start_ran(bench: Bench, relative: bool) -> None:
    session = record(bench, "s")
    name = session.name if relative else str(session)
    argv = [*VDOCTOR, "confirm", "--lang", "en", "--confirm", "auto", "--max-trials", "1", "--format", "json", name]
    done = run([*argv, "--output", "report.json"], env=bench.env, cwd=bench.folder)
    told = done.stderr.decode()
    assert done.returncode == 0, told
    # What is written lies where the user is.
    report = json.loads((bench.folder / "report.json").read_text())
    assert verdicts(report) == ["confirmed", "same failure"]
    assert f"trials run in {bench.folder / 'there'}" in told
    assert "is not there" not in told


def test_folder_that_has_gone_is_told(bench: Bench) -> None:
    session = record(bench, "s")
    (bench.folder / "there" / "mine.yaml").unlink()
    (bench.folder / "there").rmdir()
    done = run([*VDOCTOR, "confirm", "--lang", "en", "--dry-run", str(session)], env=bench.env, cwd=bench.folder)
    assert done.returncode == 0
    assert b"cannot be entered; trials run here" in done.stderr


def test_bundle_does_not_say_where_it_was(bench: Bench) -> None:
    session = record(bench, "s")
    file = bench.folder / "b.tar.gz"
    assert run([*VDOCTOR, "bundle", "--output", str(file), str(session)], env=bench.env).returncode == 0
    with tarfile.open(file) as archive:
        member = archive.extractfile("session/session.json")
        assert member is not None
        data = json.loads(member.read())
    assert data["command"]
    assert "cwd" not in data


def test_command_to_go_on_can_be_pasted_and_keeps_what_was_allowed(bench: Bench) -> None:
    session = record(bench, "my session")
    argv = [*VDOCTOR, "confirm", "--lang", "en", "--confirm", "auto", "--max-trials", "1", str(session)]
    told = run(argv, env=bench.env, cwd=bench.folder).stderr.decode()
    _, _, command = told.partition("go on with: ")
    command = command.splitlines()[0]
    script = bench.folder / "bin" / "vdoctor"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(VDOCTOR)} "$@"\n')
    script.chmod(0o755)
    done = run(["bash", "-c", command], env=bench.env, cwd=bench.folder)
    assert done.returncode == 0, (command, done.stderr)
    assert b"--max-cudagraph-capture-size 64" in done.stdout


def test_command_to_go_on_after_ctrl_c(bench: Bench) -> None:
    session = record(bench, "my session")
    argv = [
        *VDOCTOR,
        "confirm",
        "--lang",
        "en",
        "--confirm",
        "auto",
        "--measure",
        "--fix",
        "fewer-sizes-still",
        session.name,
    ]
    env = bench.env | {"VDOCTOR_DEMO_SPEED": "2"}
    process = start(argv, env=env, cwd=bench.folder, stderr=subprocess.PIPE)
    assert until(lambda: any((session / "trials").glob("*/log.txt")))
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    go_on = f"vdoctor confirm --confirm auto --measure --fix fewer-sizes-still '{session}'"
    assert go_on in told, told
    assert bench.mark.left() == []


def test_id_that_no_fix_has_is_answered_with_those_that_there_are(bench: Bench) -> None:
    session = record(bench, "s")
    argv = [*VDOCTOR, "confirm", "--lang", "en", "--confirm", "auto", "--fix", "smaller", str(session)]
    done = run(argv, env=bench.env, cwd=bench.folder)
    assert done.returncode == 1
    assert b"ids for --fix here: fewer-sizes-still lower eager" in done.stderr


def test_edit_of_a_file_is_what_a_trial_showed_to_work(bench: Bench) -> None:
    """The first fix is 32, which is smaller than need be."""
    session = record(bench, "s")
    file = bench.folder / "compose.yaml"
    file.write_text("services:\n  a:\n    image: vllm/vllm-openai\n    command: --model m --max-num-seqs 256\n")
    argv = [*VDOCTOR, "confirm", "--lang", "en", "--manifest", str(file), str(session)]
    before = run(argv, env=bench.env)
    assert b"--max-cudagraph-capture-size 32" in before.stdout
    assert run([*VDOCTOR, "confirm", "--confirm", "auto", str(session)], env=bench.env).returncode == 0
    after = run(argv, env=bench.env)
    assert b"--max-cudagraph-capture-size 64" in after.stdout
    assert b"What worked in a trial" in after.stderr
    assert b"price: Batches of more than 64 sequences" in after.stderr
    chosen = run([*argv, "--fix", "lower"], env=bench.env)
    assert b"--gpu-memory-utilization" in chosen.stdout


def test_speed_that_could_not_be_measured_is_told(bench: Bench) -> None:
    """The server counts no tokens in what it answers."""
    session = record(bench, "s")
    server = bench.folder / "bin" / "vllm"
    head, _, _ = server.read_text().rpartition("exec ")
    text = f"{head}exec {shlex.quote(sys.executable)} -c {shlex.quote(COUNTLESS)} "
    server.write_text(text + '"$@"\n')
    argv = [*VDOCTOR, "confirm", "--lang", "en", "--confirm", "auto", "--max-trials", "1", "--measure", str(session)]
    done = run(argv, env=bench.env)
    assert done.returncode == 0, done.stderr
    assert b"price: speed: not measured" in done.stdout


COUNTLESS = """
import sys
from vdoctor.demo import api, server
answer = api.Handler._answer
def without(self, status, body):
    if isinstance(body, dict):
        body.pop("usage", None)
    answer(self, status, body)
api.Handler._answer = without
sys.exit(server.main(sys.argv[1:]))
"""
