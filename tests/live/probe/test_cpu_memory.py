"""The free memory that the CPU build asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdoctor.launch.command import parse
from vdoctor.launch.options import load
from vdoctor.live.probe.cpu_memory import cpu_memory
from vdoctor.model import FactValue

MIB = 1 << 20
CPU: dict[str, FactValue] = {"launch.device": "cpu", "vllm.version": "0.32.0+cpu"}


def machine(root: Path, free_mib: int, number: int = 0, limit_mib: int | None = None, used_mib: int = 0) -> Path:
    """A node of 1000 MiB."""
    place = root / f"sys/devices/system/node/node{number}"
    place.mkdir(parents=True)
    sizes = {"MemTotal": 1000, "MemFree": free_mib, "Active(file)": 0, "Inactive(file)": 50, "SReclaimable": 0}
    place.joinpath("meminfo").write_text("".join(f"Node {number} {k}: {v * 1024} kB\n" for k, v in sizes.items()))
    if limit_mib is not None:
        group = root / "sys/fs/cgroup"
        group.mkdir(parents=True, exist_ok=True)
        (group / "memory.max").write_text(f"{limit_mib * MIB}\n")
        (group / "memory.current").write_text(f"{used_mib * MIB}\n")
    return root


def short(root: Path, *words: str, env: dict[str, str] | None = None, **facts: FactValue) -> FactValue | None:
    launch = parse(["vllm", "serve", "m", *words])
    found = cpu_memory(launch, env or {}, load(), CPU | {k.replace("__", "."): v for k, v in facts.items()}, root).facts
    return found["mem.cpu_short"].value if "mem.cpu_short" in found else None


@pytest.mark.parametrize(("free", "expected"), [(869, True), (870, False)])
def test_what_is_free_and_cached_counts(tmp_path: Path, free: int, expected: bool) -> None:
    assert short(machine(tmp_path, free)) is expected


def test_the_share_of_the_command(tmp_path: Path) -> None:
    root = machine(tmp_path, 700)
    assert short(root, mem__utilization=0.9) is True
    assert short(root, mem__utilization=0.7) is False


def test_a_given_cache_switches_the_test_off(tmp_path: Path) -> None:
    root = machine(tmp_path, 100)
    assert short(root) is True
    assert short(root, "--kv-cache-memory-bytes", "1G") is None
    assert short(root, env={"VLLM_CPU_KVCACHE_SPACE": "1"}) is None


def test_limits_of_the_container(tmp_path: Path) -> None:
    root = machine(tmp_path, 950, limit_mib=400, used_mib=100)
    assert short(root) is True
    assert short(root, mem__utilization=0.7) is False
    assert short(root, vllm__version="0.20.0+cpu") is None


def test_where_it_cannot_be_known(tmp_path: Path) -> None:
    root = machine(machine(tmp_path, 100), 900, number=1)
    assert short(root) is None
    assert short(tmp_path, vllm__version="0.13.0+cpu") is None
    assert short(tmp_path, launch__device="cuda") is None
