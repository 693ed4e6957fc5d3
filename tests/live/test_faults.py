"""What goes wrong around a watched server: `vdoctor watch` as a process of its own, real signals, disks and drivers."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.live.conftest import CHILD, Supervised
from tests.live.test_terminal import Tmux
from tests.processes import DEADLINE, VDOCTOR, Mark, Terminal, read_until, run, start, until

WATCH = (*VDOCTOR, "watch", "--no-session")
MIB = 1 << 20


def keeper_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    """The process between vdoctor and its child."""
    return psutil.Process(process.pid).children()[0]


def works(*argv: str) -> bool:
    """Whether this machine lets us do that."""
    return shutil.which(argv[0]) is not None and subprocess.run(argv, capture_output=True).returncode == 0


# vdoctor itself is killed


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.08, 0.12, 0.2, 0.35, 0.6, 1.0])
def test_nothing_is_left_when_vdoctor_is_killed_at_any_moment(mark: Mark, moment: float) -> None:
    process = start([*WATCH, "--", *CHILD, "clan"], env=mark.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(moment + random.random() * 0.05)
    process.kill()
    process.wait(DEADLINE)
    assert mark.left(10.0) == []


def test_nothing_is_left_when_vdoctor_is_killed_while_its_reader_sleeps(mark: Mark) -> None:
    """The keeper is inside a write that nobody takes."""
    process = start([*WATCH, "--", "yes"], env=mark.env)
    keeper = keeper_of(process) if until(lambda: psutil.Process(process.pid).children()) else None
    assert keeper is not None
    assert until(lambda: any(child.name() == "yes" for child in keeper.children()))
    time.sleep(0.3)
    process.kill()
    process.wait(DEADLINE)
    assert mark.left(10.0) == []


def test_child_ends_and_its_end_is_told_when_the_keeper_is_killed(mark: Mark) -> None:
    process = start([*WATCH, "--", *CHILD, "clan"], env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"line\n")
    keeper_of(process).kill()
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"killed by SIGTERM" in err
    assert mark.left() == []


def test_stopped_vdoctor_does_not_stop_the_server(mark: Mark) -> None:
    """Ctrl-Z, or a disk that hangs: the record is given up after a while, the server goes on."""
    process = start([*WATCH, "-q", "--", *CHILD, "megabytes", "60"], env=mark.env, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"\n")
    process.send_signal(signal.SIGSTOP)
    size = 0
    while size < 50 * MIB:
        size += len(process.stdout.read1(MIB))
    process.send_signal(signal.SIGCONT)
    while chunk := process.stdout.read1(MIB):
        size += len(chunk)
    assert process.wait(DEADLINE) == 0
    assert 59 * MIB < size <= 60 * MIB


def test_output_that_nobody_could_record_is_counted(supervised: Supervised) -> None:
    done = supervised.run(*CHILD, "megabytes", "60", hang_at=1, hang_seconds=6.0)
    assert (done.returncode, len(done.stdout)) == (0, 60 * MIB)
    seen = supervised.seen
    assert seen["lost"] > 0
    assert seen["size"] + seen["lost"] == 60 * MIB


# a child that does not want to end


def test_second_interrupt_says_what_the_third_does(mark: Mark) -> None:
    terminal = Terminal([*WATCH, "--", *CHILD, "deaf"], env=mark.env)
    terminal.wait_for(b"ready")
    terminal.type(b"\x03")
    time.sleep(0.3)
    terminal.type(b"\x03")
    terminal.wait_for(b"Ctrl-C once more kills it (SIGKILL)")
    assert mark.alive()
    terminal.type(b"\x03")
    status, output = terminal.finish()
    assert status == 128 + signal.SIGKILL
    assert b"vdoctor: killed\r\n" in output
    assert mark.left() == []


def test_sigterm_alone_never_kills(mark: Mark) -> None:
    """Whoever sent it (docker stop, kubectl delete) has a patience of his own."""
    process = start([*WATCH, "-q", "--", *CHILD, "deaf"], env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    for _ in range(4):
        process.terminate()
        time.sleep(0.1)
    assert process.poll() is None
    process.kill()
    process.communicate(timeout=DEADLINE)
    assert mark.left(10.0) == []


def test_daemon_is_ended_and_the_user_is_told_how_to_watch_one(mark: Mark) -> None:
    done = run([*WATCH, "--", *CHILD, "daemon"], env=mark.env)
    assert done.returncode == 0
    assert b"1 of its processes had not" in done.stderr
    assert b"vdoctor watch --pid PID" in done.stderr
    assert mark.left() == []


#: A process that SIGTERM does not end outlives a command that fails.
STRAGGLER = """
python3 -c 'import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("deaf", flush=True)
    time.sleep(600)'
sleep 1.5
echo '(EngineCore_DP0 pid=12) ERROR 12-01 00:00:05 [core.py:2] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.'
exit 1
"""


def test_diagnosis_comes_before_stragglers_are_ended_and_once(mark: Mark, tmp_path: Path) -> None:
    told = tmp_path / "events"
    command = [*VDOCTOR, "watch", "--session", str(tmp_path / "s"), "--events", str(told), "--", "sh", "-c", STRAGGLER]
    process = start(command, env=mark.env)
    assert process.stdout is not None and process.stderr is not None
    read_until(process.stdout.fileno(), b"deaf\n")
    err = read_until(process.stderr.fileno(), b"failed in kv_init")
    # It has 1.5 s after SIGTERM.
    assert any("time.sleep(600)" in " ".join(one.cmdline()) for one in mark.alive())
    assert "oom.kv-none" in told.read_text()
    assert '"exit"' not in told.read_text()
    err += process.communicate(timeout=DEADLINE)[1]
    assert (process.returncode, err.count(b"failed in kv_init"), err.count(b"No GPU memory is left")) == (1, 1, 1)
    assert json.loads(told.read_text().splitlines()[-1])["finding"] == "oom.kv-none"
    shown = run([*VDOCTOR, "analyze", str(tmp_path / "s")], env=mark.env).stdout
    assert b"failed in kv_init" in shown and b"exit status 1" in shown
    assert mark.left() == []


def test_what_a_straggler_still_says_is_told_too(mark: Mark) -> None:
    late = "RuntimeError: CUDA error: an illegal memory access was encountered"
    script = f"""
python3 -c 'import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *args: print("{late}", flush=True))
    time.sleep(0.5)
    while True: time.sleep(1)'
echo "(EngineCore_DP0 pid=12) INFO 12-01 00:00:05 [core.py:2] Starting to load model org/m..."
exit 1
"""
    done = run([*WATCH, "--", "sh", "-c", script], env=mark.env)
    assert done.returncode == 1
    assert done.stderr.count(b"failed in weight_load") == 2
    assert done.stderr.rpartition(b"failed in weight_load")[2].count(b"illegal memory access") >= 1


def test_signals_for_the_child_alone_reach_it(mark: Mark) -> None:
    process = start(
        [*WATCH, "-q", "--", "sh", "-c", "trap 'echo usr1; exit 5' USR1; echo ready; while :; do sleep 0.1; done"],
        env=mark.env,
    )
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (5, b"usr1\n")


# outputs


def test_reader_that_leaves_ends_the_child_as_without_us(mark: Mark) -> None:
    done = run(
        ["sh", "-c", '{ "$@"; echo "status $?" >&2; } | head -n 1', "sh", *WATCH, "-q", "--", "yes"], env=mark.env
    )
    assert (done.stdout, done.stderr) == (b"y\n", b"status 141\n")
    assert mark.left() == []


def test_endless_line_passes_in_bounded_memory(mark: Mark, tmp_path: Path) -> None:
    script = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo RuntimeError: after it; sleep 1; exit 1"
    process = start([*VDOCTOR, "watch", "-q", "--session", str(tmp_path / "s"), "--", "sh", "-c", script], env=mark.env)
    assert process.stdout is not None
    size = 0
    while chunk := process.stdout.read1(MIB):
        assert set(chunk) <= set(b"x\nRuntimeError: after it")
        size += len(chunk)
        if chunk.endswith(b"after it\n"):
            peak = int(
                next(
                    line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmHWM" in line
                ).split()[1]
            )
    assert process.wait(DEADLINE) == 1
    assert size == 100_000_000 + len("\nRuntimeError: after it\n")
    assert peak < 200 << 10
    assert (tmp_path / "s" / "log.txt").stat().st_size == size


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_terminal_that_gets_narrower_shows_no_leftovers(mark: Mark, tmp_path: Path) -> None:
    tmux = Tmux(tmp_path, mark)
    script = "echo first; sleep 1.2; echo second; while [ ! -e go ]; do sleep 0.05; done"
    tmux.start(*WATCH, "--", "sh", "-c", f"cd '{tmp_path}'; {script}")
    try:
        assert until(lambda: "vdoctor" in tmux.screen())
        for columns in ("50", "30", "90"):
            tmux._run("resize-window", "-x", columns, "-y", "30")
            time.sleep(0.4)
        assert until(lambda: "second" in tmux.screen())
        assert until(lambda: "second\nvdoctor" in tmux.screen()), tmux.screen()
        assert until(lambda: tmux.screen().count("vdoctor") == 1, 10.0), tmux.screen()
        (tmp_path / "go").touch()
        assert until(lambda: "\nstatus 0" in tmux.screen())
        assert tmux.screen().splitlines()[:2] == ["first", "second"]
        assert "launch" not in tmux.screen()
    finally:
        tmux.stop()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_full_screen_that_is_resized_in_all_directions_keeps_nothing_of_the_panel(mark: Mark, tmp_path: Path) -> None:
    """Lines that are wrapped anew push others into the history."""
    tmux = Tmux(tmp_path, mark)
    line = "(EngineCore_DP0 pid=7) INFO 12-01 00:00:05 [x.py:2] Starting to load model org/m... and a long line $i"
    script = (
        f"for i in $(seq 60); do echo '{line}'; done; while [ ! -e '{tmp_path}/go' ]; do echo again; sleep 0.3; done"
    )
    tmux.start(*WATCH, "--", "sh", "-c", script)
    try:
        assert until(lambda: "weight_load " in tmux.screen())
        for columns, rows in ((50, 10), (30, 20), (130, 30), (70, 10), (30, 10), (100, 30)):
            tmux.resize(columns, rows)
            time.sleep(0.35)
        (tmp_path / "go").touch()
        assert until(lambda: "\nstatus 0" in tmux.screen())
        before = tmux.screen().partition("… incomplete")[0].splitlines()
        assert [row for row in before if "vdoctor" in row or "━" in row or "RAM" in row] == []
        assert before.count("again") >= 5
    finally:
        tmux.stop()


# disks and drivers


@pytest.mark.skipif(
    not works("unshare", "--mount", "--user", "--map-root-user", "mount", "-t", "tmpfs", "tmpfs", "/mnt"),
    reason="nothing can be mounted here",
)
def test_full_disk_stops_the_recording_and_says_so_while_the_server_goes_on(
    mark: Mark, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    go = tmp_path_factory.mktemp("go") / "go"
    inner = f"mount -t tmpfs -o size=256k tmpfs '{tmp_path}'; exec \"$@\""
    child = f"head -c 400000 /dev/zero | tr '\\0' '\\n'; while [ ! -e '{go}' ]; do sleep 0.05; done; echo on; exit 4"
    argv = ["unshare", "--mount", "--user", "--map-root-user", "sh", "-c", inner, "sh", *VDOCTOR, "watch"]
    with (tmp_path_factory.mktemp("out") / "out").open("w+b") as out:
        command = [*argv, "--session", str(tmp_path / "s"), "--", "sh", "-c", child]
        process = start(command, env=mark.env, stdout=out)
        assert process.stderr is not None
        read_until(process.stderr.fileno(), b"recording stopped: [Errno 28]")
        assert process.poll() is None
        go.touch()
        process.communicate(timeout=DEADLINE)
        assert (process.returncode, out.seek(0, os.SEEK_END)) == (4, 400_003)


def test_full_disk_behind_the_output_is_told_once_while_the_server_goes_on(mark: Mark, tmp_path: Path) -> None:
    script = "for i in 1 2 3; do echo $i; sleep 0.3; done; exit 4"
    command = [*VDOCTOR, "watch", "--session", str(tmp_path / "s"), "--", "sh", "-c", script]
    with Path("/dev/full").open("wb") as full:
        done = run(command, env=mark.env, stdout=full.fileno())
    assert done.returncode == 4
    assert done.stderr.count(b"standard output cannot be written (No space left on device)") == 1
    assert b"; the session has it\n" in done.stderr
    assert (tmp_path / "s" / "log.txt").read_text() == "1\n2\n3\n"


def test_driver_that_blocks_delays_nothing(mark: Mark, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.fail("this test needs a C compiler for the stand-in of NVIDIA's library", pytrace=False)
    (tmp_path / "slow.c").write_text(
        "#include <unistd.h>\n"
        'static int block(void) { write(2, "asked\\n", 6); sleep(30); return 0; }\n'
        "int nvmlInit_v2(void) { return block(); }\nint nvmlInitWithFlags(unsigned flags) { return block(); }\n"
    )
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "slow.c")], check=True)
    begun = time.monotonic()
    argv = [
        *VDOCTOR,
        "watch",
        "--session",
        str(tmp_path / "s"),
        "--",
        "sh",
        "-c",
        "echo one; sleep 2; echo two; exit 3",
    ]
    done = run(argv, env=mark.env | {"LD_LIBRARY_PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (3, b"one\ntwo\n")
    assert b"asked\n" in done.stderr
    assert time.monotonic() - begun < 25.0
    # The process tree was measured all the same.
    assert '"host"' in (tmp_path / "s" / "samples.jsonl").read_text()


# no terminal, no input, process 1


def test_service_without_terminal_input_or_parent_works(mark: Mark, tmp_path: Path) -> None:
    """As systemd and Docker start it."""
    out = tmp_path / "out"
    argv = [*WATCH, "--", "sh", "-c", "echo served; exit 6"]
    script = f"\"$@\" <&- >'{out}' 2>&1; echo $? > '{tmp_path}/status'"
    run(["setsid", "-w", "sh", "-c", script, "sh", *argv], env=mark.env)
    assert (tmp_path / "status").read_text() == "6\n"
    assert out.read_text().startswith("served\n")


@pytest.mark.skipif(
    not works("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"),
    reason="no namespaces of processes here",
)
def test_process_1_of_a_container_reaps_forwards_and_keeps_the_status(mark: Mark) -> None:
    script = """
        (sleep 0.1 & exec true)
        (setsid sh -c 'sleep 0.1 & exec true')
        trap 'echo term; exit 9' TERM
        sleep 1
        echo ready
        sleep 600 & wait
    """
    namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    process = start([*namespace, *WATCH, "-q", "--", "sh", "-c", script], env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    first = psutil.Process(process.pid).children()[0]
    tree = [first, *first.children(recursive=True)]
    assert [one.name() for one in tree if one.status() == psutil.STATUS_ZOMBIE] == []
    first.terminate()
    out, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (9, b"term\n")
    assert mark.left() == []


@pytest.mark.skipif(
    not works("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"),
    reason="no namespaces of processes here",
)
def test_orphans_that_come_from_elsewhere_are_reaped_by_process_1(mark: Mark) -> None:
    """`docker exec` brings processes that are not the child's; what they leave behind falls to process 1."""
    script = """
import os, sys, time
from vdoctor.live.strays import Reaper
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.1)
    os._exit(0)
os.wait()
reaper = Reaper(0)
mine = os.fork()
if mine == 0:
    os._exit(7)
import psutil
import vdoctor.live.strays as strays
strays._PATIENCE = 0.2
for _ in range(60):
    reaper.work()
    time.sleep(0.05)
    left = [child.pid for child in psutil.Process().children()]
    if not left:
        break
print(os.getpid(), left)
"""
    namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    done = run([*namespace, sys.executable, "-c", script], env=mark.env)
    assert done.stdout == b"1 []\n", done.stderr


def test_helper_that_somebody_waits_for_is_not_reaped() -> None:
    from vdoctor.live.strays import Reaper

    helper = subprocess.Popen(["sh", "-c", "exit 7"])
    assert until(lambda: psutil.Process(helper.pid).status() == psutil.STATUS_ZOMBIE)
    Reaper(0).work()
    assert helper.wait() == 7


def test_keeper_holds_nothing_of_ours_open(mark: Mark, tmp_path: Path) -> None:
    argv = [*VDOCTOR, "watch", "-q", "--session", str(tmp_path / "s"), "--", "sh", "-c", "echo ready; exec sleep 600"]
    process = start(argv, env=mark.env)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    held = {os.path.realpath(one.path) for one in keeper_of(process).open_files()}
    assert not [path for path in held if str(tmp_path) in path]
    process.terminate()
    process.communicate(timeout=DEADLINE)
    assert json.loads((tmp_path / "s" / "session.json").read_text())["exit"]["signal"] == "SIGTERM"
