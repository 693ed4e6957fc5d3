from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.reader import EventReader
from vdoctor.model import Event, Line, Traceback


def read(text: str) -> tuple[list[Event], list[Traceback]]:
    reader = EventReader()
    events = reader.read(Line(no, line) for no, line in enumerate(text.splitlines(), 1))
    return events, reader.tracebacks()


def only(text: str) -> Traceback:
    (block,) = read(text)[1]
    return block


def traceback(exception: str, *frames: str, indent: str = "  ") -> str:
    lines = ["Traceback (most recent call last):"]
    for name in frames:
        lines += [f'{indent}File "/opt/vllm/{name}.py", line 7, in {name}', f"{indent * 2}{name}(self.config)"]
    return "\n".join([*lines, exception])


def tagged(tag: str, text: str) -> str:
    return "\n".join(f"{tag} {line}" for line in text.splitlines())


LOAD = traceback("ValueError: no such tensor: lm_head", "load_model", "load_weights")


def test_a_traceback_is_one_block() -> None:
    block = only(LOAD)
    assert block.frames == ("load_model", "load_weights")
    assert (block.exception, block.message) == ("ValueError", "no such tensor: lm_head")
    assert (block.first_line, block.last_line) == (1, 6)


@pytest.mark.parametrize(
    ("line", "exception", "message"),
    [
        ("KeyError: 'x'", "KeyError", "'x'"),
        ("AssertionError", "AssertionError", ""),
        ("torch.OutOfMemoryError: CUDA out of memory.", "torch.OutOfMemoryError", "CUDA out of memory."),
        ("torch.AcceleratorError: CUDA error", "torch.AcceleratorError", "CUDA error"),
        (
            "huggingface_hub.errors.GatedRepoError: 401 Client Error.",
            "huggingface_hub.errors.GatedRepoError",
            "401 Client Error.",
        ),
        (
            "zmq.error.ZMQError: Address already in use (addr='tcp://x')",
            "zmq.error.ZMQError",
            "Address already in use (addr='tcp://x')",
        ),
        (
            "socket.gaierror: [Errno -2] Name or service not known",
            "socket.gaierror",
            "[Errno -2] Name or service not known",
        ),
        ("struct.error: unpack requires a buffer", "struct.error", "unpack requires a buffer"),
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory",
            "triton.runtime.errors.OutOfResources",
            "out of resource: shared memory",
        ),
        (
            "subprocess.CalledProcessError: Command '['gcc']' returned",
            "subprocess.CalledProcessError",
            "Command '['gcc']' returned",
        ),
        ("SystemExit: 1", "SystemExit", "1"),
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header",
            "safetensors_rust.SafetensorError",
            "Error while deserializing header",
        ),
        (
            "Exception: WorkerProc initialization failed due to x",
            "Exception",
            "WorkerProc initialization failed due to x",
        ),
        (
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore",
            "vllm.v1.engine.exceptions.EngineDeadError",
            "EngineCore",
        ),
        (
            "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found",
            "pynvml.NVMLError_LibraryNotFound",
            "NVML Shared Library Not Found",
        ),
    ],
)
def test_reads_exceptions_of_all_libraries(line: str, exception: str, message: str) -> None:
    block = only(traceback(line, "f", "g"))
    assert (block.exception, block.message) == (exception, message)


def test_marks_under_the_source_line_and_elided_frames_belong_to_it() -> None:
    block = only(
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in load_model\n'
        "    self.model = get_model(\n"
        "                 ^^^^^^^^^^\n"
        "    ...<3 lines>...\n"
        "    )\n"
        "    ^\n"
        '  File "b.py", line 2, in recurse\n'
        "    recurse()\n"
        "    ~~~~~~~^^\n"
        "  [Previous line repeated 990 more times]\n"
        "RecursionError: maximum recursion depth exceeded\n"
    )
    assert (block.frames, block.exception) == (("load_model", "recurse"), "RecursionError")


@pytest.mark.parametrize(
    "lost",
    [
        LOAD.replace("    ", "").replace("  ", ""),
        'Traceback (most recent call last):\nFile "a.py", line 1, in load_model\nx = f(\n^^^^^^\n...<3 lines>...\n)\n^\n'
        'File "b.py", line 1, in load_weights\nraise ValueError(\nValueError: no such tensor: lm_head',
        'Traceback (most recent call last):\nFile "a.py", line 1, in load_model\nreturn Error(x)\n'
        'File "b.py", line 1, in load_weights\nEngine: int = 3\nValueError: no such tensor: lm_head',
    ],
)
def test_a_paste_that_lost_its_indentation_is_still_a_block(lost: str) -> None:
    block = only(lost)
    assert block.frames == ("load_model", "load_weights")
    assert (block.exception, block.message) == ("ValueError", "no such tensor: lm_head")


def test_a_long_paste_without_indentation_is_still_one_block() -> None:
    names = [f"function_{n}" for n in range(30)]
    block = only(traceback("ValueError: no", *names, indent=""))
    assert (block.frames, block.exception) == (tuple(names), "ValueError")


def test_a_chain_of_exceptions_is_a_block_each_in_order() -> None:
    _, blocks = read(
        LOAD
        + "\n\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("RuntimeError: load failed", "init_device")
        + "\n\nDuring handling of the above exception, another exception occurred:\n\n"
        + traceback("RuntimeError: Engine core initialization failed. See root cause above.", "wait")
    )
    assert [block.exception for block in blocks] == ["ValueError", "RuntimeError", "RuntimeError"]
    assert blocks[2].frames == ("wait",)


def test_the_tail_of_a_pydantic_error_belongs_to_the_block() -> None:
    events, (block,) = read(
        traceback(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig", "create_model_config"
        )
        + "\n  Value error, Model architectures ['Foo'] are not supported for now. [type=value_error, input_value=ArgsKwargs((), {})]"
        + "\n    For further information visit https://errors.pydantic.dev/2.11/v/value_error"
    )
    assert block.last_line == 6
    assert events[-2].block == block.number
    assert events[-2].text.startswith("  Value error, Model architectures")


def test_the_hints_of_a_cuda_error_belong_to_the_block() -> None:
    events, (block,) = read(
        traceback("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "execute_model")
        + "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
        + "\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )
    assert all(event.block == block.number for event in events)


def test_a_tail_is_not_endless() -> None:
    events, (block,) = read(LOAD + "\n" + "\n".join(f"line {n}" for n in range(500)))
    assert block.last_line < 100
    assert events[-1].block is None
    assert events[-1].kind == "text"


def test_a_fence_ends_a_block() -> None:
    events, _ = read(f"```\n{LOAD}\n```\nI started it with\n")
    assert [event.block for event in events[-2:]] == [None, None]


def test_an_exception_group_gives_its_members() -> None:
    _, blocks = read(
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "a.py", line 1, in serve\n'
        '  |     raise ExceptionGroup("x", errors)\n'
        "  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "b.py", line 2, in inner\n'
        '    |     raise ValueError("boom")\n'
        "    | ValueError: boom\n"
        "    +---------------- 2 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "c.py", line 2, in other\n'
        "    |     open(path)\n"
        "    | FileNotFoundError: [Errno 2] No such file\n"
        "    +------------------------------------\n"
    )
    assert [block.exception for block in blocks] == ["ExceptionGroup", "ValueError", "FileNotFoundError"]
    assert [block.frames for block in blocks] == [("serve",), ("inner",), ("other",)]


def test_the_remote_traceback_that_ray_repeats_ends_in_the_true_exception() -> None:
    block = only(
        "Traceback (most recent call last):\n"
        '  File "ray/worker.py", line 1, in get\n'
        "    raise value.as_instanceof_cause()\n"
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::RayWorkerWrapper.execute_method() (pid=9, ip=10.0.0.2)\n"
        '  File "vllm/worker.py", line 3, in load_model\n'
        "    self.model_runner.load_model()\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    assert block.exception == "torch.OutOfMemoryError"
    assert block.frames == ("get", "load_model")


@pytest.mark.parametrize(
    "tag",
    [
        "(EngineCore_DP0 pid=7)",
        "(EngineCore_DP0 pid=7) ERROR 12-01 02:03:04 [core.py:710]",
        "[rank0]:",
        "vllm-1  |",
        "ERROR 08-30 12:34:56 engine.py:389]",
        "2025-07-02T15:32:50.7Z",
        "3:",
    ],
)
def test_prefixes_on_every_line_do_not_break_a_block(tag: str) -> None:
    block = only(tagged(tag, LOAD))
    assert block.frames == ("load_model", "load_weights")
    assert block.exception == "ValueError"


def test_the_record_and_the_raw_copy_of_one_traceback_are_two_blocks() -> None:
    raw = tagged("(EngineCore_DP0 pid=7)", LOAD)
    record = tagged("(EngineCore_DP0 pid=7) ERROR 12-01 02:03:04 [core.py:710]", f"EngineCore failed to start.\n{LOAD}")
    _, blocks = read(f"{record}\n(EngineCore_DP0 pid=7) Process EngineCore_DP0:\n{raw}")
    assert [(block.exception, block.frames) for block in blocks] == [("ValueError", ("load_model", "load_weights"))] * 2


@given(
    st.randoms(use_true_random=False),
    st.sampled_from(["({name} pid={pid})", "({name} pid={pid}) ERROR 12-01 02:03:04 [multiproc_executor.py:559]"]),
)
def test_the_tracebacks_of_eight_processes_at_once_are_told_apart(order: random.Random, tag: str) -> None:
    writers = []
    for rank in range(8):
        text = traceback(f"RuntimeError: rank {rank} lost", "worker_main", *(f"f{rank}_{n}" for n in range(rank + 1)))
        writers.append(tagged(tag.format(name=f"Worker_TP{rank}", pid=100 + rank), text).splitlines())
    lines = []
    while any(writers):
        lines.append(order.choice([writer for writer in writers if writer]).pop(0))
    _, blocks = read("\n".join(lines))
    assert len(blocks) == 8
    for block in blocks:
        rank = int(block.message.split()[1])
        assert block.process == f"Worker_TP{rank}"
        assert block.frames == ("worker_main", *(f"f{rank}_{n}" for n in range(rank + 1)))


@pytest.mark.parametrize(
    ("frames", "process"),
    [
        (("worker_main", "init_device"), "Worker"),
        (("run_engine_core", "__init__", "_initialize_kv_caches"), "EngineCore"),
        (("run_server", "build_async_engine_client"), "APIServer"),
        (("run_engine_core", "worker_main", "load_model"), "Worker"),
        (("load_model",), None),
    ],
)
def test_a_traceback_without_a_tag_belongs_to_the_innermost_entry_point(
    frames: tuple[str, ...], process: str | None
) -> None:
    assert only(traceback("RuntimeError: x", *frames)).process == process


def test_a_tag_beats_the_frames() -> None:
    assert only(tagged("(EngineCore pid=7)", traceback("RuntimeError: x", "worker_main"))).process == "EngineCore"


def test_an_anonymous_traceback_survives_what_tagged_processes_write_meanwhile() -> None:
    lines = LOAD.splitlines()
    record = "(APIServer pid=1) INFO 12-01 02:03:04 [launcher.py:1] x"
    _, blocks = read("\n".join(line for one in lines for line in (one, record)))
    assert [(block.exception, block.frames) for block in blocks] == [("ValueError", ("load_model", "load_weights"))]


@pytest.mark.parametrize(
    "stray",
    [
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]",
        "[W1201 02:52:31.279000667 utils.cpp:68] Warning: x",
        "nanobind: leaked 4 instances!",
        "Loading: done",
    ],
)
def test_an_anonymous_traceback_survives_a_line_of_somebody_else(stray: str) -> None:
    lines = LOAD.splitlines()
    events, (block,) = read("\n".join([*lines[:3], stray, *lines[3:]]))
    assert (block.exception, block.frames) == ("ValueError", ("load_model", "load_weights"))
    assert events[3].block is None


def test_a_bar_behind_a_traceback_stays_a_bar() -> None:
    events, _ = read(LOAD + "\nLoading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 24.63it/s]")
    assert events[-1].kind == "bar"


def test_a_cut_traceback_does_not_take_the_error_of_prose() -> None:
    lines = LOAD.splitlines()[:3]
    prose = ["<snip>", "Environment: docker", "Model: Qwen3", "Hardware: 2x A100", "Thanks: all", "And: more"]
    _, (block,) = read("\n".join([*lines, *prose]))
    assert block.exception == ""


def test_only_the_first_line_of_a_traceback_by_uvicorn_has_a_header() -> None:
    first, *rest = LOAD.splitlines()
    events, (block,) = read("\n".join([f"ERROR:    {first}", *rest, "ERROR:    Application startup failed. Exiting."]))
    assert (block.exception, block.frames) == ("ValueError", ("load_model", "load_weights"))
    assert (events[-1].kind, events[-1].block) == ("record", None)


def test_uvicorn_after_a_traceback_stays_a_record() -> None:
    events, _ = read(LOAD + "\nINFO:     Application startup complete.")
    assert (events[-1].kind, events[-1].text) == ("record", "Application startup complete.")


def test_a_server_that_fails_for_weeks_keeps_the_first_and_the_latest_blocks() -> None:
    text = "\n".join(traceback(f"ValueError: request {n}", "f") for n in range(3000))
    _, blocks = read(text)
    assert len(blocks) < 1000
    assert (blocks[0].message, blocks[-1].message) == ("request 0", "request 2999")


def test_a_block_that_was_forgotten_while_open_takes_no_more_lines() -> None:
    many = "\n".join(traceback(f"ValueError: request {n}", "f") for n in range(1000))
    events, blocks = read(
        "\n".join(traceback(f"ValueError: {n}", "f") for n in range(250))
        + "\n"
        + tagged("(Worker_TP0 pid=9)", LOAD)
        + f"\n{many}\n(Worker_TP0 pid=9) late words"
    )
    known = {block.number for block in blocks}
    assert events[-1].block is None or events[-1].block in known


def test_a_stack_of_endless_recursion_is_bounded() -> None:
    block = only(traceback("RecursionError: maximum recursion depth exceeded", *["f"] * 5000))
    assert len(block.frames) < 1000
    assert block.exception == "RecursionError"


@given(
    st.lists(
        st.sampled_from(
            [*LOAD.splitlines(), "", "x", "```", "  | y", "The above exception was the direct cause", "(A pid=1) z"]
        ),
        max_size=25,
    )
)
def test_no_order_of_lines_breaks_the_assembly(lines: list[str]) -> None:
    events, blocks = read("\n".join(lines))
    numbers = {block.number for block in blocks}
    assert {event.block for event in events} <= {None, *numbers}
    for block in blocks:
        assert 1 <= block.first_line <= block.last_line <= len(lines)


@pytest.mark.parametrize(
    "line", [" " * 60000 + "x", "Aa" * 30000 + "(", "A." * 30000, '  File "' + "a" * 60000, "a.b" * 20000 + "error"]
)
def test_a_long_line_inside_a_traceback_takes_linear_time(line: str) -> None:
    read(f"Traceback (most recent call last):\n{line}\n{line}\n")
