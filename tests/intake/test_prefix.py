from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.intake.prefix import strip

RECORD = "INFO 12-01 02:03:04 [core.py:97] hello"


@pytest.mark.parametrize(
    "prefix",
    [
        # docker compose, with and without padding, one service or many
        "vllm-1  | ",
        "vllm-1 | ",
        "vllm_server_1  | ",
        "vllm-openai           | ",
        # kubectl logs
        "[pod/vllm-7d9f8b6c5d-x2x4z/vllm] ",
        "2025-07-02T15:32:50.786405823Z ",
        "[pod/vllm-0/vllm] 2025-07-02T15:32:50.786405823Z ",
        # containerd files, both streams, partial lines
        "2025-07-02T15:32:50.786405823+08:00 stdout F ",
        "2025-07-02T15:32:50.786405823+08:00 stderr P ",
        # stern of a deployment and of a stateful set
        "vllm-7d9f8b6c5d-x2x4z vllm ",
        "vllm-leader-0 vllm-leader ",
        # journalctl in three formats
        "Jul 02 15:32:50 gpu01 vllm[1234]: ",
        "Jul  2 15:32:50 gpu01 docker[1]: ",
        "Jul 02 15:32:50.123456 gpu01 vllm[1234]: ",
        "2025-07-02T15:32:50+0800 gpu01 vllm[1234]: ",
        # GKE
        "INFO 2025-01-02T03:04:05.678901234Z [resource.labels.containerName: vllm] ",
        "ERROR 2025-01-02T03:04:05Z ",
        # srun --label, quoted mail, a Rust front end
        "0: ",
        " 3: ",
        "12: ",
        "> ",
        "INFO dynamo::worker: VLLM: ",
        # one within another
        "Jul  2 15:32:50 gpu01 docker-compose[1]: vllm-1  | ",
        "vllm-1  | 2025-07-02T15:32:50.786405823Z ",
        "> > ",
    ],
)
@pytest.mark.parametrize("line", [RECORD, "Traceback (most recent call last):", "ValueError: no"])
def test_removes_what_log_shippers_put_in_front(prefix: str, line: str) -> None:
    assert strip(prefix + line).text == line


@pytest.mark.parametrize("prefix", ["0: ", "vllm-7d9f8b6c5d-x2x4z vllm ", "vllm-1  | ", "[rank0]: ", "│ "])
def test_keeps_the_indentation_of_tracebacks(prefix: str) -> None:
    assert strip(prefix + '  File "a.py", line 1, in f').text == '  File "a.py", line 1, in f'
    assert strip(prefix + "    f()").text == "    f()"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"│ (EngineCore_DP0 pid=7) {RECORD}            │", RECORD),
        (f"│ {RECORD}", RECORD),
        ("│", ""),
        ("│                    │", ""),
    ],
)
def test_removes_the_frame_of_a_viewer(text: str, line: str) -> None:
    assert strip(text).text == line


@pytest.mark.parametrize(
    "text",
    [
        RECORD,
        "DEBUG 12-01 02:03:04 [core.py:97] x",
        "INFO:     Started server process [1]",
        "[HAMI-core Msg(7:140:libvgpu.c:836)]: Initializing.....",
        "[HAMI-core Warn(7:1:utils.c:183)]: get default cuda from (null)",
        "[Gloo] Rank 0 is connected to 0 peer ranks.",
        "gpu01:123:456 [0] NCCL INFO Bootstrap : Using eth0",
        "(null)",
        "(a pid=)",
        "(",
        "",
        "ValueError: a | b",
        "vllm serve m | tee log",
        "| 0  NVIDIA A100-SXM4-80GB  On | 00000000:07:00.0 Off |",
        "1: 2 3",
        "0: hello",
        "health-check failed (503)",
        "flash-attn2 raised [1]",
        "llama-3 is (very) large",
        "[1]  + 1234 killed  vllm serve",
        "WARNING 2025 is here",
        "INFO",
        "ERROR",
        "http://x | y",
    ],
)
def test_leaves_lines_alone_that_only_look_like_it(text: str) -> None:
    stripped = strip(text)
    assert stripped.text == text
    assert stripped.process is None


@pytest.mark.parametrize(
    ("tag", "process", "pid", "rank"),
    [
        ("(APIServer pid=21946)", "APIServer", 21946, None),
        ("(ApiServer_3 pid=9)", "ApiServer_3", 9, None),
        ("(EngineCore pid=8)", "EngineCore", 8, None),
        ("(EngineCore_DP12 pid=8)", "EngineCore_DP12", 8, None),
        ("(EngineCore_0 pid=8)", "EngineCore_0", 8, None),
        ("(Worker pid=3)", "Worker", 3, None),
        ("(Worker_TP5 pid=3)", "Worker_TP5", 3, 5),
        ("(Worker_DP0_PP1_TP2_EP3 pid=3)", "Worker_DP0_PP1_TP2_EP3", 3, 2),
        ("(VllmWorker-0 pid=3)", "VllmWorker-0", 3, None),
        ("(VllmWorker rank=7 pid=55)", "VllmWorker rank=7", 55, 7),
        ("(VllmWorkerProcess pid=55)", "VllmWorkerProcess pid=55", 55, None),
        ("(RayWorkerWrapper pid=123, ip=10.0.0.2)", "RayWorkerWrapper pid=123", 123, None),
        ("(RayWorkerProc pid=123)", "RayWorkerProc pid=123", 123, None),
        ("(DPEngineCoreActor_DP0 pid=4)", "DPEngineCoreActor_DP0", 4, None),
        ("(ServeReplica:default:VLLMDeployment pid=4)", "ServeReplica:default:VLLMDeployment", 4, None),
        (
            "(MapWorker(MapBatches(vLLMEngineStageUDF)) pid=12, ip=fe80::1)",
            "MapWorker(MapBatches(vLLMEngineStageUDF))",
            12,
            None,
        ),
    ],
)
def test_reads_the_process_tag(tag: str, process: str, pid: int, rank: int | None) -> None:
    stripped = strip(f"{tag} {RECORD}")
    assert stripped.text == RECORD
    assert (stripped.process, stripped.pid, stripped.rank) == (process, pid, rank)


def test_of_stacked_tags_the_innermost_is_the_writer() -> None:
    stripped = strip(f"(RayWorkerWrapper pid=1, ip=10.0.0.2) (EngineCore_DP0 pid=7) (Worker_TP1_EP1 pid=8) {RECORD}")
    assert (stripped.process, stripped.pid, stripped.rank, stripped.text) == ("Worker_TP1_EP1", 8, 1, RECORD)


@pytest.mark.parametrize(
    "text",
    [
        f"(RayWorkerWrapper pid=9, ip=10.0.0.2) {RECORD} [repeated 7x across cluster]",
        f"(RayWorkerWrapper pid=9) {RECORD} [repeated 15x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 ...)",
    ],
)
def test_the_count_of_repeats_by_ray_is_no_part_of_the_message(text: str) -> None:
    assert strip(text).text == RECORD


def test_the_count_is_kept_in_text_that_ray_did_not_write() -> None:
    text = "seen [repeated 7x across cluster]"
    assert strip(text).text == text


@pytest.mark.parametrize(
    ("text", "rank", "rest"),
    [
        ("[rank0]: Traceback (most recent call last):", 0, "Traceback (most recent call last):"),
        ('[rank13]:   File "a.py", line 1, in f', 13, '  File "a.py", line 1, in f'),
        ("[rank3]: ValueError: x", 3, "ValueError: x"),
        ("[default1]:torch.OutOfMemoryError: CUDA out of memory.", 1, "torch.OutOfMemoryError: CUDA out of memory."),
        ("[rank3]:[W1201 02:52:31.2 ProcessGroupNCCL.cpp:1] w", 3, "[W1201 02:52:31.2 ProcessGroupNCCL.cpp:1] w"),
    ],
)
def test_reads_the_rank_that_torch_prints(text: str, rank: int, rest: str) -> None:
    assert (strip(text).rank, strip(text).text) == (rank, rest)


def test_the_autoscaler_of_ray_is_no_process() -> None:
    stripped = strip("(autoscaler +1m20s) Tip: use `ray status`")
    assert (stripped.text, stripped.process) == ("Tip: use `ray status`", None)


@pytest.mark.parametrize(
    ("one", "other", "seconds"),
    [
        ("2025-07-02T15:32:50Z x", "2025-07-02T15:32:53.5Z x", 3.5),
        ("2025-07-02T15:32:50+08:00 stdout F x", "2025-07-02T07:32:51Z x", 1.0),
        ("[2025-07-02 15:32:50,000] x", "[2025-07-02 15:33:50,250] x", 60.25),
        ("INFO 2025-12-31T23:59:59Z x", "INFO 2026-01-01T00:00:01Z x", 2.0),
    ],
)
def test_reads_the_time_stamp_of_the_shipper(one: str, other: str, seconds: float) -> None:
    first, second = strip(one).time, strip(other).time
    assert first is not None
    assert second is not None
    assert second - first == pytest.approx(seconds)


def test_the_outermost_time_stamp_counts() -> None:
    assert strip("2025-07-02T15:32:50Z 2020-01-01T00:00:00Z x").time == strip("2025-07-02T15:32:50Z x").time


hostile = st.lists(
    st.one_of(
        st.sampled_from(
            ["(", ")", "(A pid=1) ", "pid=", "[rank1]: ", "│ ", "> ", "x | ", "2025-07-02T15:32:50Z ", "INFO ", "0: "]
        ),
        st.text(max_size=3),
    ),
    max_size=20,
).map("".join)


@given(hostile)
def test_what_is_left_is_the_end_of_the_line(text: str) -> None:
    left = strip(text).text
    assert left in text
    if "│" not in text:
        assert text.endswith(left)


@pytest.mark.parametrize(
    "line",
    [
        "(a" * 30000,
        "│" + " " * 60000 + "x",
        "vllm-0 vllm (" + "x" * 60000,
        "a-" * 30000,
        "INFO a" + "::a" * 20000,
        "(A" + "(b)" * 20000,
    ],
)
def test_a_long_hostile_line_takes_linear_time(line: str) -> None:
    assert len(strip(line).text) <= len(line)
