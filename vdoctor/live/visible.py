"""Which GPUs CUDA_VISIBLE_DEVICES leaves to a process. Pure: devices and environment are passed in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"\s*\+?(\d{1,9})")
_OLD_MIG = re.compile(r"MIG-(?P<gpu>GPU-[0-9a-fA-F-]+)/(?P<instance>\d{1,4})/(?P<compute>\d{1,4})")


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or a slice of one (MIG): `index` is the card's; `instances` (GPU and compute instance) a slice's own."""

    index: int
    name: str | None = None
    uuid: str | None = None
    instances: tuple[int, int] | None = None
    card: str | None = None


def visible(env: Mapping[str, str], devices: Sequence[Device]) -> list[Device]:
    """The devices that the driver gives to a process with this environment, in NVML's order.

    As the driver does: the list ends at its first entry that names nothing; an entry that comes twice empties it; a
    prefix of a UUID will do when it fits one device only. Where cards differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID,
    an index cannot be told (the driver counts the fastest card as 0): all devices are given.
    """
    return _choose(env, devices)[0]


def wrong_entry(env: Mapping[str, str], devices: Sequence[Device]) -> str | None:
    """The entry of CUDA_VISIBLE_DEVICES at which the list ends because it names nothing, or comes twice."""
    return _choose(env, devices)[1]


def _choose(env: Mapping[str, str], devices: Sequence[Device]) -> tuple[list[Device], str | None]:
    wanted = env.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return list(devices), None
    entries = [entry.strip() for entry in wanted.split(",")]
    chosen: list[Device] = []
    kind = entries[0][:4]
    for entry in entries:
        if kind in ("GPU-", "MIG-"):
            found = _named(entry, devices) if entry.startswith(kind) else []
        else:
            found = _numbered(entry, devices)
            if found and not _ordered(env, devices):
                return list(devices), None
        if not found:
            # Empty and -1 hide all GPUs on purpose.
            return [one for one in devices if one in chosen], None if entry in ("", "-1") else entry
        if any(device in chosen for device in found):
            return [], entry
        chosen += found
    return [device for device in devices if device in chosen], None


def _numbered(entry: str, devices: Sequence[Device]) -> list[Device]:
    """A card; where it is sliced, its slices."""
    number = _NUMBER.match(entry)
    return [device for device in devices if number and device.index == int(number[1])]


def _named(entry: str, devices: Sequence[Device]) -> list[Device]:
    old = _OLD_MIG.fullmatch(entry)
    if old:
        place = (int(old["instance"]), int(old["compute"]))
        found = [one for one in devices if one.instances == place and (one.card or "").startswith(old["gpu"])]
    else:
        found = [one for one in devices if (one.uuid or "").lower().startswith(entry.lower())]
        if entry.startswith("GPU-"):
            cards = {one.card: None for one in devices if one.card and one.card.lower().startswith(entry.lower())}
            if cards and not found:
                # A card that is sliced: its slices, when no other card begins like this.
                return [one for one in devices if one.card in cards] if len(cards) == 1 else []
    return found if len(found) == 1 else []


def _ordered(env: Mapping[str, str], devices: Sequence[Device]) -> bool:
    names = {device.name for device in devices if device.instances is None}
    return env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(names) < 2
