from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.reader import EventReader
from vdoctor.model import PHASES, STEPS, Line, Span, phase_of
from vdoctor.startup.timeline import Timeline, depth

API, CORE, WORKER0, WORKER1 = "APIServer pid=1", "EngineCore pid=2", "Worker_TP0 pid=3", "Worker_TP1 pid=4"


def line(seconds: int, text: str, process: str = "", level: str = "INFO") -> str:
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    tag = f"({process}) " if process else ""
    return f"{tag}{level} 12-01 {clock} [x.py:1] {text}"


def follow(*lines: str) -> Timeline:
    reader, timeline = EventReader(), Timeline()
    for event in reader.read(Line(no, text) for no, text in enumerate(lines, 1)):
        timeline.feed(event)
    return timeline


def steps(timeline: Timeline, process: str) -> list[tuple[str, float | None, float | None]]:
    return [(span.step, span.start, span.end) for span in timeline.spans() if span.process == process]


def names(timeline: Timeline, process: str) -> list[str]:
    return [step for step, _, _ in steps(timeline, process)]


UVICORN = ["INFO:     Started server process [1]", "INFO:     Application startup complete."]

V0 = [
    line(0, "vLLM API server version 0.6.6"),
    line(0, "args: Namespace(model='m')"),
    line(9, "Started engine process with PID 9"),
    line(20, "Initializing an LLM engine (v0.6.6) with config: model='m'"),
    line(24, "Starting to load model m..."),
    "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:05<00:05,  5.00s/it]",
    line(34, "Loading model weights took 14.2487 GB"),
    line(40, "Memory profiling takes 5.44 seconds"),
    line(40, "# GPU blocks: 27955, # CPU blocks: 2048"),
    line(41, "Capturing cudagraphs for decoding. This may lead to unexpected consequences if the model is not static."),
    line(61, "Graph capturing finished in 20 secs, took 0.55 GiB"),
    line(61, "init engine (profile, create kv cache, warmup model) took 27.25 seconds"),
    line(62, "Available routes are:"),
    *UVICORN,
]

V1 = [
    line(0, "vLLM API server version 0.11.2", API),
    line(0, "non-default args: {'model': 'm'}", API),
    line(12, "Initializing a V1 LLM engine (v0.11.2) with config: model='m'", CORE),
    line(20, "world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://x backend=nccl", WORKER0),
    line(20, "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://x backend=nccl", WORKER1),
    line(24, "Starting to load model m...", WORKER0),
    line(24, "Starting to load model m...", WORKER1),
    line(40, "Loading weights took 15.00 seconds", WORKER0),
    line(41, "Loading weights took 15.50 seconds", WORKER1),
    line(42, "Model loading took 7.1 GiB and 17.5 seconds", WORKER0),
    line(42, "Model loading took 7.1 GiB and 17.6 seconds", WORKER1),
    line(45, "Using cache directory: /root/x for vLLM's torch.compile", WORKER0),
    line(70, "torch.compile takes 25.00 s in total", WORKER0),
    line(75, "Available KV cache memory: 51.19 GiB", WORKER0),
    line(75, "Available KV cache memory: 51.19 GiB", WORKER1),
    line(76, "GPU KV cache size: 447,280 tokens", CORE),
    f"({WORKER0}) Capturing CUDA graphs (decode, FULL):   3%|▎         | 1/35 [00:00<00:12,  2.81it/s]",
    line(90, "Graph capturing finished in 13 secs, took 0.55 GiB", WORKER0),
    line(92, "init engine (profile, create kv cache, warmup model) took 50.25 seconds", CORE),
    line(95, "Starting vLLM API server 0 on http://0.0.0.0:8000", API),
    *(f"({API}) {text}" for text in UVICORN),
]


def test_v0_in_one_process_without_a_tag() -> None:
    timeline = follow(*V0)
    assert names(timeline, "main") == [
        "launch.config",
        "launch.engine_start",
        "weight_load.init",
        "weight_load.read",
        "kv_init.profile",
        "kv_init.allocate",
        "graph_capture.capture",
        "graph_capture.sampler",
        "runtime.startup",
        "runtime.ready",
    ]
    assert timeline.ready
    assert timeline.furthest == "runtime.ready"


def test_v1_with_a_track_for_every_process() -> None:
    timeline = follow(*V1)
    assert timeline.ready
    assert names(timeline, "APIServer") == ["launch.config", "runtime.startup", "runtime.ready"]
    assert names(timeline, "EngineCore")[0] == "launch.engine_start"
    assert names(timeline, "Worker_TP0")[:4] == [
        "launch.distributed_init",
        "weight_load.init",
        "weight_load.read",
        "weight_load.process",
    ]
    assert names(timeline, "Worker_TP1")[:4] == [
        "launch.distributed_init",
        "weight_load.init",
        "weight_load.read",
        "weight_load.process",
    ]
    assert "graph_capture.capture" in names(timeline, "Worker_TP0")


@pytest.mark.parametrize("log", [V0, V1])
def test_phases_follow_one_another_without_a_gap(log: list[str]) -> None:
    phases = follow(*log).phases()
    assert [phase.phase for phase in phases] == [phase for phase in PHASES if phase in {one.phase for one in phases}]
    assert phases[0].start == 0.0
    for one, following in itertools.pairwise(phases):
        assert one.end == following.start
    assert phases[-1].end is None


def test_vllms_own_duration_cuts_a_step_out_of_the_one_before() -> None:
    # weights were read from 40 - 15 = 25 s on, whatever came between
    found = {step: (start, end) for step, start, end in steps(follow(*V1), "Worker_TP0")}
    assert found["weight_load.init"] == (24.0, 25.0)
    assert found["weight_load.read"] == (25.0, 40.0)
    assert found["weight_load.process"] == (40.0, 42.0)


def test_a_duration_longer_than_the_step_does_not_reach_into_the_past() -> None:
    timeline = follow(
        line(10, "Starting to load model m...", WORKER0),
        line(12, "Loading weights took 500.00 seconds", WORKER0),
    )
    for _, start, end in steps(timeline, "Worker_TP0"):
        assert start is not None
        assert start >= 0.0
        assert end is None or start <= end


@pytest.mark.parametrize(
    ("cache", "step"),
    [
        (["Compiling a graph for dynamic shape takes 17.33 s"], "kv_init.compile"),
        (["Directly load the compiled graph(s) for dynamic shape from the cache, took 3.456 s"], "kv_init.compile"),
        (["Directly load AOT compilation from path /x"], "kv_init.compile"),
        ([], "kv_init.profile"),
    ],
)
def test_warm_cold_and_eager_starts(cache: list[str], step: str) -> None:
    timeline = follow(
        line(0, "Starting to load model m...", CORE),
        line(5, "Model loading took 7.1 GiB and 17.5 seconds", CORE),
        *(line(9, text, CORE) for text in cache),
    )
    assert timeline.furthest == step


MRV2_START = [
    line(0, "vLLM API server version 0.33.0", API),
    line(5, "Initializing a V1 LLM engine (v0.33.0) with config: model='m'", CORE),
    line(6, "Using V2 Model Runner", WORKER0),
    line(9, "Starting to load model m...", WORKER0),
    line(20, "Model loading took 7.1 GiB memory and 10.5 seconds", WORKER0),
    "Capturing CUDA graphs (FULL): 100%|██████████| 35/35 [00:05<00:00,  7.00it/s]",
    line(30, "Graph capturing finished in 5 secs, took 0.55 GiB", WORKER0),
]
MRV2_END = [
    line(33, "Available KV cache memory: 51.19 GiB", WORKER0),
    line(33, "GPU KV cache size: 447,280 tokens, Maximum concurrency for 40,960 tokens per request: 10.92x", CORE),
    "Capturing CUDA graphs (FULL): 100%|██████████| 35/35 [00:05<00:00,  7.00it/s]",
    line(40, "Graph capturing finished in 5 secs, took 0.55 GiB", WORKER0),
    line(42, "init engine (profile, create kv cache, warmup model) took 22.25 s", CORE),
]


@pytest.mark.parametrize("cut", [6, 7])
def test_the_first_capture_of_model_runner_v2_is_profiling(cut: int) -> None:
    timeline = follow(*MRV2_START[:cut])
    assert timeline.furthest == "kv_init.profile"
    assert all(phase_of(span.step) != "graph_capture" for span in timeline.spans())


def test_the_second_capture_of_model_runner_v2_is_the_true_one() -> None:
    timeline = follow(*MRV2_START, *MRV2_END)
    worker = names(timeline, "Worker_TP0")
    assert worker.count("graph_capture.capture") == 1
    assert worker.index("kv_init.allocate") < worker.index("graph_capture.capture")
    assert [phase.phase for phase in timeline.phases()] == list(PHASES)


@pytest.mark.parametrize(
    "lines",
    [
        # the version of the engine alone tells it from 0.29 on, where the worker's line is missing
        [text for text in MRV2_START if "V2 Model Runner" not in text],
        # the worker's line alone tells it where the head of the log is missing
        MRV2_START[2:],
    ],
)
def test_either_sign_of_model_runner_v2_is_enough(lines: list[str]) -> None:
    assert follow(*lines).furthest == "kv_init.profile"


def test_a_fallback_to_the_v1_runner_is_believed() -> None:
    timeline = follow(
        *MRV2_START[:2],
        line(5, "Model Runner V2 does not yet support LoRA; using the V1 model runner instead.", CORE, "WARNING"),
        *MRV2_START[3:],
    )
    assert timeline.furthest is not None
    assert phase_of(timeline.furthest) == "graph_capture"


def test_the_graph_memory_estimate_of_the_v1_runner_is_profiling() -> None:
    timeline = follow(
        line(0, "Initializing a V1 LLM engine (v0.23.0) with config: model='m'", CORE),
        line(1, "Starting to load model m...", CORE),
        line(9, "Model loading took 7.1 GiB memory and 10.5 seconds", CORE),
        line(12, "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 (largest=256)", CORE),
        line(15, "Estimated CUDA graph memory: 0.55 GiB total", CORE),
    )
    assert timeline.furthest == "kv_init.profile"


def test_going_back_within_kv_init_is_normal_and_between_phases_an_echo() -> None:
    timeline = follow(
        line(0, "Starting to load model m...", CORE),
        line(5, "Model loading took 7.1 GiB and 4.5 seconds", CORE),
        line(6, "Dynamo bytecode transform time: 4.94 s", CORE),
        line(9, "torch.compile takes 3.00 s in total", CORE),
        line(10, "Compiling a graph for shape 8 takes 1.33 s", CORE),
        line(12, "Loading drafter model...", CORE),
    )
    assert names(timeline, "EngineCore") == [
        "weight_load.init",
        "kv_init.profile",
        "kv_init.compile",
        "kv_init.profile",
        "kv_init.compile",
    ]
    assert timeline.furthest is not None
    assert phase_of(timeline.furthest) == "kv_init"


def test_a_worker_gets_its_full_name_once_its_groups_exist() -> None:
    timeline = follow(
        line(0, "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://x backend=nccl", "Worker pid=4"),
        line(4, "Starting to load model m...", "Worker_TP1_EP1 pid=4"),
    )
    assert {span.process for span in timeline.spans()} == {"Worker_TP1_EP1"}


@given(st.randoms(use_true_random=False))
def test_ranks_that_write_at_the_same_time_do_not_mix(order: random.Random) -> None:
    work = [
        "Starting to load model m...",
        "Loading weights took 1.00 seconds",
        "Model loading took 7.1 GiB and 4.5 seconds",
        "Available KV cache memory: 51.19 GiB",
    ]
    queues = [[line(10, text, f"Worker_TP{rank} pid={10 + rank}") for text in work[: rank + 1]] for rank in range(4)]
    log = []
    while any(queues):
        log.append(order.choice([queue for queue in queues if queue]).pop(0))
    timeline = follow(line(9, "Using V2 Model Runner"), *log)
    assert [names(timeline, f"Worker_TP{rank}")[-1] for rank in range(4)] == [
        "weight_load.init",
        "weight_load.process",
        "kv_init.profile",
        "kv_init.allocate",
    ]


def test_bars_without_a_tag_belong_to_the_process_that_loads() -> None:
    timeline = follow(
        line(0, "Starting to load model m...", WORKER0),
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:05<00:05,  5.00s/it]",
    )
    assert names(timeline, "Worker_TP0") == ["weight_load.init", "weight_load.read"]
    assert {span.process for span in timeline.spans()} == {"Worker_TP0"}


def test_of_several_loading_ranks_the_first_draws_the_bars() -> None:
    timeline = follow(
        line(0, "Starting to load model m...", WORKER0),
        line(0, "Starting to load model m...", WORKER1),
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:05<00:05,  5.00s/it]",
    )
    assert names(timeline, "Worker_TP0") == ["weight_load.init", "weight_load.read"]
    assert names(timeline, "Worker_TP1") == ["weight_load.init"]


def test_uvicorn_without_a_tag_belongs_to_the_api_server() -> None:
    timeline = follow(*MRV2_START, *MRV2_END, line(44, "Starting vLLM server on http://0.0.0.0:8000", API), *UVICORN)
    assert timeline.ready
    assert names(timeline, "APIServer")[-1] == "runtime.ready"
    assert "main" not in {span.process for span in timeline.spans()}


def test_a_log_without_times_has_spans_without_times() -> None:
    timeline = follow(
        "Starting to load model m...",
        "Loading weights took 15.00 seconds",
        "Model loading took 7.1 GiB and 17.5 seconds",
        "GPU KV cache size: 447,280 tokens",
    )
    assert timeline.now is None
    assert [(span.start, span.end) for span in timeline.spans()] == [(None, None)] * len(timeline.spans())
    assert timeline.furthest == "kv_init.allocate"
    assert [phase.phase for phase in timeline.phases()] == ["weight_load", "kv_init"]


def test_the_tail_of_a_serving_log_is_ready() -> None:
    timeline = follow(
        line(
            0,
            "Engine 000: Avg prompt throughput: 12.3 tokens/s, Avg generation throughput: 4.5 tokens/s, Running: 1 reqs",
            API,
        ),
        'INFO:     10.0.0.7:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    )
    assert timeline.ready
    assert timeline.furthest == "runtime.serving"


def test_requests_of_another_server_do_not_make_a_starting_one_ready() -> None:
    timeline = follow(
        line(0, "vLLM API server version 0.11.2", API),
        'INFO:     10.0.0.7:5 - "GET /health HTTP/1.1" 200 OK',
        line(4, "Starting to load model m...", CORE),
        'INFO:     10.0.0.7:5 - "GET /health HTTP/1.1" 200 OK',
    )
    assert not timeline.ready
    assert timeline.furthest == "weight_load.init"


def test_a_second_start_in_one_log_begins_from_the_front() -> None:
    timeline = follow(*V1, *V1[:6])
    assert timeline.starts == 2
    assert not timeline.ready
    assert timeline.furthest == "weight_load.init"
    assert [phase.phase for phase in timeline.phases()] == ["launch", "weight_load"]


def test_a_second_start_profiles_again() -> None:
    timeline = follow(*MRV2_START, *MRV2_END, *MRV2_START)
    assert (timeline.starts, timeline.furthest) == (2, "kv_init.profile")


def test_the_two_banners_of_one_start_are_one_start() -> None:
    timeline = follow(
        line(0, " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.20.2", API),
        line(0, "vLLM API server version 0.20.2", API),
        line(0, "non-default args: {'model': 'm'}", API),
    )
    assert timeline.starts == 1


def test_a_restart_forgets_the_shutdown_before_it() -> None:
    timeline = follow(*V0, line(99, "[shutdown] API server: shutdown triggered"), *V0[:5])
    assert timeline.shutdown_line is None
    assert follow(*V0, line(99, "[shutdown] API server: shutdown triggered")).shutdown_line == len(V0) + 1


def test_lines_of_tracebacks_are_no_markers() -> None:
    timeline = follow(
        line(0, "vLLM API server version 0.11.2", API),
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in f',
        "    log('Starting to load model m...')",
        "RuntimeError: x",
        "Starting to load model in the tail of the message",
    )
    assert timeline.furthest == "launch.config"


@pytest.mark.parametrize(
    ("process", "step"),
    [
        # the ranks go in step, and a parent waits for its children
        (WORKER0, "kv_init.profile"),
        (WORKER1, "kv_init.profile"),
        (CORE, "kv_init.profile"),
        (API, "kv_init.profile"),
        ("", "kv_init.profile"),
    ],
)
def test_a_line_of_anybody_stands_at_the_step_of_the_innermost_process_at_work(process: str, step: str) -> None:
    timeline = follow(
        *V1[:3],
        line(14, "Starting to load model m...", WORKER0),
        line(14, "Starting to load model m...", WORKER1),
        line(19, "Model loading took 7.1 GiB and 4.5 seconds", WORKER1),
    )
    (event,) = EventReader().read([Line(9, line(20, "anything", process))])
    assert timeline.step_at(event) == step


def test_before_the_first_marker_there_is_no_step() -> None:
    (event,) = EventReader().read([Line(1, line(0, "anything", API))])
    assert follow().step_at(event) is None


def test_children_at_work_end_the_launch_of_their_parents() -> None:
    timeline = follow(*V1[:6])
    api = steps(timeline, "APIServer")
    core = steps(timeline, "EngineCore")
    assert api == [("launch.config", 0.0, 12.0)]
    assert core == [("launch.engine_start", 12.0, 20.0)]


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        ("APIServer", 0),
        ("main", 0),
        ("EngineCore_DP0", 1),
        ("DPEngineCoreActor_DP0", 1),
        ("Worker_TP0", 2),
        ("VllmWorker rank=1", 2),
        ("RayWorkerProc pid=3", 2),
    ],
)
def test_how_far_inside_a_process_is(process: str, expected: int) -> None:
    assert depth(process) == expected


def sound(spans: tuple[Span, ...]) -> None:
    for span in spans:
        assert span.step in STEPS
        assert span.first_line <= span.last_line
        if span.start is not None and span.end is not None:
            assert span.start <= span.end


@given(
    st.lists(
        st.sampled_from([*V0, *V1, *MRV2_START, *MRV2_END, "Traceback (most recent call last):", "x"]), max_size=60
    )
)
def test_no_order_of_lines_breaks_the_timeline(log: list[str]) -> None:
    timeline = follow(*log)
    sound(timeline.spans())
    assert timeline.furthest in (None, *STEPS)
    assert len({phase.phase for phase in timeline.phases()}) == len(timeline.phases())


@given(st.integers(0, len(V1)))
def test_a_cut_log_ends_where_it_was_cut(length: int) -> None:
    timeline = follow(*V1[:length])
    sound(timeline.spans())
    reached = [STEPS.index(span.step) for span in timeline.spans()]
    assert bool(reached) == (timeline.furthest is not None)
    if timeline.furthest is not None:
        assert phase_of(timeline.furthest) == phase_of(STEPS[max(reached)])
    assert timeline.ready == (length >= len(V1))
