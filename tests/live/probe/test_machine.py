"""Disks, ports, compilers, limits and libraries of this very machine, and of folders that stand for others."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
import pytest

from vdoctor.launch import options
from vdoctor.launch.command import parse
from vdoctor.live.probe.disks import disks, existing, mount_of, places
from vdoctor.live.probe.files import files
from vdoctor.live.probe.host import cgroup_limit, host
from vdoctor.live.probe.libcuda import libcuda
from vdoctor.live.probe.ports import port
from vdoctor.live.probe.tools import ask, tools

TABLE = options.load()


def executable(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_memory_and_limits_are_those_of_this_machine() -> None:
    facts = host().facts
    total = facts["host.total_gib"].value
    assert isinstance(total, float)
    assert 0 < total <= psutil.virtual_memory().total / (1 << 30) + 0.01
    assert {"host.free_gib", "os.name", "os.glibc", "shm.size_mib"} <= set(facts)


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("sys/fs/cgroup/memory.max", "8589934592\n", 8 << 30),
        ("sys/fs/cgroup/memory.max", "max\n", None),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n", 1 << 30),
        ("sys/fs/cgroup/other", "", None),
    ],
)
def test_the_limit_of_a_control_group(tmp_path: Path, name: str, text: str, limit: int | None) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert cgroup_limit(tmp_path) == limit


def test_places_follow_the_variables() -> None:
    env = {"HOME": "/home/a", "HF_HOME": "/data/hf", "TMPDIR": "/scratch"}
    assert places(env) == {
        "hub": Path("/data/hf/hub"),
        "cache": Path("/home/a/.cache/vllm"),
        "triton": Path("/home/a/.triton/cache"),
        "tmp": Path("/scratch"),
    }


def test_disks_of_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "nobody"), "TMPDIR": str(tmp_path)}
    seen = disks(env, tmp_path)
    free = psutil.disk_usage(str(tmp_path)).free / (1 << 30)
    assert seen.facts["disk.cache_free_gib"].value == pytest.approx(free, rel=0.05)
    assert isinstance(seen.facts["weights.filesystem"].value, str)
    assert existing(tmp_path / "a" / "b") == tmp_path


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    seen = disks({"HOME": str(tmp_path)}, None)
    assert seen.facts["disk.unwritable"].value is True


def test_the_mount_point_that_holds_a_path() -> None:
    mounts = {Path("/"): 1, Path("/proc"): 2}
    assert mount_of(Path("/proc/1"), mounts) == Path("/proc")
    assert mount_of(Path("/etc"), mounts) == Path("/")


def test_a_port_that_is_taken_and_one_that_is_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        number = server.getsockname()[1]
        taken = port("127.0.0.1", number).facts
        assert taken["port.taken"].value is True
        assert f"pid {os.getpid()}" in str(taken["port.holder"].value)
    assert port("127.0.0.1", number).facts["port.taken"].value is False


def test_an_address_of_another_machine_is_not_known() -> None:
    seen = port("192.0.2.1", 8000)
    assert "port.taken" not in seen.facts
    assert "192.0.2.1:8000" in seen.unknown["port.taken"]


def test_compilers_on_the_path(tmp_path: Path) -> None:
    gcc = executable(tmp_path / "bin" / "gcc")
    facts = tools({"PATH": str(tmp_path / "bin")}).facts
    assert (facts["compiler.c"].value, facts["compiler.cxx"].value) == (str(gcc), "")


def test_a_compiler_named_by_the_variable_comes_first(tmp_path: Path) -> None:
    executable(tmp_path / "gcc")
    clang = executable(tmp_path / "clang-17")
    assert tools({"PATH": str(tmp_path), "CC": "clang-17 -O2"}).facts["compiler.c"].value == str(clang)


def test_the_toolkit_that_cuda_home_names(tmp_path: Path) -> None:
    executable(tmp_path / "cuda" / "bin" / "nvcc", "echo 'Cuda compilation tools, release 12.4, V12.4.131'")
    facts = tools({"PATH": "", "CUDA_HOME": str(tmp_path / "cuda")}).facts
    assert facts["cuda.toolkit"].value == "12.4"
    assert tools({"PATH": "", "CUDA_HOME": str(tmp_path)}).facts["cuda.home_broken"].value is True


def test_a_command_that_takes_too_long_is_no_answer(tmp_path: Path) -> None:
    slow = executable(tmp_path / "slow", "exec sleep 60")
    assert ask([str(slow)], os.environ, 0.2) is None


def test_a_compat_library_in_front_of_the_drivers(tmp_path: Path) -> None:
    for name in ("cuda/compat", "driver"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "libcuda.so.1").write_text(name)
    compat, driver = tmp_path / "cuda/compat", tmp_path / "driver"
    facts = libcuda({"PATH": "/usr/bin", "LD_LIBRARY_PATH": f"{compat}:{driver}"}).facts
    assert facts["lib.cuda_compat"].value == str(compat / "libcuda.so.1")
    behind = libcuda({"PATH": "/usr/bin", "LD_LIBRARY_PATH": f"{driver}:{compat}"}).facts
    assert behind["lib.cuda"].value == str(driver / "libcuda.so.1")
    assert "lib.cuda_compat" not in behind


def test_files_that_the_command_names(tmp_path: Path) -> None:
    launch = parse(["vllm", "serve", str(tmp_path / "none"), "--chat-template", "no/such.jinja"])
    facts = files(launch, TABLE, str(tmp_path / "none")).facts
    assert facts["model.path_missing"].value is True
    assert facts["api.template_missing"].value is True


def test_a_repository_and_a_template_in_place_are_no_files() -> None:
    launch = parse(["vllm", "serve", "org/model", "--chat-template", "{{ messages }}"])
    assert files(launch, TABLE, "org/model").facts == {}
