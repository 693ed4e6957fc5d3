"""Lines of the kernel's log, in its own formats."""

from __future__ import annotations

import pytest

from vdoctor.facts.kernel import kernel_facts, of_interest

OOM = (
    "Memory cgroup out of memory: Killed process 511 (VLLM::Worker_TP) total-vm:91230224kB, anon-rss:62914560kB, "
    "file-rss:10024kB, shmem-rss:0kB, UID:0 pgtables:130000kB oom_score_adj:991"
)
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4411, name=VLLM::EngineCor, GPU has fallen off the bus."
CRASH = "VLLM::EngineCor[700]: segfault at 0 ip 00007f3aa error 4 in libtorch_cuda.so[7f3aa0000000+5b000000] likely on CPU 3"


def values(*lines: str, pids: set[int] = frozenset()) -> dict[str, object]:  # type: ignore[assignment]
    return {name: fact.value for name, fact in kernel_facts(lines, pids).items()}


def test_a_kill_of_ours_counts_with_its_size() -> None:
    assert values(OOM, pids={511}) == {"host.killed": "VLLM::Worker_TP", "host.killed_gib": 60.0, "exit.oom_kills": 1}


def test_a_kill_of_another_process_is_no_fact_of_ours() -> None:
    assert values(OOM, pids={512}) == {}


def test_an_xid_counts_for_every_process() -> None:
    assert values(XID, XID.replace("79", "43")) == {"gpu.xid": 79, "gpu.pci": "PCI:0000:3b:00"}


@pytest.mark.parametrize("pids", [{700}, {701}])
def test_the_library_of_a_crash(pids: set[int]) -> None:
    assert values(CRASH, pids=pids) == ({"fault.library": "libtorch_cuda.so"} if pids == {700} else {})


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (OOM, True),
        (XID, True),
        (CRASH, True),
        ("nfs: server store1 not responding, still trying", True),
        ("INFO: task VLLM::Worker:99 blocked for more than 120 seconds.", True),
        ("eth0: link becomes ready", False),
        ("audit: type=1400 apparmor=ALLOWED", False),
    ],
)
def test_what_is_of_interest(line: str, wanted: bool) -> None:
    assert of_interest(line) is wanted
