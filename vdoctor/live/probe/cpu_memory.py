"""Whether the CPU build finds as much free memory at its start as it asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from packaging.version import Version

from vdoctor.launch.options import OptionTable, parse_version
from vdoctor.launch.values import last_values
from vdoctor.live.probe.finding import Seen
from vdoctor.live.probe.host import cgroup_limit, cgroup_used
from vdoctor.model import FactValue, Launch

_GIB = 1 << 30
#: The first release read that makes this test (vllm/v1/worker/cpu_worker.py), and one that counts control groups.
_FIRST, _GROUPS = Version("0.20"), Version("0.26")
#: What counts as available (get_memory_node_info in vllm/utils/cpu_resource_utils.py).
_AVAILABLE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
#: Below this share the release's own advice helps no more.
_LOWEST = 0.05


class Node(NamedTuple):
    """Memory of one NUMA node, in bytes."""

    total: int
    available: int


def cpu_memory(
    launch: Launch, env: Mapping[str, str], options: OptionTable, facts: Mapping[str, FactValue], root: Path = Path("/")
) -> Seen:
    """Facts `mem.cpu_short`, `host.total_gib`, `host.free_gib` and `host.needed_gib` of the node; nothing where several
    nodes differ, or where the command sets the size of the cache, which switches the test off. `root` is for tests."""
    found = Seen()
    release = parse_version(str(facts.get("vllm.version", "")))
    version = Version(release.base_version) if release is not None else None
    asked = last_values(launch, options)
    given = env.get("VLLM_CPU_KVCACHE_SPACE", "0") not in ("", "0") or "--kv-cache-memory-bytes" in asked
    if facts.get("launch.device") != "cpu" or version is None or version < _FIRST or given:
        return found
    seen = nodes(root)
    limit = cgroup_limit(root)
    if len(seen) != 1:
        return found
    (node,) = seen
    if limit is not None and limit < node.total:
        if version < _GROUPS:
            return found
        node = Node(limit, max(0, min(node.available, limit - (cgroup_used(root) or 0))))
    share = facts.get("mem.utilization", 0.92)
    if not isinstance(share, int | float) or not 0 < share <= 1:
        return found
    needed = math.ceil(node.total * share)
    short = needed > node.available
    found.add("mem.cpu_short", short, "probe:memory")
    if short:
        found.add("mem.utilization", share, "argv" if "mem.utilization" in facts else "default")
        found.add("host.needed_gib", round(needed / _GIB, 2), "derived")
        found.add("host.total_gib", round(node.total / _GIB, 2), "probe:memory")
        found.add("host.free_gib", round(node.available / _GIB, 2), "probe:memory")
        # One digit of margin: what vLLM itself loads before the test comes off, too.
        fits = math.floor(node.available / node.total * 100 - 2) / 100
        found.add("mem.utilization_fits_free", fits if fits >= _LOWEST else None, "derived")
    return found


def nodes(root: Path) -> list[Node]:
    """The memory of each NUMA node; that of the whole machine where the system names none."""
    found = []
    for path in sorted(root.glob("sys/devices/system/node/node[0-9]*/meminfo")):
        sizes: dict[str, int] = {}
        try:
            lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) >= 4 and words[3].isdecimal():
                sizes[words[2].rstrip(":")] = int(words[3]) * 1024
        # Nodes of memory alone, or of devices, run no worker.
        if sizes.get("MemTotal"):
            found.append(Node(sizes["MemTotal"], sum(sizes.get(name, 0) for name in _AVAILABLE)))
    if not found:
        memory = psutil.virtual_memory()
        found.append(Node(memory.total, memory.available))
    return found
