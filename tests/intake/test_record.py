from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.record import Record, parse, split_inner, unpack_json


@pytest.mark.parametrize(
    ("line", "record"),
    [
        # V0: no opening bracket
        (
            "INFO 08-30 12:34:56 llm_engine.py:184] Initializing an LLM engine (v0.5.5)",
            Record("INFO", "08-30 12:34:56", "llm_engine.py", "Initializing an LLM engine (v0.5.5)"),
        ),
        # V1
        (
            "WARNING 12-01 02:03:04 [cuda.py:7] slow",
            Record("WARNING", "12-01 02:03:04", "cuda.py", "slow"),
        ),
        # VLLM_LOGGING_LEVEL=DEBUG: paths, shortened ones too
        (
            "DEBUG 12-01 02:03:04 [v1/worker/gpu_worker.py:12] x",
            Record("DEBUG", "12-01 02:03:04", "v1/worker/gpu_worker.py", "x"),
        ),
        (
            "DEBUG 12-01 02:03:04 [model_executor/.../utils/x.py:12] x",
            Record("DEBUG", "12-01 02:03:04", "model_executor/.../utils/x.py", "x"),
        ),
        # VLLM_LOGGING_PREFIX
        ("[node-1]INFO 12-01 02:03:04 [core.py:97] x", Record("INFO", "12-01 02:03:04", "core.py", "x")),
        ("replica3:ERROR 12-01 02:03:04 core.py:97] x", Record("ERROR", "12-01 02:03:04", "core.py", "x")),
        # empty messages, carriage returns, milliseconds, brackets in the message
        ("INFO 12-01 02:03:04 [core.py:97] ", Record("INFO", "12-01 02:03:04", "core.py", "")),
        ("INFO 12-01 02:03:04 [core.py:97]", Record("INFO", "12-01 02:03:04", "core.py", "")),
        ("INFO 12-01 02:03:04 [core.py:97] x\r", Record("INFO", "12-01 02:03:04", "core.py", "x")),
        ("INFO 12-01 02:03:04.123 [core.py:97] x", Record("INFO", "12-01 02:03:04", "core.py", "x")),
        ("INFO 12-01 02:03:04 [a.py:1] b [c.py:3] d", Record("INFO", "12-01 02:03:04", "a.py", "b [c.py:3] d")),
        # indentation belongs to the message
        (
            'ERROR 12-01 02:03:04 [core.py:97]   File "a.py", line 1, in f',
            Record("ERROR", "12-01 02:03:04", "core.py", '  File "a.py", line 1, in f'),
        ),
        # uvicorn
        ("INFO:     Started server process [1]", Record("INFO", None, "uvicorn", "Started server process [1]")),
        ("ERROR:    [Errno 98] bind", Record("ERROR", None, "uvicorn", "[Errno 98] bind")),
        ("WARNING:  Invalid HTTP request", Record("WARNING", None, "uvicorn", "Invalid HTTP request")),
        # torch: C++ and Python
        (
            "[W1201 02:52:31.279000667 utils.cpp:68] Warning: x",
            Record("WARNING", "12-01 02:52:31", "utils.cpp", "Warning: x"),
        ),
        (
            "[E1201 02:52:31.279 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog",
            Record("ERROR", "12-01 02:52:31", "ProcessGroupNCCL.cpp", "[Rank 0] Watchdog"),
        ),
        (
            "W1201 01:54:50.426000 24851 torch/utils/cpp_extension.py:118] No CUDA runtime",
            Record("WARNING", "12-01 01:54:50", "torch/utils/cpp_extension.py", "No CUDA runtime"),
        ),
        ("F0101 00:00:00.0 7 x.cc:1] Check failed", Record("CRITICAL", "01-01 00:00:00", "x.cc", "Check failed")),
    ],
)
def test_reads_the_header_of_every_generation(line: str, record: Record) -> None:
    assert parse(line) == record


@pytest.mark.parametrize(
    "line",
    [
        "",
        "INFO",
        "INFO:",
        "INFO 12-01 02:03:04",
        "INFO 12-01 [core.py:97] x",
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "INFORMATION: none",
        "[Gloo] Rank 0 is connected to 0 peer ranks.",
        "gpu01:1:2 [0] NCCL INFO x",
        "ValueError: x",
        '  File "core.py", line 97, in f',
    ],
)
def test_a_line_without_a_header_is_no_record(line: str) -> None:
    assert parse(line) is None


def test_docker_json_file_gives_the_line_and_its_time() -> None:
    line = '{"log":"INFO 12-01 02:03:04 [core.py:97] hi\\n","stream":"stderr","time":"2025-07-02T15:32:50.7Z"}'
    assert unpack_json(line) == ("INFO 12-01 02:03:04 [core.py:97] hi", "2025-07-02T15:32:50.7Z", None)


def test_the_json_formatter_of_vllm() -> None:
    line = json.dumps(
        {
            "asctime": "2025-12-01 02:03:04,123",
            "levelname": "WARNING",
            "name": "vllm.v1.engine.core",
            "processName": "EngineCore",
            "process": 12,
            "message": "hi",
        }
    )
    assert unpack_json(line) == (
        "hi",
        "2025-12-01 02:03:04,123",
        Record("WARNING", None, "vllm.v1.engine.core", "hi", "EngineCore", 12),
    )


@pytest.mark.parametrize(
    ("data", "level", "text"),
    [
        ({"severity": "ERROR", "textPayload": "x"}, "ERROR", "x"),
        ({"level": "warn", "msg": "x"}, "WARNING", "x"),
        ({"level": "fatal", "message": "x"}, "CRITICAL", "x"),
        ({"level": 30, "msg": "x"}, "INFO", "x"),
        ({"MESSAGE": "x", "PRIORITY": "6"}, "INFO", "x"),
        ({"message": "failed", "exc_info": "Traceback\n  File"}, "INFO", "failed\nTraceback\n  File"),
    ],
)
def test_other_json_loggers(data: dict[str, object], level: str, text: str) -> None:
    unpacked = unpack_json(json.dumps(data))
    assert unpacked is not None
    assert unpacked[0] == text
    assert unpacked[2] is not None
    assert unpacked[2].level == level


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "{}",
        "[1]",
        '{"a": 1}',
        "{bad}",
        '{"log": null}',
        '{"message": 3}',
        '"text"',
        "{" * 5000 + "}" * 5000,
        '{"a":' * 9000 + "1" + "}" * 9000,
    ],
)
def test_json_that_is_no_log_line_is_left_alone(line: str) -> None:
    assert unpack_json(line) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"message": "x", "process": true, "processName": 5, "levelname": null, "asctime": []}',
        '{"log": "x", "time": 5}',
        '{"msg": "\\ud800"}',
    ],
)
def test_json_with_values_of_other_types_does_no_harm(line: str) -> None:
    unpacked = unpack_json(line)
    assert unpacked is not None
    assert unpacked[1] is None
    assert unpacked[2] is None or unpacked[2].pid is None


@given(st.text(max_size=60))
def test_any_text_can_be_looked_at(text: str) -> None:
    parse(text)
    unpack_json("{" + text + "}")
    assert "".join(split_inner(text)) == text


BAR = "Capturing CUDA graphs: 100%|██████████| 35/35 [00:01<00:00, 20.00it/s]"


@pytest.mark.parametrize(
    "record",
    [
        "INFO 12-01 02:03:04 [gpu_model_runner.py:1] Graph capturing finished in 3 secs",
        "INFO 08-30 12:34:56 model_runner.py:1456] Graph capturing finished in 3 secs",
        "(EngineCore_DP0 pid=7) INFO 12-01 02:03:04 [gpu_model_runner.py:1] Graph capturing finished",
        "(Worker_TP0 pid=7) ERROR 12-01 02:03:04 [multiproc_executor.py:1] x",
        "(VllmWorker rank=1 pid=7) INFO 12-01 02:03:04 [x.py:1] x",
        "(VllmWorker-0 pid=7) WARNING 12-01 02:03:04 [x.py:1] x",
        "(ApiServer_2 pid=7) INFO 12-01 02:03:04 [x.py:1] x",
    ],
)
def test_a_record_glued_behind_a_bar_is_cut_off(record: str) -> None:
    assert split_inner(BAR + record) == [BAR, record]


def test_two_records_glued_together_are_cut() -> None:
    one = "(EngineCore pid=1) INFO 12-01 02:03:04 [x.py:1] a"
    two = "(Worker_TP1 pid=2) INFO 12-01 02:03:04 [y.py:1] b"
    assert split_inner(one + two) == [one, two]


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore_DP0 pid=7) INFO 12-01 02:03:04 [core.py:97] hello",
        "(RayWorkerWrapper pid=1) (EngineCore_DP0 pid=7) INFO 12-01 02:03:04 [core.py:97] hello",
        "INFO 12-01 02:03:04 [core.py:97] calls f(Worker pid=3)",
        BAR + BAR,
    ],
)
def test_a_whole_line_is_not_cut(line: str) -> None:
    assert split_inner(line) == [line]
