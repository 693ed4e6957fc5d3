from __future__ import annotations

import pytest

from vdoctor.intake.reader import EventReader
from vdoctor.model import Line
from vdoctor.startup.outcome import Outcome


def outcome(*lines: str) -> Outcome:
    found = Outcome()
    for event in EventReader().read(Line(no, text) for no, text in enumerate(lines, 1)):
        found.feed(event)
    return found


@pytest.mark.parametrize(
    "line",
    [
        # V0
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
        "ERROR 08-30 12:34:56 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 77 died, exit code: -15 (PID: 77) died with exit code",
        "vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop has errored already.",
        "vllm.engine.multiprocessing.MQEngineDeadError: Engine loop is not running.",
        # V1
        "(EngineCore_DP0 pid=7) ERROR 12-01 02:03:04 [core.py:710] EngineCore failed to start.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}",
        "(Worker_TP0 pid=9) ERROR 12-01 02:03:04 [multiproc_executor.py:559] WorkerProc failed to start.",
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.",
        "(EngineCore pid=7) ERROR 12-01 02:03:04 [core.py:1] EngineCore encountered a fatal error.",
        "(APIServer pid=1) ERROR 12-01 02:03:04 [core_client.py:1] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "(APIServer pid=1) ERROR 12-01 02:03:04 [async_llm.py:1] Frontend process failed during engine core initialization",
        # argparse
        "vllm: error: unrecognized arguments: --enable-metrics",
        "vllm serve: error: argument --dtype: invalid choice: 'foo'",
        "api_server.py: error: unrecognized arguments: --swap-space 4",
        # the interpreter, the kernel, the shell
        "Fatal Python error: Aborted",
        "Segmentation fault (core dumped)",
        "Bus error",
        "Killed",
        "!!!!!!! Segfault encountered !!!!!!! Aborted (core dumped)",
        "*** SIGBUS received at time=1733020800 on cpu 3 ***",
        "terminate called after throwing an instance of 'c10::Error'",
    ],
)
def test_knows_the_words_of_a_death(line: str) -> None:
    found = outcome("INFO 12-01 02:03:04 [x.py:1] before", line)
    assert found.death_line == 2


@pytest.mark.parametrize(
    "line",
    [
        "INFO 12-01 02:03:04 [x.py:1] Starting to load model m...",
        "ERROR 12-01 02:03:04 [serving_chat.py:1] Error in preprocessing prompt inputs",
        'INFO:     10.0.0.7:5 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
        "WARNING 12-01 02:03:04 [x.py:1] Killed by policy: 3 requests",
        "INFO 12-01 02:03:04 [x.py:1] No available shared memory broadcast block found in 60 seconds.",
        "usage: vllm serve [-h] [model_tag] [options]",
        "Buses are late",
    ],
)
def test_other_lines_are_no_death(line: str) -> None:
    assert outcome(line).death_line is None


def test_the_first_death_counts() -> None:
    assert outcome("Killed", "x", "Bus error").death_line == 1


def test_a_bar_kills_nobody() -> None:
    assert outcome("died unexpectedly:  50%|█████     | 1/2 [00:00<00:00, 1.00it/s]").death_line is None


def test_remembers_where_the_first_traceback_began() -> None:
    found = outcome("x", "Traceback (most recent call last):", '  File "a.py", line 1, in f', "ValueError: x")
    assert (found.traceback_line, found.death_line) == (2, None)


def test_keeps_the_last_words_as_a_person_sees_them() -> None:
    found = outcome(
        "(A pid=1) INFO 12-01 02:03:04 [x.py:1] one",
        "\x1b[31mlast words\x1b[0m",
        "",
        "x: 50%|██| 1/2 [00:00<00:00, 1.00it/s]",
    )
    assert found.last_text == "last words"


def test_a_new_start_is_alive() -> None:
    found = outcome("Traceback (most recent call last):", "Killed")
    found.restart()
    assert (found.death_line, found.traceback_line) == (None, None)
