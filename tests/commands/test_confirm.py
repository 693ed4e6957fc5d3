"""vdoctor confirm: what it proves, what it leaves alone, what it leaves behind. The server is the simulated one."""

from __future__ import annotations

import contextlib
import json
import random
import shlex
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import DEADLINE, VDOCTOR, Mark, Terminal, run, start, until

SPEED = "60"
FULL = ("--gpu-memory-utilization", "0.97")


def free_port() -> int:
    """A port that nobody holds, below those that the system gives to connections: nobody takes it meanwhile."""
    while True:
        port = random.randrange(15_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Bench:
    """A folder with a `vllm` that is the simulated server, and sessions of it."""

    def __init__(self, mark: Mark, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        script = folder / "bin" / "vllm"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m vdoctor.demo.server "$@"\n')
        script.chmod(0o755)
        (folder / "tmp").mkdir()
        self.env = mark.env | {
            "PATH": f"{script.parent}:{mark.env['PATH']}",
            "VDOCTOR_DEMO_SPEED": SPEED,
            "TMPDIR": str(folder / "tmp"),
            "LANG": "C.UTF-8",
        }
        self.mark = mark

    def record(self, *options: str, trouble: str = "", command: list[str] | None = None, **env: str) -> Path:
        """The session of a failing start."""
        session = self.folder / "session"
        words = command or ["vllm", "serve", "demo/m", "--port", str(self.port), *options]
        done = run(
            [*VDOCTOR, "watch", "-q", "--session", str(session), "--", *words],
            env=self.env | {"VDOCTOR_DEMO_TROUBLE": trouble} | env,
        )
        assert done.returncode != 0, done.stdout.decode()
        return session

    def argv(self, session: Path, *options: str) -> list[str]:
        return [*VDOCTOR, "confirm", str(session), "--lang", "en", *options]

    def confirm(self, session: Path, *options: str, trouble: str = "", **env: str) -> tuple[int, dict[str, Any], str]:
        """Status, report, what was told."""
        done = run(
            [*self.argv(session, "--format", "json"), *options],
            env=self.env | {"VDOCTOR_DEMO_TROUBLE": trouble} | env,
        )
        assert self.mark.left() == []
        assert b"Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr.decode()


@pytest.fixture
def bench(mark: Mark, tmp_path: Path) -> Bench:
    return Bench(mark, tmp_path)


def verdicts(report: dict[str, Any]) -> list[str]:
    return [trial["verdict"] for trial in report["trials"]]


def test_smaller_capture_sizes_are_the_answer_and_eager_is_not(bench: Bench) -> None:
    status, report, told = bench.confirm(bench.record(*FULL), "--confirm", "auto")
    assert status == 0, told
    assert report["findings"][0]["id"] == "oom.graph-capture"
    assert report["findings"][0]["confidence"] == "confirmed"
    proof = report["proof"]
    added = [word for word in proof["after"] if word not in proof["before"]]
    assert added == ["--max-cudagraph-capture-size", "64"]
    assert verdicts(report) == ["confirmed", "same failure", "confirmed"]
    assert proof["price"] == ["Batches of more than 64 sequences run without a graph and decode more slowly."]
    assert proof["phases"][-1]["phase"] == "runtime"


def test_nothing_that_costs_is_run_without_consent(bench: Bench) -> None:
    status, report, told = bench.confirm(bench.record(*FULL))
    assert (status, report["trials"]) == (1, [])
    assert (
        f"vllm serve demo/m --port {bench.port} --gpu-memory-utilization 0.97 --max-cudagraph-capture-size 32" in told
    )
    assert "--confirm auto" in told


def test_plan_starts_nothing(bench: Bench) -> None:
    session = bench.record(*FULL)
    done = run([*bench.argv(session), "--confirm", "auto", "--dry-run"], env=bench.env)
    assert done.returncode == 0
    commands = [line.strip() for line in done.stdout.decode().splitlines() if line.strip().startswith("vllm serve")]
    assert len(commands) > 3
    assert len(set(commands)) == len(commands)
    assert not (session / "trials").exists()


def test_search_goes_on_where_it_stopped_and_repeats_nothing(bench: Bench) -> None:
    session = bench.record(*FULL)
    status, first, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    # The limit does not keep it from seeing that the unchanged command still fails.
    assert (status, verdicts(first)) == (0, ["confirmed", "same failure"])
    status, second, told = bench.confirm(session, "--confirm", "auto")
    assert (status, verdicts(second)) == (0, ["confirmed", "same failure", "confirmed"])
    assert second["trials"][0]["seconds"] == first["trials"][0]["seconds"]
    assert "was tried before" in told
    folders = sorted(path.name for path in (session / "trials").iterdir())
    status, third, _ = bench.confirm(session, "--confirm", "auto")
    assert third["proof"] == second["proof"]
    assert sorted(path.name for path in (session / "trials").iterdir()) == folders == ["001", "002", "003", "004"]


def test_failure_that_has_gone_proves_nothing(bench: Bench) -> None:
    session = bench.record(trouble="oom-always")
    status, report, told = bench.confirm(session, "--confirm", "auto")
    assert (status, report["proof"]) == (1, None)
    assert report["trials"][-1]["fix"] == "unchanged"
    assert report["trials"][-1]["verdict"] == "confirmed"
    assert "the unchanged command gets ready now" in told
    assert report["findings"][0]["confidence"] != "confirmed"


def test_oom_that_nothing_cures_ends_with_the_best_lead(bench: Bench) -> None:
    session = bench.record(trouble="oom-always")
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "4", trouble="oom-always")
    assert status == 1
    assert report["proof"] is None
    assert verdicts(report) == ["same failure"] * 4
    assert "no change was proven in 4 trials: the limit of --max-trials was reached" in told
    assert "none came further than kv_init.profile" in told
    assert report["findings"][0]["confidence"] != "confirmed"


def test_server_that_dies_after_its_first_answer_proves_nothing(bench: Bench) -> None:
    session = bench.record(*FULL)
    status, report, _ = bench.confirm(session, "--confirm", "auto", "--max-trials", "1", trouble="flapping")
    assert status == 1
    (trial,) = report["trials"]
    assert (trial["verdict"], trial["forward"]) == ("other failure", True)
    assert trial["step"].startswith("runtime.")


def test_canary_that_answers_500_proves_nothing(bench: Bench) -> None:
    session = bench.record(*FULL)
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1", trouble="canary-500")
    assert status == 1
    (trial,) = report["trials"]
    assert trial["verdict"] == "other failure"
    assert trial["reason"] == "POST /v1/completions: 500 Internal Server Error"
    assert trial["reason"] in told


def test_canary_that_hangs_is_no_proof_and_is_named(bench: Bench) -> None:
    session = bench.record(*FULL)
    limits = ("--max-trials", "1", "--trial-timeout", "6")
    status, report, told = bench.confirm(session, "--confirm", "auto", *limits, trouble="canary-hangs")
    assert status == 1
    (trial,) = report["trials"]
    assert (trial["verdict"], trial["reason"]) == ("timed out", "ready, but a completion got no answer in time")
    assert trial["reason"] in told


def test_limit_in_the_middle_of_raising_a_number_is_told(bench: Bench) -> None:
    session = bench.record(*FULL)
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0
    assert report["proof"]["after"][-1] == "32"
    assert "a larger value, was not tried to the end: the limit of --max-trials was reached" in told
    assert f"go on with: vdoctor confirm --confirm auto {session}" in told
    status, report, told = bench.confirm(session, "--confirm", "auto")
    assert report["proof"]["after"][-1] == "64"
    assert "to the end" not in told


def test_option_of_the_config_file_is_overridden_or_named_and_never_lost(bench: Bench) -> None:
    """A value in the file is beaten by an option; what only leaving out would cure is told."""
    file = bench.folder / "c.yaml"
    file.write_text(f"port: {bench.port}\nenable-metrics: true\n")
    server = bench.folder / "bin" / "vllm"
    text = server.read_text()
    error = "vllm serve: error: unrecognized arguments: --enable-metrics"
    server.write_text(
        f"#!/bin/sh\necho 'INFO 12-01 10:00:00 [__init__.py:216] vLLM API server version 0.11.2'\necho '{error}' >&2\nexit 2\n"
    )
    session = bench.record("--config", str(file))
    server.write_text(text)
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "3")
    assert status == 1
    assert f"cannot be taken out of {file} from here; take out by hand: --enable-metrics" in told, (report, told)


def test_model_that_generates_no_text_is_not_asked_for_text(bench: Bench) -> None:
    session = bench.record(*FULL)
    status, report, _ = bench.confirm(session, "--confirm", "auto", "--max-trials", "1", trouble="pooling")
    assert status == 0
    assert report["trials"][0]["reason"] == "no canary: the model does not generate text"


def test_server_that_survives_sigterm_is_gone_before_the_next_trial(bench: Bench) -> None:
    """`confirm` asserts that nothing is left."""
    session = bench.record(*FULL)
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "2", trouble="deaf")
    assert status == 0, told
    assert verdicts(report) == ["confirmed", "same failure"]


def test_speed_is_measured_on_request(bench: Bench) -> None:
    session = bench.record(*FULL)
    status, report, _ = bench.confirm(session, "--confirm", "auto", "--max-trials", "1", "--measure")
    assert status == 0
    assert report["trials"][0]["tokens_per_second"] > 0
    assert any("tokens/s" in text for text in report["proof"]["price"])


def test_port_of_a_stranger_is_left_alone(bench: Bench) -> None:
    session = bench.record(*FULL)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", bench.port))
        stranger.listen()
        status, report, told = bench.confirm(session, "--confirm", "ask")
        assert (status, report) == (2, {})
        assert f"port {bench.port} is held by" in told
        status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
        assert status == 0
        assert report["proof"]["after"].count(str(bench.port)) == 0
        # It still listens.
        socket.create_connection(("127.0.0.1", bench.port)).close()


def test_person_at_the_terminal_is_asked(bench: Bench) -> None:
    session = bench.record(*FULL)
    terminal = Terminal([*bench.argv(session), "--max-trials", "1"], env=bench.env)
    terminal.wait_for(b"[y/N] ")
    terminal.type(b"y\n")
    status, shown = terminal.finish()
    assert status == 0, shown
    assert b"proven: this command starts and answers" in shown
    terminal = Terminal([*bench.argv(bench.folder / "session"), "--fix", "lower"], env=bench.env)
    terminal.wait_for(b"[y/N] ")
    terminal.type(b"\n")
    assert terminal.finish()[0] == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_trial_leaves_nothing_and_is_made_again(bench: Bench, signum: int) -> None:
    session = bench.record(*FULL)
    env = bench.env | {"VDOCTOR_DEMO_SPEED": "1"}
    process = start([*bench.argv(session), "--confirm", "auto"], env=env)
    assert until(lambda: (session / "trials" / "001" / "log.txt").exists())
    assert until(lambda: (session / "trials" / "001" / "log.txt").stat().st_size)
    process.send_signal(signum)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert b"go on with: vdoctor confirm" in err
    assert bench.mark.left() == []
    assert not (session / "trials.jsonl").exists()
    status, report, _ = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert (status, report["trials"][0]["session"]) == (0, "trials/002")


def test_server_that_ignores_the_users_signal_is_ended_all_the_same(bench: Bench) -> None:
    session = bench.record(*FULL)
    env = bench.env | {"VDOCTOR_DEMO_SPEED": "1", "VDOCTOR_DEMO_TROUBLE": "deaf"}
    process = start([*bench.argv(session), "--confirm", "auto"], env=env)
    assert until(lambda: (session / "trials" / "001" / "log.txt").exists())
    assert until(lambda: b"vLLM API server" in (session / "trials" / "001" / "log.txt").read_bytes())
    process.terminate()
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert bench.mark.left() == []


def test_folder_that_is_no_session_is_wrong_usage(bench: Bench, tmp_path: Path) -> None:
    status, _, told = bench.confirm(tmp_path)
    assert status == 2
    assert "is no session" in told


def test_key_is_used_and_never_written_down(bench: Bench) -> None:
    session = bench.record(*FULL, "--api-key", "very-secret")
    status, _, _ = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0
    written = b"".join(path.read_bytes() for path in (session / "trials").rglob("*") if path.is_file())
    assert b"very-secret" not in written + (session / "trials.jsonl").read_bytes()


def test_watch_goes_on_to_confirm_and_keeps_the_status_of_the_command(bench: Bench) -> None:
    session = bench.folder / "session"
    command = ["vllm", "serve", "demo/m", "--port", str(bench.port), *FULL]
    argv = [*VDOCTOR, "watch", "--lang", "en", "--session", str(session), "--confirm", "auto", "--max-trials", "1"]
    done = run([*argv, "--", *command], env=bench.env)
    assert done.returncode == 1
    assert b"proven: this command starts and answers" in done.stderr
    assert b"proven" not in done.stdout
    assert bench.mark.left() == []


def test_watch_confirms_nothing_where_nothing_failed_or_nothing_is_recorded(bench: Bench) -> None:
    done = run(
        [*VDOCTOR, "watch", "--session", str(bench.folder / "s"), "--confirm", "auto", "--", "true"], env=bench.env
    )
    assert done.returncode == 0
    assert not (bench.folder / "s" / "trials").exists()
    done = run([*VDOCTOR, "watch", "--no-session", "--confirm", "auto", "--", "true"], env=bench.env)
    assert done.returncode == 125


def test_command_that_needs_root_is_not_run(bench: Bench) -> None:
    (bench.folder / "bin" / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (bench.folder / "bin" / "sudo").chmod(0o755)
    session = bench.record(command=["sudo", "vllm", "serve", "demo/m", "--port", str(bench.port), *FULL])
    done = run([*bench.argv(session), "--confirm", "auto"], env=bench.env)
    assert done.returncode == 1
    assert b"needs root" in done.stderr
    assert b"sudo vllm serve demo/m" in done.stdout
    assert not (session / "trials").exists()


def test_server_inside_a_shell_script_is_relaunched(bench: Bench) -> None:
    script = f"cd / && exec vllm serve demo/m --port {bench.port} {' '.join(FULL)}"
    session = bench.record(command=["sh", "-c", script])
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0, told
    assert report["proof"]["after"][2].startswith("cd / && exec vllm serve demo/m")
    assert report["proof"]["after"][2].endswith("--max-cudagraph-capture-size 32")


def test_file_of_kubernetes_gets_an_edit_and_nothing_is_started(bench: Bench) -> None:
    session = bench.record(*FULL)
    file = bench.folder / "pod.yaml"
    file.write_text(
        "spec:\n  containers:\n  - name: x\n    image: vllm/vllm-openai:v0.11.2\n    args: [--model, m]  # ours\n"
    )
    for source in (session, session / "log.txt"):
        done = run([*bench.argv(source), "--manifest", str(file)], env=bench.env)
        assert done.returncode == 0, done.stderr
        assert b"# ours" in done.stdout
        assert b'+    args: [--model, m, "--max-cudagraph-capture-size", "' in done.stdout
        assert b"vdoctor starts nothing" in done.stderr
    assert not (session / "trials").exists()
    patched = run(["patch", "-p1", "-d", str(bench.folder)], env=bench.env, stdin=done.stdout)
    assert patched.returncode == 0, patched.stdout
    assert "max-cudagraph-capture-size" in file.read_text()


def test_file_of_config_is_known_to_the_trials(bench: Bench) -> None:
    """The port stands in the file: the canary asks there, though the simulated server does not read it."""
    file = bench.folder / "c.yaml"
    file.write_text(f"port: {bench.port}\n")
    session = bench.record(*FULL, "--config", str(file))
    status, report, told = bench.confirm(session, "--confirm", "auto", "--max-trials", "1")
    assert status == 0, told
    assert report["trials"][0]["reason"] is None
