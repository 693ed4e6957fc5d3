"""Dumps as real tools printed them: py-spy 0.4.3, Linux 6.18, faulthandler of Python 3.11."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import events_of
from vdoctor.intake.stacks import MAX_FRAMES, FaultReader, from_kernel, from_py_spy, outermost_first
from vdoctor.model import Stack

DUMPS = Path(__file__).parent / "dumps"


def dumped(name: str) -> Stack:
    """The only thread of a recorded py-spy dump."""
    (stack,) = from_py_spy((DUMPS / f"{name}.json").read_text(), "Worker_TP0")
    return stack


@pytest.mark.parametrize(
    ("name", "outer", "inner"),
    [
        ("lock", "waits_for_lock (stuck.py:15)", "PyThread_acquire_lock_timed (libpython3.11.so.1.0:0)"),
        ("fifo", "reads_fifo (stuck.py:20)", "open64 (libc.so.6:0)"),
        ("stopped", "waits_for_lock (stuck.py:15)", "waits_for_lock (stuck.py:15)"),
        ("native", "computes_natively (stuck.py:26)", "SHA256_Final (libcrypto.so.3:0)"),
    ],
)
def test_frames_stand_outermost_first_with_native_ones_inside(name: str, outer: str, inner: str) -> None:
    stack = dumped(name)
    assert (stack.role, stack.thread, stack.source) == ("Worker_TP0", "MainThread", "py-spy")
    assert stack.frames[0].startswith("<module> (stuck.py:")
    assert stack.frames.index(outer) == 1
    assert inner in stack.frames[1:]


def test_addresses_without_a_name_are_left_out() -> None:
    assert "0x" in (DUMPS / "lock.json").read_text()
    assert not any("0x" in frame for frame in dumped("lock").frames)


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"frames": []}'])
def test_what_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_py_spy(text, None)


def kernel(name: str, *left_out: str) -> Stack | None:
    files = {part: (DUMPS / f"{name}.{part}.txt").read_text() for part in ("stack", "wchan", "syscall")}
    kept = {part: text for part, text in files.items() if part not in left_out}
    return from_kernel(7, None, "7 python", "S", "x86_64", kept)


def test_the_kernel_names_its_function_and_the_system_call() -> None:
    stack = kernel("fifo")
    assert stack is not None
    assert stack.frames[0] == "state S (kernel:0)"
    assert stack.frames[1] == "openat (syscall:257)"
    assert stack.frames[-1] == "wait_for_partner (kernel:0)"


def test_without_the_right_to_read_the_stack_the_wait_channel_is_left() -> None:
    stack = kernel("fifo", "stack", "syscall")
    assert stack is not None
    assert stack.frames == ("state S (kernel:0)", "wait_for_partner (kernel:0)")


def test_a_stopped_process_shows_that_it_is_stopped() -> None:
    stack = kernel("stopped")
    assert stack is not None
    assert {"futex (syscall:202)", "do_signal_stop (kernel:0)"} <= set(stack.frames)


def test_a_process_in_user_code_has_no_kernel_stack() -> None:
    assert from_kernel(7, None, "7", "R", "x86_64", {"wchan": "0", "syscall": "running", "stack": ""}) is None


def read(text: str) -> FaultReader:
    reader = FaultReader()
    for event in events_of(text):
        reader.feed(event)
    return reader


def test_the_thread_that_crashed_comes_first_wherever_it_was_printed() -> None:
    reader = read((DUMPS / "fault.txt").read_text())
    assert (reader.error, reader.line) == ("Segmentation fault", 1)
    assert reader.stacks[0].frames[-3:] == (
        "load_model (vllm/loader.py:6)",
        "loads_kernel (vllm/loader.py:5)",
        "string_at (__init__.py:519)",
    )
    assert reader.stacks[1].frames[-1] == "waits (vllm/loader.py:3)"
    assert {stack.source for stack in reader.stacks} == {"log"}


def test_the_last_dump_counts_and_prefixes_do_not_matter() -> None:
    first = 'Timeout (0:00:05)!\nThread 0x01 (most recent call first):\n  File "/x/a.py", line 1 in old\n\nINFO go on\n'
    second = (
        "(EngineCore pid=9) Thread 0x02 [MainThread] (most recent call first):\n"
        '(EngineCore pid=9)   File "/x/site-packages/vllm/b.py", line 2 in new\n'
    )
    (stack,) = read(first + second).stacks
    assert (stack.pid, stack.role, stack.frames) == (9, "EngineCore", ("new (vllm/b.py:2)",))


def test_of_endless_recursion_the_innermost_frames_stay() -> None:
    frames = [f"f{number} (a.py:1)" for number in range(1000)]
    kept = outermost_first(frames)
    assert (len(kept), kept[-1]) == (MAX_FRAMES, "f0 (a.py:1)")


@given(st.text(max_size=300))
def test_hostile_text_gives_no_dump_and_no_error(text: str) -> None:
    read("Thread 0x01 (most recent call first):\n" + text)
    from_kernel(1, None, "", "", "", {"stack": text, "wchan": text, "syscall": text})
