from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.tickets import read, values
from vdoctor.facts.registry import known
from vdoctor.facts.sizes import mib
from vdoctor.facts.system import SystemFacts


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("shm              64M     0   64M   0% /dev/shm", {"shm.size_mib": 64, "shm.free_mib": 64}),
        ("tmpfs           126G  1.5G  125G   2% /dev/shm", {"shm.size_mib": 129024, "shm.free_mib": 128000}),
        ("shm                65536 65536         0 100% /dev/shm", {"shm.size_mib": 64, "shm.free_mib": 0}),
        (
            "Mem:           503Gi        41Gi       2.0Gi       1.1Gi       460Gi       457Gi",
            {"host.total_gib": 503.0, "host.free_gib": 457.0},
        ),
        ("MemTotal:       65843200 kB", {"host.total_gib": 62.79}),
        ("MemAvailable:   1048576 kB", {"host.free_gib": 1.0}),
        (
            "[ 9021.55] NVRM: Xid (PCI:0000:a1:00): 79, pid=4, name=vllm, GPU has fallen off the bus.",
            {"gpu.xid": 79, "gpu.pci": "PCI:0000:a1:00"},
        ),
        (
            "[ 88.1] Memory cgroup out of memory: Killed process 77 (VLLM::EngineCor) total-vm:1kB, anon-rss:1kB",
            {"host.killed": "VLLM::EngineCor"},
        ),
        (
            "Nov 02 03:04:05 node7 kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,global_oom,task_memcg=/a,task=python3,pid=9,uid=0",
            {"host.killed": "python3"},
        ),
        ("oom_reaper: reaped process 9 (pt_main_thread), now anon-rss:0kB", {"host.killed": "pt_main_thread"}),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
            {"driver.version": "550.54.15"},
        ),
        # Nobody knows the unit of plain `free`.
        ("Mem:        1056000000    41000    2000    1000    460000    457000", {}),
        ("/dev/sda1       100G   90G   10G  90% /", {}),
        ("No space left on device: '/dev/shm/psm_1a2b'", {}),
    ],
)
def test_lines(line: str, expected: dict[str, object]) -> None:
    facts = values(SystemFacts(), line)
    assert facts == expected
    assert all(map(known, facts))


def test_source_is_the_line() -> None:
    facts = read(SystemFacts(), "Filesystem Size Used Avail Use% Mounted on\nshm 64M 0 64M 0% /dev/shm")
    assert facts["shm.size_mib"].source == "log:2"


def test_faults_of_several_gpus_name_none_of_them() -> None:
    one, other = (f"NVRM: Xid (PCI:0000:{bus}:00): 119, pid=1" for bus in ("3b", "5e"))
    assert values(SystemFacts(), f"{one}\n{one}")["gpu.pci"] == "PCI:0000:3b:00"
    assert values(SystemFacts(), f"{one}\n{other}\n{one}") == {"gpu.xid": 119}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16g", 16384),
        ("16gb", 16384),
        ("64M", 64),
        ("1.5Gi", 1536),
        ("2 TiB", 2097152),
        ("1048576", 1),
        ("512K", 0.5),
        ("many", None),
        ("", None),
        ("16g of it", None),
    ],
)
def test_sizes(text: str, value: float | None) -> None:
    assert mib(text) == value


@given(
    st.lists(
        st.sampled_from(
            ["Mem:", " 9Gi", " 1M", "/dev/shm", " 0% ", "Xid (", "NVRM: ", "): 79", "kB", "MemTotal: ", "9" * 20]
        )
    )
)
def test_any_mixture_is_read(parts: list[str]) -> None:
    read(SystemFacts(), "".join(parts))
