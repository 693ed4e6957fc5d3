"""vdoctor watch: statuses, what goes where, the recorded session."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import FAILED, HEALTHY, Cli, Vdoctor
from tests.processes import DEADLINE, VDOCTOR, Mark, default_signals, hold, read_until, run, start, until


def shell(script: str) -> list[str]:
    return ["--", "sh", "-c", script]


# statuses


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_exit_status_is_the_childs(vdoctor: Vdoctor, script: str, status: int) -> None:
    assert vdoctor("watch", "-q", "--no-session", *shell(script)).returncode == status


def test_command_that_does_not_exist_gives_127_and_says_so(vdoctor: Vdoctor, tmp_path: Path) -> None:
    done = vdoctor("watch", "--session", tmp_path / "s", "--", "no-such-command", "--port", "1")
    assert (done.returncode, done.stdout, done.stderr) == (127, b"", b"vdoctor: no-such-command: command not found\n")
    assert json.loads((tmp_path / "s" / "case.json").read_text())["kind"] == "crash"


def test_command_that_cannot_be_executed_gives_126(vdoctor: Vdoctor, tmp_path: Path) -> None:
    done = vdoctor("watch", "--no-session", "--", tmp_path)
    assert done.returncode == 126
    assert b"cannot be executed: Permission denied" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--no-such-option", "--", "true"],
        ["--interval", "0", "--", "true"],
        ["--format", "xml", "--", "true"],
        ["--rules", "/no/such/folder", "--", "true"],
        ["--output", "/no/such/folder/x", "--", "true"],
        ["--session", "/dev/null/x", "--", "true"],
        ["--"],
        [],
    ],
    ids=" ".join,
)
def test_wrong_usage_gives_125_before_anything_starts(cli: Cli, options: list[str], tmp_path: Path) -> None:
    """As `docker run` and `timeout` do: no status that the command could have."""
    started = tmp_path / "started"
    answer = cli("watch", *[str(started) if word == "true" else word for word in options])
    assert (answer.status, answer.out) == (125, "")
    assert answer.err


def test_two_dashes_may_be_left_out(vdoctor: Vdoctor) -> None:
    done = vdoctor("watch", "-q", "--no-session", "sh", "-c", 'echo "$@"', "sh", "--port", "1", "-q", "--", "-v")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"--port 1 -q -- -v\n", b"")


# streams


def test_output_passes_and_the_report_goes_to_standard_error(vdoctor: Vdoctor, failed: Path, rules: Path) -> None:
    done = vdoctor("watch", "--no-session", "--rules", rules, *shell(f"cat '{failed}'; echo err >&2; exit 1"))
    assert (done.returncode, done.stdout) == (1, FAILED.encode())
    shown = done.stderr.decode()
    for text in ("err\n", "failed in weight_load", "The frobnicator has 3 gears", "exit status 1"):
        assert text in shown


def test_quiet_adds_nothing(vdoctor: Vdoctor, failed: Path, tmp_path: Path) -> None:
    script = shell(f"cat '{failed}'; echo err >&2; exit 1")
    done = vdoctor("watch", "-q", "--session", tmp_path / "s", *script)
    assert (done.stdout, done.stderr) == (FAILED.encode(), b"err\n")


def test_phases_are_told_once_each_where_no_terminal_is(mark: Mark, healthy: Path, tmp_path: Path) -> None:
    script = f"sed -n 1,3p '{healthy}'; {hold(tmp_path / 'one')}; sed -n 4,6p '{healthy}'; {hold(tmp_path / 'two')}"
    process = start([*VDOCTOR, "watch", "--no-session", *shell(script)], env=mark.env)
    assert process.stderr is not None
    told = read_until(process.stderr.fileno(), b"weight_load")
    (tmp_path / "one").touch()
    told += read_until(process.stderr.fileno(), b"kv_init")
    (tmp_path / "two").touch()
    out, rest = process.communicate(timeout=DEADLINE)
    assert out.decode().splitlines() == HEALTHY.splitlines()[:6]
    lines = [line for line in (told + rest).decode().splitlines() if line.startswith("vdoctor: ")]
    assert [line.split()[3] for line in lines] == ["weight_load", "kv_init"]


def test_json_report_in_a_file_leaves_standard_error_alone(vdoctor: Vdoctor, failed: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    script = shell(f"cat '{failed}'; exit 1")
    done = vdoctor("watch", "--no-session", "--format", "json", "--output", out, *script)
    assert (done.returncode, done.stdout) == (1, FAILED.encode())
    assert b"{" not in done.stderr
    report = json.loads(out.read_text())
    assert report["source"]["kind"] == "live"
    assert report["exit"] == {"status": 1, "signal": None, "asked": None}
    assert report["verdict"] == "failed"


def test_text_report_in_a_file_is_shown_as_well(vdoctor: Vdoctor, failed: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.txt"
    done = vdoctor("watch", "--no-session", "--output", out, *shell(f"cat '{failed}'; exit 1"))
    assert "failed in weight_load" in out.read_text()
    assert b"failed in weight_load" in done.stderr
    assert "\x1b" not in out.read_text()


def test_language(vdoctor: Vdoctor, failed: Path) -> None:
    done = vdoctor("watch", "--no-session", "--lang", "zh", *shell(f"cat '{failed}'; exit 1"))
    assert "失败" in done.stderr.decode()


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_survived(mark: Mark, closed: str) -> None:
    argv = [*VDOCTOR, "watch", "--no-session", *shell("echo out; echo err >&2; exit 4")]
    assert run(["sh", "-c", f'"$@" {closed}', "sh", *argv], env=mark.env).returncode == 4


#: Writes to one stream and the other by turns, faster than anybody looks.
TURNS = "import os; [os.write(1 + i % 2, b'%d\\n' % i) for i in range(2000)]"


@pytest.mark.parametrize("place", ["2>&1 | cat", ">both 2>&1; cat both", ">>both 2>>both; cat both"])
def test_both_streams_in_one_place_keep_their_order(mark: Mark, tmp_path: Path, place: str) -> None:
    argv = [*VDOCTOR, "watch", "--no-session", "-q", "--", sys.executable, "-c", TURNS]
    done = run(["sh", "-c", f'"$@" {place}', "sh", *argv], env=mark.env, cwd=tmp_path)
    assert done.stdout.decode().split() == [str(i) for i in range(2000)]


def test_reader_of_standard_error_that_leaves_does_not_end_the_server(mark: Mark, healthy: Path) -> None:
    """`2>&1 | head`: the telling ends, the run goes on and keeps its status."""
    script = f"echo ready; read go; sed -n 1,3p '{healthy}'; sleep 0.4; sed -n 4,6p '{healthy}'; sleep 0.4; exit 6"
    process = start([*VDOCTOR, "watch", "--no-session", *shell(script)], env=mark.env, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.stderr.close()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.stdout.read().decode().splitlines() == HEALTHY.splitlines()[:6]
    assert process.wait(DEADLINE) == 6
    assert mark.left() == []


def test_control_c_is_reported_as_the_users_wish(mark: Mark, tmp_path: Path) -> None:
    argv = [*VDOCTOR, "watch", "--session", str(tmp_path / "s"), *shell("echo ready; exec sleep 600")]
    process = start(argv, env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert json.loads((tmp_path / "s" / "session.json").read_text())["exit"] == {
        "status": 130,
        "signal": "SIGINT",
        "asked": "SIGINT",
    }


def test_what_is_measured_after_control_c_is_marked_as_the_way_out(mark: Mark, tmp_path: Path) -> None:
    samples = tmp_path / "s" / "samples.jsonl"

    def measured() -> list[bool]:
        rows = [json.loads(row) for row in samples.read_text().splitlines(keepends=True) if row.endswith("\n")]
        return [row.get("asked", False) for row in rows if "host" in row]

    script = "trap 'sleep 2; exit 3' INT; echo ready; while :; do sleep 0.1; done"
    process = start([*VDOCTOR, "watch", "--session", str(tmp_path / "s"), *shell(script)], env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    assert until(lambda: samples.exists() and measured())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 3
    seen = measured()
    assert (seen[0], seen[-1]) == (False, True)
    assert seen == sorted(seen)


# sessions


def live_and_replayed(
    vdoctor: Vdoctor, cli: Cli, tmp_path: Path, script: str, *options: str | Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report that watch gave and the one on its session, without their sources."""
    session, out = tmp_path / "session", tmp_path / "live.json"
    argv = ["watch", "-q", "--interval", "0.05", "--session", session, "--format", "json", "--output", out]
    vdoctor(*argv, *options, *shell(script))
    replayed = cli("analyze", session, "--format", "json", *options).data
    live = json.loads(out.read_text())
    assert (live.pop("source")["kind"], replayed.pop("source")["kind"]) == ("live", "session")
    return live, replayed


SCENES = {
    "healthy": "cat healthy.log; sleep 0.3",
    "slow with a bar": "printf 'Loading safetensors checkpoint shards:  50%% Completed | 1/2 [00:01<00:01,  1.00s/it]\\r'; "
    'while read -r line; do echo "$line"; sleep 0.06; done < failed.log; exit 1',
    "killed": "sed -n 1,3p healthy.log; kill -9 $$",
    "two streams": "cat healthy.log >&2 & cat failed.log; wait; printf 'no end'; printf 'neither' >&2; exit 1",
    "binary": "head -c 3000 /dev/urandom; cat failed.log",
}


@pytest.mark.parametrize("scene", SCENES)
def test_session_gives_the_report_that_watch_gave(
    vdoctor: Vdoctor, cli: Cli, tmp_path: Path, healthy: Path, failed: Path, rules: Path, scene: str
) -> None:
    script = f"cd '{tmp_path}'; {SCENES[scene]}"
    live, replayed = live_and_replayed(vdoctor, cli, tmp_path, script, "--rules", rules)
    assert live == replayed


def test_session_is_made_in_the_state_folder_when_none_is_named(mark: Mark, tmp_path: Path) -> None:
    env = mark.env | {"XDG_STATE_HOME": str(tmp_path)}
    for _ in range(2):
        done = run([*VDOCTOR, "watch", *shell("echo hi")], env=env)
        assert done.returncode == 0
        named = done.stderr.decode().split("session: ")[1].strip()
        assert (Path(named) / "log.txt").read_bytes() == b"hi\n"
        assert tmp_path in Path(named).parents
    assert run([*VDOCTOR, "watch", "--no-session", *shell("echo hi")], env=env).returncode == 0
    assert len(list(tmp_path.glob("**/session.json"))) == 2


def test_state_folder_that_cannot_be_written_does_not_stop_the_launch(vdoctor: Vdoctor) -> None:
    """A container whose root file system is read-only."""
    done = vdoctor("watch", *shell("echo hi; exit 5"), XDG_STATE_HOME="/dev/null/state")
    assert (done.returncode, done.stdout) == (5, b"hi\n")
    assert b"/dev/null/state" in done.stderr
    assert b"; nothing is recorded\n" in done.stderr


def test_used_folder_is_refused_before_anything_starts(vdoctor: Vdoctor, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("precious")
    done = vdoctor("watch", "--session", tmp_path, *shell(f"touch '{tmp_path}/started'"))
    assert done.returncode == 125
    assert b"holds a log.txt already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log.txt"]


def test_disk_error_stops_the_recording_but_not_the_server(mark: Mark, cli: Cli, tmp_path: Path) -> None:
    """A limit on the size of files, as a full disk or a quota would set it."""

    def limited() -> None:
        default_signals()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    script = 'i=0; while [ $i -lt 4000 ]; do echo "INFO line $i of many that fill the disk"; i=$((i+1)); done; exit 3'
    argv = [*VDOCTOR, "watch", "--session", str(tmp_path / "s"), *shell(script)]
    done = run(argv, env=mark.env | {"PYTHONDONTWRITEBYTECODE": "1"}, preexec=limited)
    assert done.returncode == 3
    assert done.stdout.count(b"\n") == 4000
    assert b"recording stopped: [Errno 27]" in done.stderr
    answer = cli("analyze", tmp_path / "s", "--format", "json")
    assert answer.status in (0, 1)
    assert answer.data["source"]["bytes"] == 40_000


def test_killed_recording_still_replays(mark: Mark, cli: Cli, tmp_path: Path, failed: Path) -> None:
    argv = [*VDOCTOR, "watch", "--session", str(tmp_path / "s"), *shell(f"cat '{failed}'; echo ready; exec sleep 600")]
    process = start(argv, env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    assert until(lambda: b"ready\n" in (tmp_path / "s" / "log.txt").read_bytes())
    process.kill()
    process.communicate(timeout=DEADLINE)
    answer = cli("analyze", tmp_path / "s", "--format", "json")
    assert (answer.status, answer.data["verdict"], answer.data["exit"]) == (1, "failed", None)
    assert mark.left() == []


def test_analyze_of_a_damaged_session_gives_2(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(HEALTHY)
    (tmp_path / "session.json").write_text("{")
    answer = cli("analyze", tmp_path)
    assert (answer.status, answer.out) == (2, "")
    assert "is no session description" in answer.err


def test_environment_of_the_child_is_ours(vdoctor: Vdoctor) -> None:
    done = vdoctor("watch", "-q", "--no-session", *shell('echo "$SOME_NAME"'), SOME_NAME="some value")
    assert done.stdout == b"some value\n"


def test_child_that_opens_many_files_gets_none_of_ours(vdoctor: Vdoctor, tmp_path: Path) -> None:
    look = f"{sys.executable} -S -E -c 'import os; print(sorted(int(n) for n in os.listdir(\"/proc/self/fd\")))'"
    done = vdoctor("watch", "-q", "--session", tmp_path / "s", *shell(look))
    # 3 is the folder that the child itself reads.
    assert json.loads(done.stdout) == [0, 1, 2, 3]


def test_sigkill_without_a_word_says_what_would_tell() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vdoctor", "watch", "--no-session", "--lang", "en", "--", "sh", "-c", "kill -9 $$"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 128 + 9
    assert b"dmesg" in done.stderr
