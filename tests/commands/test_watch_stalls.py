"""vdoctor watch on processes that stand still: what their stacks show, and what it says where it may not look."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import Cli
from tests.processes import DEADLINE, IMPATIENT, Mark, default_signals, read_until, start, until
from vdoctor.live.stacks import find_py_spy

needs_py_spy = pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")

#: What the `filelock` package does: it tries, and sleeps in between.
FILELOCK = """
import fcntl, time
class FileLock:
    def __init__(self, path):
        self._path = path
    def acquire(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with open(self._path, "w") as file:
                try:
                    return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    pass
            time.sleep(0.05)
"""
#: Loads a model of the hub, whose client waits for the lock of its cache.
WAITS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from filelock._api import FileLock
print(f"(EngineCore_DP0 pid={os.getpid()}) INFO 01-01 01:01:01 [gpu_model_runner.py:1] Starting to load model org/m...", flush=True)
def hf_hub_download():
    FileLock(sys.argv[2]).acquire()
hf_hub_download()
"""
HANGS = """
import os, time
print(f"(Worker_TP1 pid={os.getpid()}) INFO 01-01 01:01:01 [gpu_model_runner.py:1] Starting to load model /m/x...", flush=True)
time.sleep(SECONDS)
"""


@needs_py_spy
def test_a_wait_for_a_file_lock_is_no_stalled_download(mark: Mark, tmp_path: Path) -> None:
    package = tmp_path / "lib" / "filelock"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_api.py").write_text(FILELOCK)
    lock, report, told = tmp_path / "m.lock", tmp_path / "report.json", tmp_path / "events"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        options = ["--stall-after", "2", "--session", tmp_path / "s", "--events", told]
        waits = [sys.executable, "-S", "-E", "-c", WAITS, tmp_path / "lib", lock]
        command = [*IMPATIENT, "watch", *options, "--format", "json", "--output", report, "--", *waits]
        process = start([str(word) for word in command], env=mark.env)
        assert until(lambda: told.exists() and "weights.stack-lock" in told.read_text())
    _, err = process.communicate(timeout=DEADLINE)
    # First what is seen from outside, then what the stacks show.
    assert "waits for a file lock that another process holds" in err.decode()
    heard = [json.loads(line) for line in told.read_text().splitlines()]
    assert [event["kind"] for event in heard if event["event"] == "motion" and event["state"] == "stalled"][
        -1
    ] == "lock"
    first = next(event for event in heard if event["event"] == "finding" and event["rule"] == "weights.stack-lock")
    assert first["confidence"] == "likely"
    # From the verdict with the stacks on, nothing blames the hub.
    after = heard[heard.index(first) :]
    assert not any(event.get("id") == "model.download-stalled" for event in after)


@needs_py_spy
@pytest.mark.skipif(
    shutil.which("setpriv") is None
    or subprocess.run(["setpriv", "--bounding-set=-sys_ptrace", "true"], capture_output=True).returncode != 0,
    reason="needs the right to drop a right",
)
@pytest.mark.parametrize(("lang", "words"), [("en", "not seen: the stacks"), ("zh", "没有看到卡住的进程的调用栈")])
def test_what_may_not_be_looked_at_is_said_with_what_would_permit_it(
    mark: Mark, cli: Cli, tmp_path: Path, lang: str, words: str
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", HANGS.replace("SECONDS", "600")],
            env=mark.env,
            stdout=file,
            preexec_fn=default_signals,
        )
    options = [
        "--stall-after",
        "2",
        "--lang",
        lang,
        "--session",
        str(tmp_path / "s"),
        "--follow",
        str(log),
        "--pid",
        str(server.pid),
    ]
    drop = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    watcher = start([*drop, *IMPATIENT, "watch", *options], env=mark.env)
    assert watcher.stderr is not None
    said = read_until(watcher.stderr.fileno(), words.encode()).decode("utf-8", "replace")
    watcher.terminate()
    out, rest = watcher.communicate(timeout=DEADLINE)
    server.kill()
    server.wait()
    said += rest.decode()
    assert "SYS_PTRACE" in said
    assert words in out.decode()
    session = json.loads((tmp_path / "s" / "session.json").read_text())
    assert session["facts"]["watch.stacks_refused"]["value"].startswith(("no-ptrace", "ptrace_scope="))
    assert words in cli("analyze", tmp_path / "s", "--lang", lang).out
