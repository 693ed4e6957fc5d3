"""Control groups: the limit that holds, what cannot be dropped, kills; both versions, in and out of containers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vdoctor.live.cgroup import Cgroup, Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")

GIB = 1 << 30


def tree(folder: Path, listing: str, files: dict[str, str]) -> Cgroup:
    """A control group made of files: `listing` is /proc/7/cgroup."""
    (folder / "proc" / "7").mkdir(parents=True)
    (folder / "proc" / "7" / "cgroup").write_text(listing)
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Cgroup(7, folder / "cgroup", folder / "proc")


def test_version_2_takes_the_tightest_limit_above(tmp_path: Path) -> None:
    group = tree(
        tmp_path,
        "0::/pods/server\n",
        {
            "pods/server/memory.current": f"{3 * GIB}\n",
            "pods/server/memory.max": "max\n",
            "pods/server/memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n",
            "pods/memory.current": f"{9 * GIB}\n",
            "pods/memory.max": f"{16 * GIB}\n",
            "pods/memory.stat": f"anon {4 * GIB}\nactive_file {GIB}\ninactive_file {2 * GIB}\n",
            "memory.current": f"{20 * GIB}\n",
            "memory.max": f"{64 * GIB}\n",
        },
    )
    # Of the 9 GiB in the pod 3 are file cache.
    assert group.read() == Limits(6 * GIB, 16 * GIB, 2)


def test_version_2_in_a_container_is_at_the_root(tmp_path: Path) -> None:
    files = {"memory.current": "100\n", "memory.max": "400\n", "memory.events": "oom_kill 0\n"}
    assert tree(tmp_path, "0::/../../pod7\n", files).read() == Limits(100, 400, 0)


def test_version_1(tmp_path: Path) -> None:
    group = tree(
        tmp_path,
        "5:cpu:/x\n4:memory:/docker/abc\n0::/\n",
        {
            "memory/docker/abc/memory.limit_in_bytes": f"{2 * GIB}\n",
            "memory/docker/abc/memory.usage_in_bytes": f"{GIB}\n",
            "memory/docker/abc/memory.stat": "total_active_file 100\ntotal_inactive_file 24\nactive_file 7\n",
            "memory/docker/abc/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert group.read() == Limits(GIB - 124, 2 * GIB, 1)


def test_version_1_in_a_container_does_not_find_the_hosts_path(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/memory.usage_in_bytes": "500\n",
        "memory/memory.oom_control": "oom_kill 0\n",
    }
    assert tree(tmp_path, "4:memory:/kubepods/pod1/abc\n", files).read() == Limits(500, None, 0)


def test_version_2_where_version_1_is_listed_but_not_mounted(tmp_path: Path) -> None:
    files = {"job/memory.current": "100\n", "job/memory.max": "400\n", "job/memory.events": "oom 1\noom_kill 1\n"}
    assert tree(tmp_path, "4:memory:/elsewhere\n0::/job\n", files).read() == Limits(100, 400, 1)


def test_a_real_hierarchy_of_version_2_is_walked() -> None:
    """Without its memory controller (which version 1 may hold) it tells nothing, and nothing breaks."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    roots = [Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    if not roots:
        pytest.skip("no hierarchy of version 2 is mounted")
    group = Cgroup(os.getpid(), roots[0])
    found = group.read()
    has_memory = "memory" in (roots[0] / "cgroup.controllers").read_text().split()
    assert (found.used is not None) <= has_memory
    assert has_memory or found == Limits(None, None, None)


@pytest.mark.parametrize("listing", ["", "garbage\n", "0::/\n", "::::\n"])
def test_without_a_controller_nothing_is_told(tmp_path: Path, listing: str) -> None:
    assert tree(tmp_path, listing, {}).read() == Limits(None, None, None)


def test_files_that_hold_no_number_are_none(tmp_path: Path) -> None:
    files = {"memory.current": "\n", "memory.max": "soon\n", "memory.events": "oom_kill\noom_kill x\n"}
    assert tree(tmp_path, "0::/\n", files).read() == Limits(None, None, None)


def test_our_own_group_is_read() -> None:
    found = Cgroup(os.getpid()).read()
    assert found.used is None or found.used > 0
