"""The GPUs that the launch would get, their driver, and who holds their memory, through NVML."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import psutil

from vdoctor.live import procfs
from vdoctor.live.cards import Card
from vdoctor.live.nvml import Nvml
from vdoctor.live.probe.finding import Seen
from vdoctor.live.visible import wrong_entry

_GIB = 1 << 30
#: Holders below this are desktop helpers and contexts without data.
_WORTH_NAMING = 64 << 20


def gpus(env: Mapping[str, str]) -> Seen:
    """Facts about the GPUs that a process with this environment gets."""
    seen = Seen()
    nvml = Nvml(env)
    try:
        if nvml.error is not None:
            seen.miss("gpu", f"NVML: {nvml.error}")
            if nvml.no_library:
                seen.add("driver.missing", "libnvidia-ml.so.1", "probe:loader")
            return seen
        version, cuda = nvml.driver()
        seen.add("driver.version", version, "nvml")
        # 12040 is CUDA 12.4, the form in which torch prints it, too.
        seen.add("driver.cuda", cuda, "nvml")
        seen.add("gpu.present", len({device.index for device in nvml.devices}), "nvml")
        seen.add("gpu.visible_wrong", wrong_entry(env, nvml.devices), "CUDA_VISIBLE_DEVICES")
        _cards(seen, nvml.cards())
        seen.add("gpu.link", nvml.link(), "nvml")
    finally:
        nvml.close()
    return seen


def _cards(seen: Seen, cards: Sequence[Card]) -> None:
    seen.add("gpu.count", len(cards), "nvml")
    if not cards:
        return
    seen.add("gpu.name", cards[0].device.name, "nvml")
    seen.add("gpu.cc", min((card.capability for card in cards if card.capability), default=None), "nvml")
    known = [(card.free, card.total) for card in cards if card.free is not None and card.total is not None]
    if known:
        free, total = min(known)
        seen.add("gpu.total_gib", round(total / _GIB, 2), "nvml")
        seen.add("gpu.free_gib", round(free / _GIB, 2), "nvml")
        seen.add("gpu.in_use_gib", round((total - free) / _GIB, 2), "nvml")
    names = [
        _holder(pid, size) for card in cards for pid, size in card.holders if size is None or size >= _WORTH_NAMING
    ]
    seen.add("gpu.holders", tuple(dict.fromkeys(names)) or None, "nvml")
    seen.add("gpu.mig", any(card.device.instances is not None for card in cards), "nvml")
    if any(card.ecc_errors for card in cards):
        seen.add("gpu.ecc", True, "nvml")
    if all(card.persistence is not None for card in cards):
        seen.add("gpu.persistence", all(card.persistence for card in cards), "nvml")
    states = [card.fabric for card in cards if card.fabric]
    seen.add(
        "gpu.fabric", next((state for state in states if state != "completed"), states[0] if states else None), "nvml"
    )


def _holder(pid: int, memory: int | None) -> str:
    """`VLLM::EngineCore (pid 812, 20.1 GiB, user ann, since 2 h)`."""
    parts = [f"pid {pid}"]
    if memory:
        parts.append(f"{memory / _GIB:.1f} GiB")
    name = "a process"
    # In a container the driver may give the host's numbers: a name found there would be another process's.
    if not procfs.sees_all():
        return f"{name} ({', '.join(parts)})"
    try:
        process = psutil.Process(pid)
        name = (process.cmdline() or [process.name()])[0]
        hours = (time.time() - process.create_time()) / 3600
        parts += [f"user {process.username()}", f"for {hours:.0f} h" if hours >= 1 else f"for {hours * 60:.0f} min"]
        if process.ppid() == 1 and "VLLM" in name:
            parts.append("left over: its parent is gone")
    except (psutil.Error, KeyError):
        pass
    return f"{name} ({', '.join(parts)})"
