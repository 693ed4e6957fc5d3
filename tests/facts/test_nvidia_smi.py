from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.tickets import read, values
from vdoctor.facts.nvidia_smi import NvidiaSmiFacts
from vdoctor.facts.registry import known

TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-PCIE-40GB          On  |   00000000:17:00.0 Off |                    0 |
| N/A   41C    P0             61W /  250W |   20481MiB /  40960MiB |     31%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-PCIE-40GB          On  |   00000000:65:00.0 Off |                    0 |
| N/A   33C    P0             35W /  250W |       4MiB /  40960MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A      3311      G   /usr/lib/xorg/Xorg                             12MiB |
|    0   N/A  N/A     90210      C   /opt/jupyter/bin/python3                    20460MiB |
+-----------------------------------------------------------------------------------------+"""

OLD_TABLE = """\
| NVIDIA-SMI 418.87.01    Driver Version: 418.87.01    CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|===============================+======================+======================|
|   0  Tesla P100-PCIE...  Off  | 00000000:3B:00.0 Off |                    0 |
| N/A   31C    P0    26W / 250W |   1021MiB / 16280MiB |      0%      Default |
|=============================================================================|
|    0      4711      C   python                                      1011MiB |"""

NEWEST_HEAD = "| NVIDIA-SMI 612.10.02              KMD Version: 612.10.02     CUDA UMD Version: 13.3     |"


def test_table() -> None:
    assert values(NvidiaSmiFacts(), TABLE) == {
        "driver.version": "560.35.03",
        "driver.cuda": 12060,
        "gpu.name": "NVIDIA A100-PCIE-40GB",
        "gpu.cc": 80,
        "gpu.count": 2,
        "gpu.total_gib": 40.0,
        "gpu.in_use_gib": 20.0,
        "gpu.holders": ("/opt/jupyter/bin/python3 (pid 90210) 20460 MiB",),
    }


def test_facts_are_registered_and_know_their_lines() -> None:
    facts = read(NvidiaSmiFacts(), TABLE)
    assert all(map(known, facts))
    assert (facts["driver.version"].source, facts["gpu.cc"].source) == ("log:2", "log:8")
    assert (facts["gpu.count"].source, facts["gpu.holders"].source) == ("log:8", "log:23")


def test_old_table() -> None:
    facts = values(NvidiaSmiFacts(), OLD_TABLE)
    assert (facts["gpu.name"], facts["gpu.cc"], facts["driver.cuda"]) == ("Tesla P100-PCIE...", 60, 10010)
    assert (facts["gpu.total_gib"], facts["gpu.in_use_gib"]) == (15.9, 1.0)
    assert facts["gpu.holders"] == ("python (pid 4711) 1011 MiB",)


def test_newest_head() -> None:
    assert values(NvidiaSmiFacts(), NEWEST_HEAD) == {"driver.version": "612.10.02", "driver.cuda": 13030}


def test_of_several_tables_the_first_counts() -> None:
    later = TABLE.replace("20481MiB", "39000MiB").replace("90210", "90211").replace("A100-PCIE-40GB", "H100 PCIe     ")
    assert values(NvidiaSmiFacts(), TABLE + "\n" + later) == values(NvidiaSmiFacts(), TABLE)


def test_unified_memory_has_no_total() -> None:
    text = (
        NEWEST_HEAD
        + "\n"
        + "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |"
    )
    text += "\n" + "| N/A   40C    P8              4W /  N/A  | Not Supported          |      0%      Default |"
    facts = values(NvidiaSmiFacts(), text)
    assert facts["gpu.cc"] == 121
    assert "gpu.total_gib" not in facts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "GPU 0: NVIDIA L40S (UUID: GPU-00000000-1111-2222-3333-444444444444)\nGPU 1: NVIDIA L40S (UUID: GPU-0)",
            {"gpu.name": "NVIDIA L40S", "gpu.cc": 89, "gpu.count": 2},
        ),
        (
            "GPU models and configuration: GPU 0: Tesla T4",
            {"gpu.name": "Tesla T4", "gpu.cc": 75, "gpu.count": 1},
        ),
        (
            "GPU models and configuration : \nGPU 0: NVIDIA H200\nGPU 1: NVIDIA H200\nGPU 2: NVIDIA H200",
            {"gpu.name": "NVIDIA H200", "gpu.cc": 90, "gpu.count": 3},
        ),
        ("GPU 0: NVIDIA L4 (x4)", {"gpu.name": "NVIDIA L4", "gpu.cc": 89, "gpu.count": 4}),
        ("GPU 0: Orin (nvgpu) (UUID: 0)", {"gpu.name": "Orin (nvgpu)", "gpu.cc": 87, "gpu.count": 1}),
        (
            "GPU models and configuration : AMD Instinct MI300X (gfx942:sramecc+:xnack-)",
            {"gpu.name": "AMD Instinct MI300X", "gpu.count": 1},
        ),
        # What the one has, the other has not.
        (
            "GPU 0: NVIDIA GeForce RTX 3090\nGPU 1: Tesla P40",
            {"gpu.name": "NVIDIA GeForce RTX 3090", "gpu.count": 2},
        ),
        ("GPU 0: Tesla V100-SXM2...\nGPU 0: NVIDIA A100", {"gpu.name": "Tesla V100-SXM2...", "gpu.count": 1}),
        # The same list in another place, names cut there.
        (
            "GPU 0: GeForce RTX 208...\nGPU 0: GeForce RTX 2080 Ti",
            {"gpu.name": "GeForce RTX 208...", "gpu.cc": 75, "gpu.count": 1},
        ),
        (
            "GPU 0: NVIDIA H100 NVL\n  MIG 1g.12gb     Device  0: (UUID: MIG-0)",
            {"gpu.name": "NVIDIA H100 NVL", "gpu.cc": 90},
        ),
        ("GPU 0: out of memory", {}),
        ("GPU models and configuration: No CUDA", {}),
        ("GPU 0: NVIDIA cards like this one have never worked with it, as far as anybody here remembers", {}),
    ],
)
def test_lists(text: str, expected: dict[str, object]) -> None:
    assert values(NvidiaSmiFacts(), text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "index, name, memory.total [MiB], memory.used [MiB], compute_cap, driver_version\n"
        "0, NVIDIA RTX A5000, 24564 MiB, 900 MiB, 8.6, 550.90.07\n"
        "1, NVIDIA RTX A5000, 24564 MiB, 12 MiB, 8.6, 550.90.07\n"
        "that is all, really",
        "$ nvidia-smi --query-gpu=index,name,memory.total,memory.used,compute_cap,driver_version --format=csv,noheader,nounits\n"
        "```\n"
        "0, NVIDIA RTX A5000, 24564, 900, 8.6, 550.90.07\n"
        "1, NVIDIA RTX A5000, 24564, 12, 8.6, 550.90.07",
    ],
)
def test_query(text: str) -> None:
    assert values(NvidiaSmiFacts(), text) == {
        "gpu.name": "NVIDIA RTX A5000",
        "gpu.cc": 86,
        "gpu.count": 2,
        "gpu.total_gib": 23.99,
        "gpu.in_use_gib": 0.88,
        "driver.version": "550.90.07",
    }


def test_query_without_index_counts_rows_and_repeats_nothing() -> None:
    text = "name, memory.total [MiB]\nNVIDIA Future X1, 99999 MiB\nNVIDIA Future X1, 99999 MiB"
    expected = {"gpu.name": "NVIDIA Future X1", "gpu.count": 2, "gpu.total_gib": 97.66}
    assert values(NvidiaSmiFacts(), text) == expected
    assert values(NvidiaSmiFacts(), text + "\n\n" + text) == expected


def test_the_driver_knows_capabilities_that_the_list_lacks() -> None:
    assert values(NvidiaSmiFacts(), "name, compute_cap\nNVIDIA Future X1, 13.0")["gpu.cc"] == 130


def test_prose_with_commas_is_no_query() -> None:
    assert values(NvidiaSmiFacts(), "name, place, date\nBob, 3 MiB, today") == {}


@pytest.mark.parametrize(
    ("first", "second", "third", "link"),
    [
        ("X   NV12 NV12", "NV12 X   NV12", "NV12 NV12 X", "nvlink"),
        ("X   PHB  SYS", "PHB  X   SYS", "SYS  SYS  X", "pcie"),
        ("X   NV4  SYS", "NV4  X   SYS", "SYS  SYS  X", "mixed"),
    ],
)
def test_topology(first: str, second: str, third: str, link: str) -> None:
    text = f"""\
	\x1b[4mGPU0	GPU1	GPU2	NIC0	CPU Affinity	NUMA Affinity\x1b[0m
GPU0	 {first}	NODE	0-63	0
GPU1	 {second}	NODE	0-63	0
GPU2	 {third}	NODE	0-63	0
NIC0	NODE NODE NODE	 X
Legend:
  X    = Self"""
    facts = read(NvidiaSmiFacts(), text)
    assert (facts["gpu.link"].value, facts["gpu.link"].source) == (link, "log:1")
    assert facts["gpu.count"].value == 3


def test_mig_table_withdraws_what_a_slice_does_not_have() -> None:
    text = TABLE.replace("Processes:  ", "MIG devices:")
    facts = values(NvidiaSmiFacts(), text)
    assert facts["gpu.cc"] == 80
    assert not {"gpu.count", "gpu.total_gib", "gpu.in_use_gib"} & set(facts)


@given(
    st.lists(
        st.sampled_from(
            [*TABLE.split("\n"), *OLD_TABLE.split("\n"), "GPU 0: ", "| ", "MiB", ", ", "GPU0 GPU1", "NV2", "9" * 30]
        )
    )
)
def test_any_mixture_of_lines_is_read(parts: list[str]) -> None:
    read(NvidiaSmiFacts(), "".join(parts))
    read(NvidiaSmiFacts(), "\n".join(parts))


def test_hostile_lines_cost_little() -> None:
    start = time.perf_counter()
    text = TABLE.split("\n")[1] + "\n"
    for piece in (
        "|   0  N" + " N" * 190,
        "| 1 N/A N/A " + " " * 300,
        "|  0 MiB" + " 1MiB / 1MiB" * 30,
        "GPU 0: N" + "A " * 190,
    ):
        text += (piece + "\n") * 100
    read(NvidiaSmiFacts(), text)
    assert time.perf_counter() - start < 2.0
