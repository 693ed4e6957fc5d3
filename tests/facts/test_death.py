"""Who died first and what was counted, from observations alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cases import SOURCE, lines, rules
from vdoctor.diagnose import Examination
from vdoctor.launch import options as option_tables
from vdoctor.model import (
    Death,
    Exit,
    GpuSample,
    HostSample,
    Line,
    Observation,
    ProcessSample,
    Report,
    Sample,
    Xid,
)

GIB = 1 << 30
LOADING = "(Worker_TP1 pid=11) INFO 01-01 01:01:01 [gpu_model_runner.py:1] Starting to load model org/m...\n"
ERROR = "(Worker_TP0 pid=10) ERROR 01-01 01:01:09 [core.py:9] RuntimeError: of its own\n"
ENDED = Exit(10.0, 1)


def host(t: float, **values: Any) -> Sample:
    fields: dict[str, Any] = {"processes": 3, "rss": GIB, "cpu_seconds": 1.0}
    return Sample(t, host=HostSample(**(fields | values)))


def died(t: float, pid: int, name: str, status: int | None, signal: str | None = None) -> Sample:
    return Sample(t, deaths=(Death(t, pid, name, status, signal),))


def said(text: str, t: float) -> Line:
    return Line(1, text.rstrip("\n"), t)


def report(*observations: Observation, log: str = LOADING) -> Report:
    examination = Examination(rules(), option_tables.load())
    examination.feed(lines(log.encode()))
    examination.feed(observations)
    return examination.report(SOURCE)


def values(*observations: Observation, log: str = LOADING) -> dict[str, Any]:
    found = report(*observations, log=log).facts
    return {
        name: fact.value for name, fact in found.items() if name.partition(".")[0] in ("exit", "shm", "host", "gpu")
    }


# who died first


def test_the_first_death_counts_and_the_log_gives_its_name() -> None:
    worker = died(8.0, 11, "python3", 139, "SIGSEGV")
    core = died(8.4, 12, "VLLM::EngineCore_DP0", 1)
    facts = values(worker, core, ENDED)
    assert (facts["exit.first_dead"], facts["exit.cause_signal"]) == ("Worker_TP1", "SIGSEGV")


def test_of_two_at_one_moment_the_inner_one_was_first() -> None:
    both = Sample(
        8.0, deaths=(Death(8.0, 12, "VLLM::EngineCore", 1), Death(8.0, 11, "VLLM::Worker_TP1", 137, "SIGKILL"))
    )
    assert values(both, ENDED)["exit.first_dead"] == "Worker_TP1"


def test_the_sampled_role_names_a_process_that_said_nothing() -> None:
    tree = (ProcessSample(30, 1, "pt_main_thread", "Worker_TP3"),)
    assert (
        values(host(1.0, tree=tree), died(8.0, 30, "pt_main_thread", 134, "SIGABRT"), ENDED)["exit.first_dead"]
        == "Worker_TP3"
    )


@pytest.mark.parametrize(
    ("name", "status", "signal", "victim"),
    [
        ("cc1plus", 1, None, False),
        ("nvidia-smi", 143, "SIGTERM", False),
        ("cc1plus", 137, "SIGKILL", True),
        ("VLLM::Worker_TP0", 0, None, False),
        ("VLLM::Worker_TP0", 1, None, True),
        ("VLLM::Worker_TP0", None, None, False),
        ("VLLM::EngineCore", 143, "SIGTERM", True),
    ],
)
def test_helpers_end_with_any_status_and_servers_do_not(
    name: str, status: int | None, signal: str | None, victim: bool
) -> None:
    assert ("exit.first_dead" in values(died(5.0, 99, name, status, signal), ENDED)) is victim


def test_who_ends_after_an_orderly_shutdown_began_is_no_victim() -> None:
    stop = "(APIServer pid=1) INFO:     Application startup complete.\n(APIServer pid=1) INFO:     Shutting down\n"
    facts = values(died(5.0, 11, "VLLM::EngineCore", 137, "SIGKILL"), Exit(6.0, 0), log=LOADING + stop)
    assert "exit.first_dead" not in facts and facts["exit.died"] is False


def test_a_worker_that_is_killed_after_an_error_is_not_the_cause() -> None:
    killed = died(8.0, 12, "VLLM::Worker_TP1", 137, "SIGKILL")
    assert "exit.first_dead" not in values(said(ERROR, 7.0), killed, ENDED)
    assert "exit.first_dead" in values(killed, said(ERROR, 8.1), ENDED)
    # Long after it the two have nothing to do with each other.
    assert "exit.first_dead" in values(said(ERROR, 7.0), died(60.0, 12, "VLLM::Worker", 137, "SIGKILL"), Exit(61.0, 1))


def test_what_the_user_ended_has_no_cause() -> None:
    facts = values(died(5.0, 11, "VLLM::Worker", 137, "SIGKILL"), Exit(6.0, 130, None, "SIGINT"))
    assert {name: value for name, value in facts.items() if name.startswith("exit.")} == {
        "exit.asked": "SIGINT",
        "exit.after_s": 6.0,
    }


def test_without_the_kernels_word_the_log_tells_who_died() -> None:
    log = LOADING + (
        "(EngineCore pid=9) ERROR 01-01 01:01:02 [multiproc_executor.py:380] "
        "Worker proc VllmWorker-1 died unexpectedly (exit code: -11), shutting down executor.\n"
    )
    facts = values(ENDED, log=log)
    assert (facts["exit.first_dead"], facts["exit.cause_signal"]) == ("VllmWorker-1", "SIGSEGV")


@pytest.mark.parametrize(("status", "signal"), [(139, "SIGSEGV"), (135, "SIGBUS"), (137, "SIGKILL"), (1, None)])
def test_a_shell_between_us_and_the_server_tells_by_its_status(status: int, signal: str | None) -> None:
    assert values(Exit(9.0, status)).get("exit.cause_signal") == signal


def test_a_saved_log_has_no_watched_end() -> None:
    assert not [name for name in values(log=LOADING + ERROR) if name.startswith("exit.")]


# what was counted


def test_kills_are_counted_from_the_first_sample_to_the_one_after_the_death() -> None:
    killed = died(8.0, 11, "VLLM::Worker_TP1", 137, "SIGKILL")
    facts = values(host(1.0, oom_kills=3), killed, host(10.5, oom_kills=4), ENDED)
    assert facts["exit.oom_kills"] == 1


def test_a_count_from_before_the_death_proves_nothing() -> None:
    killed = died(8.0, 11, "VLLM::Worker_TP1", 137, "SIGKILL")
    facts = values(host(1.0, oom_kills=0), host(7.5, oom_kills=0), killed, ENDED)
    assert "exit.oom_kills" not in facts


def test_counters_here_say_nothing_about_a_container_started_by_a_client() -> None:
    counted = (host(1.0, oom_kills=0, shm_used=0, shm_total=GIB), host(9.9, oom_kills=0, shm_used=0, shm_total=GIB))
    facts = values(*counted, Exit(10.0, 137))
    assert facts["exit.cause_signal"] == "SIGKILL"
    assert not {"exit.oom_kills", "shm.used_share"} & set(facts)


def test_shared_memory_counts_at_its_fullest_shortly_before() -> None:
    samples = [host(t, shm_used=used * GIB // 100, shm_total=GIB) for t, used in ((1, 99), (50, 40), (55, 97), (60, 2))]
    assert values(*samples, Exit(61.0, 135, "SIGBUS"))["shm.used_share"] == pytest.approx(0.97, abs=0.001)


def test_memory_is_told_with_limit_use_and_the_largest_process() -> None:
    tree = (
        ProcessSample(10, 1, "python", "Worker_TP0", rss=9 * GIB),
        ProcessSample(12, 1, "cc1plus", "compiler", rss=GIB),
    )
    facts = values(
        host(1.0, tree=tree, cgroup_used=11 * GIB, cgroup_limit=12 * GIB, available=3 * GIB),
        host(2.0, cgroup_used=4 * GIB, cgroup_limit=12 * GIB, available=5 * GIB),
        Exit(3.0, 137, "SIGKILL"),
    )
    assert {name: value for name, value in facts.items() if name.startswith("host.")} == {
        "host.used_gib": 11.0,
        "host.limit_gib": 12.0,
        "host.available_gib": 3.0,
        "host.largest": "Worker_TP0",
        "host.largest_gib": 9.0,
    }


# what is found


def first(*observations: Observation, log: str = LOADING) -> tuple[str, str, str]:
    found = report(*observations, log=log)
    return found.findings[0].id, found.findings[0].confidence, found.verdict


KILLED = died(8.0, 11, "VLLM::Worker_TP1", 137, "SIGKILL")


@pytest.mark.parametrize(
    ("observations", "found"),
    [
        ((host(1, oom_kills=0), KILLED, host(10, oom_kills=1), ENDED), ("oom.host-ram", "certain")),
        ((host(1, oom_kills=0), KILLED, host(10, oom_kills=0), ENDED), ("proc.terminated", "likely")),
        ((KILLED, ENDED), ("oom.host-ram", "possible")),
        ((host(1, shm_used=63, shm_total=64), Exit(9.0, 135, "SIGBUS")), ("dist.shm-too-small", "certain")),
        ((host(1, shm_used=3, shm_total=64), Exit(9.0, 135, "SIGBUS")), ("proc.crashed", "likely")),
        ((Exit(9.0, 135, "SIGBUS"),), ("dist.shm-too-small", "likely")),
        ((Exit(9.0, 139, "SIGSEGV"),), ("proc.crashed", "certain")),
        ((Exit(9.0, 132, "SIGILL"),), ("proc.crashed", "likely")),
        ((Exit(9.0, 134, "SIGABRT"),), ("proc.crashed", "certain")),
        ((Exit(9.0, 143, "SIGTERM"),), ("proc.terminated", "certain")),
        ((died(8.0, 11, "VLLM::Worker", 143, "SIGTERM"), ENDED), ("proc.terminated", "likely")),
        (
            (Sample(5.0, xids=(Xid(1, 79),)), died(6.0, 11, "VLLM::Worker", 134, "SIGABRT"), ENDED),
            ("env.gpu-fault", "certain"),
        ),
        ((Sample(5.0, (GpuSample(2, lost=True),)), ENDED), ("env.gpu-fault", "likely")),
        ((Exit(9.0, 1),), ("unknown.error", "possible")),
        # vLLM ends with 0 after the engine died while serving: a failure all the same.
        ((host(1, oom_kills=0), KILLED, host(10, oom_kills=0), Exit(10.0, 0)), ("proc.terminated", "likely")),
    ],
)
def test_each_end_has_its_cause(observations: tuple[Observation, ...], found: tuple[str, str]) -> None:
    assert first(*observations) == (*found, "failed")


def test_an_xid_that_is_mostly_the_programs_fault_is_none_of_the_gpu() -> None:
    assert first(Sample(5.0, xids=(Xid(0, 31),)), Exit(9.0, 139, "SIGSEGV"))[0] == "proc.crashed"


def test_a_crash_shows_where_python_was() -> None:
    dump = 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n  File "/x/site-packages/vllm/a.py", line 7 in load_it\n'
    found = report(Exit(9.0, 139, "SIGSEGV"), log=LOADING + dump).findings[0]
    assert (
        found.id == "proc.crashed" and "load_it (vllm/a.py:7)" in found.title["en"] and "load_it" in found.title["zh"]
    )


def test_an_engine_that_died_is_told_while_the_server_lives_on() -> None:
    """0.9 with its engine killed: not one line, /health says 200."""
    ready = LOADING + "INFO:     Application startup complete.\n"
    found = report(host(1, oom_kills=0), KILLED, host(9, oom_kills=0), log=ready)
    assert (found.verdict, found.findings[0].id) == ("failed", "proc.terminated")
    assert "Worker_TP1" in found.findings[0].title["en"]


def test_an_error_in_the_log_explains_the_crash_that_follows_it() -> None:
    oom = "(Worker_TP1 pid=11) ERROR 01-01 01:01:05 [x.py:1] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"
    found = report(said(oom, 7.0), died(8.0, 11, "VLLM::Worker_TP1", 139, "SIGSEGV"), ENDED)
    assert found.findings[0].id == "oom.kv-none"
    assert "proc.crashed" in found.findings[0].symptoms


@pytest.mark.parametrize(("asked", "ids"), [("SIGTERM", ["proc.terminated"]), ("SIGINT", [])])
def test_a_sigterm_that_was_passed_on_before_ready_is_a_remark(asked: str, ids: list[str]) -> None:
    found = report(Exit(600.0, 143, "SIGTERM", asked))
    assert found.verdict == "incomplete"
    assert [finding.id for finding in found.findings if finding.severity == "info"] == ids


# a server that ended by itself does not hang

NCCL = "(Worker_TP0 pid=11) INFO 01-01 01:01:01 [pynccl.py:103] vLLM is using nccl==2.27.3\n"
READY = "(APIServer pid=10) INFO:     Application startup complete.\n"


def tree(t: float, *names: str) -> Sample:
    return host(t, oom_kills=0, tree=tuple(ProcessSample(10 + n, 9 + n, p, state="S") for n, p in enumerate(names)))


@pytest.mark.parametrize("log", [LOADING, NCCL])
def test_server_that_ended_by_itself_without_a_word_is_no_hang(log: str) -> None:
    found = report(tree(1, "python3", "VLLM::Worker_TP0"), Exit(10.0, 0), log=log)
    assert (found.verdict, found.findings) == ("incomplete", ())


@pytest.mark.parametrize("log", [LOADING, NCCL])
def test_client_that_ended_says_nothing_about_the_server_whose_log_it_showed(log: str) -> None:
    found = report(tree(1, "kubectl"), Exit(10.0, 0), log=log)
    assert found.findings and {finding.severity for finding in found.findings} == {"stall"}


@pytest.mark.parametrize(("answers", "verdict"), [(True, "healthy"), (False, "stalled")])
def test_server_that_answered_nobody_up_to_its_end_is_not_healthy(answers: bool, verdict: str) -> None:
    names = ("vllm", "VLLM::Worker")
    seen: list[Observation] = [Sample(5.0, health=200), *(tree(t, *names) for t in range(5, 20))]
    seen += [Sample(20.0, health=200 if answers else 0), *(tree(t, *names) for t in range(20, 100))]
    found = report(said(LOADING, 1.0), said(READY, 4.0), *seen, Exit(100.0, 0), log="")
    assert found.verdict == verdict
    assert (found.motion.kind if found.motion else None) == (None if answers else "deaf")
    assert [finding.rule for finding in found.findings] == ([] if answers else ["runtime.deaf-measured"])


def test_stall_that_goes_on_counts_in_the_time_so_far() -> None:
    found = report(said(LOADING, 2.0), *(tree(t, "vllm", "python3") for t in range(2, 200)), log="")
    assert (found.verdict, found.elapsed) == ("stalled", 197.0)


# the user ends what waits for a dead one


def waits(asked: int, *, died_at: float = 5.0) -> list[Observation]:
    """A worker is killed, the rest waits for it, and at `asked` the user has enough."""
    names = ("vllm", "python3", "VLLM::Worker_TP1")
    seen: list[Observation] = [said(LOADING, 1.0), *(tree(t, *names) for t in range(1, 5))]
    seen.append(died(died_at, 12, "VLLM::Worker_TP1", 137, "SIGKILL"))
    seen += [tree(t, "vllm", "python3") for t in range(5, asked)]
    return [*seen, Sample(float(asked), asked=True), Exit(asked + 1.0, 130, None, "SIGINT")]


def test_what_the_user_ended_because_it_waited_for_a_dead_one_has_a_cause() -> None:
    found = report(*with_role(waits(60)), log="")
    assert found.verdict == "failed"
    assert [finding.rule for finding in found.findings] == ["proc.killed", "dist.rank-dead"]
    assert found.facts["exit.first_dead"].value == "Worker_TP1"


def test_who_died_with_the_users_signal_is_no_cause() -> None:
    found = report(*with_role(waits(60, died_at=59.5)), log="")
    assert "exit.first_dead" not in found.facts


def test_what_the_user_ended_while_nobody_waited_has_no_cause() -> None:
    found = report(*with_role(waits(7)), log="")
    assert "exit.first_dead" not in found.facts


def with_role(seen: list[Observation]) -> list[Observation]:
    """Its workers carry vLLM's names."""
    return [
        replace(one, host=replace(one.host, tree=tuple(map(named, one.host.tree))))
        if isinstance(one, Sample) and one.host
        else one
        for one in seen
    ]


def named(process: ProcessSample) -> ProcessSample:
    title = process.name.removeprefix("VLLM::")
    return replace(process, role=title) if title != process.name else process
