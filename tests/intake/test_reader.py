from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.reader import EventReader
from vdoctor.model import Event, Line


def read(*lines: str) -> list[Event]:
    return EventReader().read(Line(no, text) for no, text in enumerate(lines, 1))


def test_a_record_is_understood_as_a_whole() -> None:
    (event,) = read("\x1b[1;36m(Worker_TP1 pid=9)\x1b[0;0m INFO 12-01 02:03:04 [core.py:97] hello")
    assert (event.kind, event.text, event.level, event.source) == ("record", "hello", "INFO", "core.py")
    assert (event.process, event.pid, event.rank, event.line) == ("Worker_TP1", 9, 1, 1)
    assert event.shown == "(Worker_TP1 pid=9) INFO 12-01 02:03:04 [core.py:97] hello"


def test_empty_lines_are_no_events() -> None:
    assert read("", "   \r"[:0], "\x1b[0m") == []


def test_an_empty_record_is_an_event() -> None:
    (event,) = read("INFO 12-01 02:03:04 [core.py:97] ")
    assert (event.kind, event.text) == ("record", "")


def test_several_bars_of_a_line_are_an_event_each() -> None:
    events = read("A:  50%|█| 1/2 [00:01<00:01, 1.00it/s]A: 100%|█| 2/2 [00:02<00:00, 1.00it/s]")
    assert [(event.kind, event.bar.done if event.bar else None) for event in events] == [("bar", 1), ("bar", 2)]


def test_a_record_behind_a_bar_keeps_its_process_and_its_line() -> None:
    bar, record = read(
        "(Worker_TP0 pid=9) A: 100%|█| 2/2 [00:02<00:00, 1.00it/s](EngineCore_DP0 pid=7) INFO 12-01 02:03:04 [core.py:1] done"
    )
    assert (bar.kind, bar.process) == ("bar", "Worker_TP0")
    assert (record.kind, record.process, record.text, record.line) == ("record", "EngineCore_DP0", "done", 1)


def test_with_a_logging_prefix_032_still_shows_its_process() -> None:
    events = read("[node-1](EngineCore pid=22) INFO 12-01 02:03:04 [core.py:1] hello")
    assert (events[-1].kind, events[-1].process, events[-1].text) == ("record", "EngineCore", "hello")


def test_a_tag_inside_the_message_does_not_rename_the_writer() -> None:
    (event,) = read("(EngineCore pid=7) INFO 12-01 02:03:04 [core.py:97] (Worker pid=9) is up")
    assert (event.process, event.text) == ("EngineCore", "is up")


@pytest.mark.parametrize(
    "message", ["> quoted", "vllm-1  | piped", "0: INFO: x", "2025-07-02T15:32:50Z dated", "[rank0]: x"]
)
def test_the_message_of_a_record_has_no_prefixes_to_lose(message: str) -> None:
    (event,) = read(f"(EngineCore pid=7) INFO 12-01 02:03:04 [core.py:97] {message}")
    assert event.text == message


def test_docker_json_lines_read_like_plain_ones() -> None:
    line = "(EngineCore_DP0 pid=7) INFO 12-01 02:03:04 [core.py:97] hello"
    (plain,) = read(line)
    (event,) = read(json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-12-01T02:03:04.5Z"}))
    assert (event.text, event.process, event.level, event.kind) == (plain.text, plain.process, plain.level, plain.kind)


@pytest.mark.parametrize("key", ["textPayload", "message", "msg"])
def test_a_vllm_line_inside_a_collectors_json_keeps_its_own_header(key: str) -> None:
    # collectors call everything on standard error an error
    (event,) = read(json.dumps({"severity": "ERROR", key: "(EngineCore pid=7) INFO 12-01 02:03:04 [core.py:97] hello"}))
    assert (event.text, event.level, event.process, event.source) == ("hello", "INFO", "EngineCore", "core.py")


def test_the_traceback_of_a_json_formatter_is_a_block() -> None:
    reader = EventReader()
    trace = 'Traceback (most recent call last):\n  File "core.py", line 1, in load_model\n    f()\nValueError: no'
    line = {
        "levelname": "ERROR",
        "processName": "EngineCore",
        "process": 7,
        "message": "EngineCore failed to start.",
        "exc_info": trace,
    }
    events = reader.read([Line(1, json.dumps(line))])
    assert events[0].text == "EngineCore failed to start."
    (block,) = reader.tracebacks()
    assert (block.exception, block.message, block.frames, block.process) == (
        "ValueError",
        "no",
        ("load_model",),
        "EngineCore",
    )
    assert {event.line for event in events} == {1}


@pytest.mark.parametrize(
    ("name", "process"), [("EngineCore_DP0", "EngineCore_DP0"), ("MainProcess", None), (None, None)]
)
def test_the_process_of_a_json_formatter(name: str | None, process: str | None) -> None:
    (event,) = read(json.dumps({"message": "x", "processName": name, "process": 7}))
    assert (event.process, event.kind) == (process, "record")


def test_escapes_inside_json_never_reach_a_message() -> None:
    for key in ("message", "log"):
        (event,) = read(json.dumps({key: "\x1b[31mred\x1b[0m \u202etxt\x07"}))
        assert event.text == "red txt"


def test_json_without_a_time_stands_where_the_line_before_stood() -> None:
    first, second = read("INFO 12-01 02:03:04 [core.py:97] a", '{"message": "b", "asctime": "soon"}')
    assert second.time == first.time


def test_a_utc_prefix_in_front_of_local_records_gives_one_clock() -> None:
    a, b, c = read(
        "2025-12-01T01:03:04.5Z (EngineCore pid=7) INFO 12-01 02:03:04 [core.py:97] a",
        "2025-12-01T01:03:05.5Z plain text",
        "2025-12-01T01:03:09.5Z (EngineCore pid=7) INFO 12-01 02:03:09 [core.py:97] b",
    )
    assert [e.time - a.time for e in (a, b, c)] == [0.0, 1.0, 5.0]  # type: ignore[operator]


def test_arrival_times_of_a_live_log_win() -> None:
    reader = EventReader()
    first, second = reader.read(
        [Line(1, "INFO 12-01 02:03:04 [a.py:1] x", 10.0), Line(2, "INFO 12-01 02:03:04 [a.py:1] y", 12.5)]
    )
    assert first.time is not None
    assert second.time == first.time + 2.5


def test_reading_line_by_line_equals_reading_at_once() -> None:
    lines = [
        Line(no, text)
        for no, text in enumerate(
            [
                "(EngineCore pid=7) INFO 12-01 02:03:04 [core.py:97] a",
                "Traceback (most recent call last):",
                '  File "a.py", line 1, in f',
                "A:  50%|█| 1/2 [00:01<00:01, 1.00it/s]",
                "    f()",
                "ValueError: x",
                "tail",
            ],
            1,
        )
    ]
    whole, single = EventReader(), EventReader()
    assert whole.read(lines) == [event for line in lines for event in single.read([line])]


pieces = st.sampled_from(
    [
        "(A pid=1) ", "INFO 12-01 02:03:04 [core.py:97] ", "Traceback (most recent call last):", '  File "a", line 1, in f', "ValueError: x",
        '{"message": "', '"}', " 50%|█| 1/2 [00:01<00:01, 1.00it/s]", "[rank0]: ", "│ ", "> ", "\x1b[31m", "\x00", "{", "}", "  | ", "vllm-1  | ",
    ]
)  # fmt: skip


@given(st.lists(st.lists(st.one_of(pieces, st.text(max_size=3)), max_size=6).map("".join), max_size=8))
def test_any_lines_can_be_read(lines: list[str]) -> None:
    for event in read(*lines):
        assert 1 <= event.line <= len(lines)
        assert (event.kind == "bar") == (event.bar is not None)
        assert (event.kind == "traceback") == (event.block is not None)
        assert "\x1b" not in event.text + event.shown
        assert "\x00" not in event.text + event.shown


@pytest.mark.parametrize("indent", ["    ", "  ", "\t"])
def test_log_that_is_indented_as_a_whole_reads_the_same(indent: str) -> None:
    line = "(EngineCore_DP0 pid=7) INFO 12-01 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='m'"
    plain, indented = (EventReader().read([Line(1, text)])[0] for text in (line, indent + line))
    assert (plain.text, plain.process, plain.pid, plain.time) == (
        indented.text,
        indented.process,
        indented.pid,
        indented.time,
    )


def test_indented_code_that_begins_with_a_bracket_keeps_its_indentation() -> None:
    event = EventReader().read([Line(1, "    (first, second) = pair")])[0]
    assert event.text == "    (first, second) = pair"
