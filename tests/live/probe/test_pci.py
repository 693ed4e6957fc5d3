"""IOMMU and ACS in a tree of files as /sys has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdoctor.live.probe.pci import pci


def config(acs: int | None) -> bytes:
    """A configuration space with two extended capabilities: errors, then ACS with these control bits."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | (0x148 << 20 if acs is not None else 0)).to_bytes(4, "little")
    if acs is not None:
        space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        space[0x14E:0x150] = acs.to_bytes(2, "little")
    return bytes(space)


def machine(root: Path, kind: str | None, bridge: bytes | None, vendor: str = "0x10de") -> Path:
    """One GPU below one bridge."""
    above = root / "sys/devices/pci0000:00/0000:00:01.0"
    gpu = above / "0000:01:00.0"
    gpu.mkdir(parents=True)
    (above / "vendor").write_text("0x8086\n")
    if bridge is not None:
        (above / "config").write_bytes(bridge)
    (gpu / "vendor").write_text(f"{vendor}\n")
    (gpu / "class").write_text("0x030200\n")
    if kind is not None:
        (gpu / "iommu_group").mkdir()
        (gpu / "iommu_group/type").write_text(f"{kind}\n")
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:01:00.0").symlink_to(gpu)
    return root


@pytest.mark.parametrize(
    ("kind", "bridge", "expected"),
    [
        ("DMA-FQ", config(0b11101), {"gpu.iommu": "DMA-FQ", "gpu.acs": True}),
        ("identity", config(0), {"gpu.iommu": "identity", "gpu.acs": False}),
        (None, config(None), {}),
        (None, None, {}),
        (None, config(0b1)[:64], {}),  # what somebody without rights reads
        (None, b"\xff" * 4096, {}),
    ],
)
def test_what_sys_shows(tmp_path: Path, kind: str | None, bridge: bytes | None, expected: dict[str, object]) -> None:
    found = pci(machine(tmp_path, kind, bridge)).facts
    assert {name: fact.value for name, fact in found.items()} == expected


def test_other_devices_do_not_count(tmp_path: Path) -> None:
    assert pci(machine(tmp_path, "DMA", config(4), vendor="0x1002")).facts == {}
    assert pci(tmp_path / "none").facts == {}
