"""Hung or just slow: the verdict for servers whose processes do this or that."""

from __future__ import annotations

import pytest

from tests.startup.bench import GIB, SPIN, Bench
from vdoctor.model import Event, GpuSample, Motion, Sample, Stack
from vdoctor.startup.patience import STEPS
from vdoctor.startup.progress import Progress

ONE = ("APIServer", "EngineCore", "Worker")
TWO = ("APIServer", "EngineCore", "Worker_TP0", "Worker_TP1")


def stalled(bench: Bench) -> Motion:
    motion = bench.motion
    assert motion.state == "stalled", motion
    return motion


def never_stalled(bench: Bench, seconds: float, **does: dict[str, float]) -> Motion:
    """Runs in parts and looks at each."""
    for _ in range(int(seconds // 10)):
        bench.run(10, **does)
        assert bench.motion.state != "stalled", bench.motion
    return bench.motion


def test_nothing_is_known_before_anything_was_seen() -> None:
    assert Progress().verdict() is None


@pytest.mark.parametrize("step", STEPS)
def test_process_that_computes_alone_is_slow_in_the_end_and_never_stalled(step: str) -> None:
    bench = Bench(*ONE)
    bench.enter(step)
    motion = never_stalled(bench, 1300, Worker=SPIN)
    if step not in ("runtime.ready", "runtime.serving"):
        assert (motion.state, motion.kind) == ("slow", None)
        assert (motion.process, motion.doing) == ("Worker", "capturing" if step.endswith(".capture") else "computing")


@pytest.mark.parametrize("step", [step for step in STEPS if step not in ("runtime.ready", "runtime.serving")])
def test_start_in_which_nothing_moves_is_stalled_after_the_patience_of_its_step(step: str) -> None:
    bench = Bench(*ONE)
    bench.enter(step)
    bench.run(4, Worker=SPIN)
    bench.run(STEPS[step].idle - 1)
    assert bench.motion.state != "stalled"
    bench.run(8)  # the use of the processor is averaged over five seconds
    assert STEPS[step].idle <= stalled(bench).since < STEPS[step].idle + 8


def test_stall_after_replaces_the_patience_of_the_step() -> None:
    bench = Bench(*ONE, stall_after=20)
    bench.enter("kv_init.profile")
    bench.run(19)
    assert bench.motion.state != "stalled"
    bench.run(5)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.waiting) == ("unknown", "Worker", ("APIServer", "EngineCore"))


def test_stopped_worker_is_a_stall_within_seconds_however_busy_the_others_are() -> None:
    bench = Bench(*TWO)
    bench.enter("weight_load.read")
    bench.run(10, Worker_TP0=SPIN, Worker_TP1=SPIN)
    bench.set("Worker_TP1", state="T")
    bench.run(3, Worker_TP0={"cpu": 0.9, "read": 1e8}, EngineCore=SPIN)
    assert bench.motion.state != "stalled"
    bench.run(3, Worker_TP0={"cpu": 0.9, "read": 1e8}, EngineCore=SPIN)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.pid) == ("stopped", "Worker_TP1", bench.processes["Worker_TP1"].pid)
    assert motion.waiting == ("APIServer", "EngineCore", "Worker_TP0")
    assert 3 <= motion.since <= 6


def test_stopped_worker_that_goes_on_is_no_stall_any_more() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.set("Worker", state="T")
    bench.run(60)
    stalled(bench)
    bench.set("Worker", state="R")
    bench.run(5, Worker=SPIN)
    assert bench.motion.state == "progressing"


def test_debugger_that_looks_for_a_moment_is_no_stall() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.run(5, Worker=SPIN)
    bench.set("Worker", state="t")
    bench.run(8)
    assert bench.motion.state == "progressing"


def test_stopped_server_is_a_stall_even_when_it_serves_nobody() -> None:
    bench = Bench(*ONE)
    bench.enter("runtime.ready")
    bench.set("EngineCore", state="T")
    bench.run(6)
    motion = stalled(bench)
    assert (motion.kind, motion.process) == ("stopped", "EngineCore")


def test_stopped_resource_tracker_is_nobodys_concern() -> None:
    bench = Bench(*ONE)
    bench.add("resource_tracker", state="T")
    bench.enter("kv_init.profile")
    bench.run(30, Worker=SPIN)
    assert bench.motion.state == "progressing"


def test_background_threads_of_a_waiting_process_are_no_progress() -> None:
    bench = Bench(*ONE)
    bench.enter("weight_load.read")
    bench.set("Worker", wchan="request_wait_answer")
    bench.run(130, Worker={"cpu": 0.04}, APIServer={"cpu": 0.05})
    assert stalled(bench).kind == "storage"


def test_process_that_gets_a_tenth_of_a_core_computes() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    never_stalled(bench, 600, Worker={"cpu": 0.1})


def test_engine_that_spins_while_its_worker_hangs_is_no_progress() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.run(190, EngineCore=SPIN)
    assert stalled(bench).process == "Worker"


def test_compilers_that_come_and_go_are_progress() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    for number in range(40):
        bench.add(f"cc1plus-{number}", role="compiler", state="R")
        bench.run(8, **{f"cc1plus-{number}": SPIN})
        assert bench.motion.state != "stalled"
        assert bench.motion.doing == "compiling"
        del bench.processes[f"cc1plus-{number}"]
        bench.run(3)
    assert bench.motion.state == "slow"


def test_compiler_that_does_nothing_is_a_stall() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    pid = bench.add("cc1plus", role="compiler")
    bench.run(190)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.pid) == ("compile", "cc1plus", pid)


def test_slow_storage_is_slow_with_its_rate() -> None:
    bench = Bench(*ONE)
    bench.enter("weight_load.read")
    motion = never_stalled(bench, 400, Worker={"cpu": 0.013, "read": 12e6, "grow": 12e6})
    assert (motion.state, motion.doing) == ("slow", "reading")
    assert motion.rate == pytest.approx(12e6, rel=0.2)


def test_fast_storage_is_on_its_way_however_long_it_takes() -> None:
    bench = Bench(*ONE)
    bench.enter("weight_load.read")
    assert never_stalled(bench, 900, Worker={"cpu": 0.5, "read": 1e9}).state == "progressing"


def test_pages_that_come_from_the_cache_are_progress() -> None:
    bench = Bench(*ONE)
    bench.enter("weight_load.read")
    motion = never_stalled(bench, 300, Worker={"cpu": 0.01, "grow": 2e6})
    # Memory grows by the pages that are read and by the copies that are made of them: no rate of reading.
    assert (motion.state, motion.doing, motion.rate) == ("slow", "reading", None)
    motion = never_stalled(bench, 100, Worker={"cpu": 0.5, "grow": 1e9})
    assert motion.state == "progressing"


@pytest.mark.parametrize(
    ("fields", "host", "kind"),
    [
        ({"state": "D", "wchan": "folio_wait_bit_common"}, {}, "storage"),
        ({"state": "S", "wchan": "rpc_wait_bit_killable"}, {}, "storage"),
        ({"state": "D", "wchan": None}, {}, "storage"),
        ({"state": "S", "wchan": "request_wait_answer"}, {}, "storage"),
        ({"state": "D", "wchan": "uvm_va_block_wait"}, {}, "unknown"),
        ({"state": "S", "wchan": "poll_schedule_timeout.constprop.0"}, {}, "unknown"),
        ({"state": "S", "wchan": "futex_do_wait"}, {}, "lock"),
        ({"state": "S", "wchan": None}, {}, "unknown"),
        ({"state": "D", "wchan": "folio_wait_bit_common"}, {"cgroup_used": 99, "cgroup_limit": 100}, "memory"),
        ({"state": "S", "wchan": "futex_do_wait"}, {"available": 1 << 20}, "memory"),
    ],
)
def test_kind_is_read_from_the_state_of_the_process(fields: dict[str, str], host: dict[str, int], kind: str) -> None:
    bench = Bench(*ONE)
    bench.enter("weight_load.read")
    bench.host = host
    bench.set("Worker", **fields)
    bench.run(130)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.waiting) == (kind, "Worker", ("APIServer", "EngineCore"))


# ---------------------------------------------------------------------- ranks


def test_rank_that_does_nothing_while_the_other_spins_is_behind() -> None:
    bench = Bench(*TWO)
    bench.enter("launch.distributed_init")
    bench.run(10, Worker_TP0=SPIN, Worker_TP1=SPIN)
    bench.run(135, Worker_TP0=SPIN)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.waiting) == ("rank-behind", "Worker_TP1", ("Worker_TP0",))
    assert motion.since >= 120


def test_rank_that_waits_for_one_that_reads_is_no_stall() -> None:
    bench = Bench(*TWO)
    bench.enter("weight_load.read")
    never_stalled(bench, 1000, Worker_TP0={"cpu": 0.9, "read": 1e8})


def test_rank_that_waits_for_one_that_compiles_is_no_stall_for_a_quarter_of_an_hour() -> None:
    bench = Bench(*TWO)
    bench.enter("kv_init.compile")
    never_stalled(bench, 800, Worker_TP0=SPIN)


def test_ranks_that_spin_together_while_they_meet_wait_for_each_other() -> None:
    bench = Bench(*TWO)
    bench.enter("launch.distributed_init")
    bench.run(110, Worker_TP0=SPIN, Worker_TP1=SPIN)
    assert bench.motion.state != "stalled"
    bench.run(20, Worker_TP0=SPIN, Worker_TP1=SPIN)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.waiting) == ("collective", None, ("Worker_TP0", "Worker_TP1"))


@pytest.mark.parametrize(("utilization", "memory", "state"), [(100, 0, "stalled"), (60, 0, "slow"), (100, GIB, "slow")])
def test_ranks_that_spin_on_full_gpus_wait_for_each_other_when_memory_stands_still(
    utilization: int, memory: int, state: str
) -> None:
    bench = Bench(*TWO)
    bench.enter("graph_capture.capture")
    for second in range(330):
        used = 10 * GIB + memory * (second // 100)
        bench.gpus = tuple(GpuSample(n, "L4", None, 24 * GIB, used, utilization) for n in (0, 1))
        bench.run(1, Worker_TP0=SPIN, Worker_TP1=SPIN)
    assert bench.motion.state == state
    assert bench.motion.kind == ("collective" if state == "stalled" else None)


def test_rank_that_died_is_named() -> None:
    bench = Bench(*TWO)
    bench.enter("weight_load.read")
    bench.run(5, Worker_TP0=SPIN, Worker_TP1=SPIN)
    del bench.processes["Worker_TP1"]
    bench.run(40, Worker_TP0=SPIN)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.pid) == ("rank-dead", "Worker_TP1", None)
    assert motion.waiting == ("APIServer", "EngineCore", "Worker_TP0")


def test_engine_that_dies_under_a_server_that_goes_on_is_told_without_any_request() -> None:
    bench = Bench("APIServer", "EngineCore")
    bench.enter("runtime.ready")
    bench.run(60)
    assert bench.motion.doing == "serving"
    bench.set("EngineCore", state="Z")
    bench.run(20)
    assert bench.motion.state == "progressing"
    bench.run(15)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.waiting) == ("rank-dead", "EngineCore", ("APIServer",))


def test_rank_that_ended_before_the_server_got_ready_all_the_same_was_not_needed() -> None:
    bench = Bench(*TWO)
    bench.enter("weight_load.read")
    bench.run(5, Worker_TP0=SPIN)
    del bench.processes["Worker_TP1"]
    bench.run(5, Worker_TP0=SPIN)
    bench.line("ready", "APIServer", "runtime.ready")
    never_stalled(bench, 100)


@pytest.mark.parametrize("share", [0.3, 0.04])
def test_ranks_that_get_little_of_few_cores_spin_all_the_same(share: float) -> None:
    bench = Bench(*TWO, "Worker_TP2")
    bench.enter("launch.distributed_init")
    for name in ("Worker_TP0", "Worker_TP2"):
        bench.set(name, state="R")
    bench.run(135, Worker_TP0={"cpu": share}, Worker_TP2={"cpu": share})
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.waiting) == ("rank-behind", "Worker_TP1", ("Worker_TP0", "Worker_TP2"))


def test_process_that_hardly_gets_a_core_and_wants_one_is_no_stall() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.compile")
    bench.set("Worker", state="R")
    assert never_stalled(bench, 400, Worker={"cpu": 0.02}).state == "slow"


def test_zombie_is_as_dead_as_one_that_is_gone() -> None:
    bench = Bench(*TWO)
    bench.enter("weight_load.read")
    bench.run(5, Worker_TP0=SPIN, Worker_TP1=SPIN)
    bench.set("Worker_TP1", state="Z")
    bench.run(40, Worker_TP0=SPIN)
    assert stalled(bench).kind == "rank-dead"


def test_ranks_that_sleep_where_they_meet_wait_for_one_that_is_not_here() -> None:
    bench = Bench(*TWO)
    bench.enter("launch.distributed_init")
    bench.run(130)
    motion = stalled(bench)
    assert (motion.kind, motion.process) == ("rank-behind", None)


# ---------------------------------------------------------------------- the hub


def test_hub_that_sends_nothing_is_a_stall_of_the_download() -> None:
    bench = Bench("APIServer", hub=True)
    bench.enter("launch.config")
    bench.run(70)
    motion = stalled(bench)
    assert (motion.kind, motion.process) == ("download", "APIServer")


def test_hub_that_sends_to_the_network_alone_is_no_stall() -> None:
    bench = Bench("APIServer", hub=True)
    bench.enter("weight_load.download")
    for second in range(400):
        bench.host = {"net_received": second * 2000, "downloading": 0}
        bench.run(1)
        assert bench.motion.state != "stalled"
    assert (bench.motion.state, bench.motion.doing) == ("slow", "downloading")


def test_bytes_that_drip_into_the_connection_are_a_download_though_no_file_grows() -> None:
    bench = Bench(*ONE, hub=True)
    bench.enter("weight_load.init")
    for second in range(300):
        bench.host = {"net_received": 0, "downloading": 0, "tcp_received": 500 * (second // 5)}
        bench.run(1)
        assert bench.motion.state != "stalled"
    assert (bench.motion.state, bench.motion.doing) == ("slow", "downloading")
    assert bench.motion.rate == pytest.approx(100, rel=0.4)


def test_other_traffic_of_the_machine_does_not_hide_a_silent_hub() -> None:
    bench = Bench("APIServer", hub=True)
    bench.enter("launch.config")
    for second in range(70):
        bench.host = {"net_received": second * 10_000_000, "tcp_received": 300}
        bench.run(1)
    assert stalled(bench).kind == "download"


def test_file_that_grows_is_a_download_on_its_way() -> None:
    bench = Bench(*ONE, hub=True)
    bench.enter("weight_load.download")
    for second in range(200):
        bench.host = {"downloading": second * 50_000_000}
        bench.run(1)
    assert (bench.motion.state, bench.motion.doing) == ("progressing", "downloading")
    assert bench.motion.rate == pytest.approx(50e6, rel=0.05)


def test_file_that_stops_growing_is_a_stall_though_the_network_chats() -> None:
    bench = Bench(*ONE, hub=True)
    bench.enter("weight_load.download")
    for second in range(300):
        bench.host = {"downloading": min(second, 60) * 1_000_000, "net_received": second * 100}
        bench.run(1)
    assert stalled(bench).kind == "download"


def test_local_model_never_waits_for_the_hub() -> None:
    bench = Bench("APIServer")
    bench.enter("launch.config")
    bench.run(70)
    assert stalled(bench).kind == "unknown"


def test_file_lock_of_the_cache_is_told_from_a_silent_hub() -> None:
    bench = Bench("APIServer", hub=True)
    bench.enter("launch.config")
    bench.set("APIServer", wchan="hrtimer_nanosleep")
    bench.run(70)
    assert stalled(bench).kind == "lock"


# ---------------------------------------------------------------------- lines


def test_heartbeats_are_no_progress() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    for _ in range(40):
        bench.line("Waiting for 1 local, 0 remote core engine proc(s) to start.", "APIServer")
        bench.line(
            "No available shared memory broadcast block found in 60 seconds. This typically happens", "EngineCore"
        )
        bench.line('127.0.0.1:55555 - "GET /health HTTP/1.1" 503', "APIServer")
        bench.run(5)
    assert stalled(bench).kind == "lock"


def test_news_is_progress() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    for number in range(60):
        bench.line("something new: " + "x" * number)
        bench.run(5)
    assert bench.motion.state == "slow"  # past what the step takes, and not stuck


def test_line_that_comes_again_and_again_is_no_progress() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    for number in range(60):
        bench.line(f"still nothing after {number} attempts")
        bench.run(5)
    stalled(bench)


# ---------------------------------------------------------------------- out of sight


def test_container_client_is_no_server() -> None:
    bench = Bench()
    bench.add("docker", role=None)
    bench.line("Starting to load model m...", "Worker", "weight_load.init")
    assert never_stalled(bench, 900).state == "slow"


def test_workers_that_are_not_in_the_tree_are_out_of_sight() -> None:
    bench = Bench("APIServer")
    bench.enter("launch.config")
    bench.progress.line(Event(2, "record", "loads", "loads", "Worker_TP0", 99999), bench.t, "weight_load.init")
    assert never_stalled(bench, 900).state == "slow"


def test_program_that_is_not_vllm_is_left_alone() -> None:
    bench = Bench("python3")
    assert never_stalled(bench, 900).state != "stalled"


def test_server_that_was_there_before_is_never_stalled_for_being_idle() -> None:
    bench = Bench(*ONE)
    assert never_stalled(bench, 900).doing == "serving"
    bench.set("Worker", state="T")
    bench.run(6)
    assert stalled(bench).kind == "stopped"


def test_time_without_samples_proves_nothing() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.run(10, Worker=SPIN)
    bench.t += 3600  # the machine slept
    bench.sample()
    assert bench.motion.state == "progressing"


def test_lines_alone_never_prove_a_stall() -> None:
    progress = Progress()
    progress.line(Event(1, "record", "a", "a"), 1.0, "kv_init.compile")
    for t in range(2, 2000, 4):
        progress.sample(Sample(float(t)))
        motion = progress.verdict()
        assert motion is not None and motion.state != "stalled"
    assert motion.state == "slow"


# ---------------------------------------------------------------------- serving


def serving(*names: str, requests: int = 1) -> Bench:
    bench = Bench(*names)
    bench.enter("runtime.ready")
    bench.metrics = {"vllm:num_requests_running": float(requests), "vllm:generation_tokens_total": 10.0}
    return bench


def test_idle_server_is_never_stalled() -> None:
    motion = never_stalled(serving(*TWO, requests=0), 2000)
    assert (motion.state, motion.doing) == ("progressing", "serving")


def test_server_without_known_work_is_never_stalled() -> None:
    bench = Bench(*TWO)
    bench.enter("runtime.serving")
    never_stalled(bench, 2000, Worker_TP0=SPIN)


def test_request_of_which_nothing_comes_is_a_stall() -> None:
    bench = serving(*ONE)
    bench.run(75)
    motion = stalled(bench)
    assert (motion.kind, motion.process) == ("unknown", "Worker")


def test_request_that_brings_tokens_is_none() -> None:
    bench = serving(*ONE)
    for second in range(300):
        bench.metrics = {"vllm:num_requests_running": 1.0, "vllm:generation_tokens_total": float(second // 20)}
        bench.run(1)
        assert bench.motion.state == "progressing"


def test_request_that_computes_for_long_is_slow() -> None:
    motion = never_stalled(serving(*ONE), 600, Worker=SPIN)
    assert motion.state == "slow"


def test_rank_that_is_absent_while_serving_is_named_within_a_minute_or_so() -> None:
    bench = serving(*TWO)
    bench.run(10, Worker_TP0=SPIN, Worker_TP1=SPIN)
    bench.run(70, Worker_TP0=SPIN)
    motion = stalled(bench)
    assert (motion.kind, motion.process, motion.waiting) == ("rank-behind", "Worker_TP1", ("Worker_TP0",))


def test_log_tells_of_work_where_nobody_asks_for_metrics() -> None:
    bench = Bench(*ONE)
    bench.enter("runtime.ready")
    stats = (
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {} tokens/s, Running: {} reqs, "
    )
    bench.line(stats.format("9.1", 1) + "Waiting: 0 reqs, GPU KV cache usage: 1.0%", "APIServer", "runtime.serving")
    bench.run(80)
    stalled(bench)
    bench.line(stats.format("0.0", 0) + "Waiting: 0 reqs, GPU KV cache usage: 0.0%", "APIServer")
    bench.run(2)
    assert bench.motion.state == "progressing"


# ---------------------------------------------------------------------- the end, stacks, percent


def test_end_that_was_asked_for_keeps_the_stall() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.set("Worker", state="T")
    bench.run(30)
    bench.line("Received SIGINT, shutting down", "APIServer")
    del bench.processes["Worker"]
    bench.run(3, APIServer=SPIN)
    assert bench.motion.state != "stalled"
    final = bench.progress.final(asked=True)
    assert final is not None and (final.kind, final.process) == ("stopped", "Worker")
    assert bench.progress.final(asked=False) is None


def test_server_that_hangs_on_its_way_out_does_not_hide_the_stall() -> None:
    """Seen with a real one: an open request keeps the front end, idle, for a minute."""
    bench = serving(*TWO)
    bench.set("Worker_TP1", state="T")
    bench.run(10, Worker_TP0=SPIN)
    bench.asked = True
    bench.processes = {"APIServer": bench.processes["APIServer"]}
    bench.run(4, APIServer=SPIN)
    bench.run(90)
    bench.line("INFO: Application shutdown complete.", "APIServer", "runtime.startup")
    final = bench.progress.final(asked=True)
    assert final is not None and (final.kind, final.process) == ("stopped", "Worker_TP1")


def test_server_that_was_well_when_the_user_asked_for_its_end_was_not_stalled() -> None:
    bench = serving(*TWO)
    bench.run(10, Worker_TP0=SPIN, Worker_TP1=SPIN)
    bench.asked = True
    bench.run(400)
    stalled(bench)  # as long as it lives, it is told
    assert bench.progress.final(asked=True) is None


def test_request_that_fails_at_the_end_does_not_hide_the_stall() -> None:
    bench = serving(*TWO)
    bench.set("Worker_TP1", state="T")
    bench.run(10, Worker_TP0=SPIN)
    bench.line('127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 500', "APIServer", "runtime.serving")
    bench.processes = {"APIServer": bench.processes["APIServer"]}
    bench.run(60, APIServer=SPIN)  # servers take their time to end
    final = bench.progress.final(asked=True)
    assert final is not None and (final.kind, final.process) == ("stopped", "Worker_TP1")


def test_stall_that_was_overcome_is_forgotten() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.set("Worker", state="T")
    bench.run(30)
    bench.set("Worker", state="R")
    bench.run(5, Worker=SPIN)
    bench.enter("kv_init.allocate")
    bench.run(2, Worker=SPIN)
    assert bench.progress.final(asked=True) is None


def test_slow_start_that_the_user_ends_was_slow() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.run(300, Worker=SPIN)
    final = bench.progress.final(asked=True)
    assert final is not None and (final.state, final.doing) == ("slow", "computing")


def test_worker_that_went_on_for_a_minute_was_not_ended_in_a_stall() -> None:
    bench = Bench(*ONE)
    bench.enter("kv_init.profile")
    bench.set("Worker", state="T")
    bench.run(30)
    bench.set("Worker", state="R")
    bench.run(60, Worker=SPIN)
    assert bench.progress.final(asked=True) is None


def test_frames_are_those_of_the_culprit_innermost_first() -> None:
    bench = Bench(*ONE)
    bench.enter("launch.distributed_init")
    bench.set("Worker", state="T")
    bench.run(10)
    pid = bench.processes["Worker"].pid
    own = Stack(
        pid,
        "Worker",
        "MainThread",
        ("run (a.py:1)", "init_device (b.py:2)", "ncclCommInitRank (libnccl.so.2)"),
        "py-spy",
    )
    other = Stack(1, "APIServer", "MainThread", ("poll (c.py:3)",), "py-spy")
    bench.progress.sample(Sample(bench.t, stacks=(other, own)))
    assert bench.progress.frames == "ncclCommInitRank\ninit_device\nrun"


def test_bar_gives_percent_and_time_left() -> None:
    from vdoctor.model import Bar

    bench = Bench(*ONE)
    bench.enter("weight_load.read")
    for done in range(5):
        bar = Bar("Loading safetensors checkpoint shards", done, 10, None, None)
        bench.progress.line(Event(1, "bar", "", "", bar=bar), bench.t, bench.step)
        bench.run(6, Worker={"cpu": 0.5, "read": 2e8})
    assert bench.motion.percent == 40.0
    # Four shards in 24 s, and six seconds of the fifth are over.
    assert bench.motion.eta == pytest.approx(6 * 6.0 - 6.0, abs=0.1)
