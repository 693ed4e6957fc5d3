"""What stands between the GPUs of a machine: IOMMU and ACS, as far as /sys shows them. Hints, no proof: both may be
on and direct copies still work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vdoctor.live.probe.finding import Seen

_NVIDIA = "0x10de"
_DISPLAY = "0x03"
#: Extended capability "Access Control Services" (PCI Express base specification, 7.7.11): its number, where its control
#: word stands, and the bits that send requests and completions between devices up to the root (as in setpci ECAP_ACS+6).
_ACS, _CONTROL, _REDIRECT = 0x000D, 6, 0b1100
_FIRST_EXTENDED, _CONFIG_SIZE = 0x100, 4096


def pci(root: Path = Path("/")) -> Seen:
    """Facts `gpu.iommu` (how the IOMMU treats the GPUs: identity passes them through, DMA and DMA-FQ translate) and
    `gpu.acs` (a bridge above a GPU redirects; unknown without the right to read). `root` is where /sys hangs (for tests)."""
    seen = Seen()
    devices = list(_gpus(root))
    kinds = [kind for one in devices if (kind := _text(one / "iommu_group" / "type"))]
    if kinds:
        translating = [kind for kind in kinds if kind != "identity"]
        seen.add("gpu.iommu", (translating or kinds)[0], "probe:/sys")
    answers = [answer for one in devices for bridge in _bridges(one) if (answer := _redirects(bridge)) is not None]
    if answers:
        seen.add("gpu.acs", any(answers), "probe:/sys")
    return seen


def _gpus(root: Path) -> Iterator[Path]:
    """The folders of NVIDIA's devices of class display (VGA and 3D controllers)."""
    for one in sorted(root.glob("sys/bus/pci/devices/*")):
        if _text(one / "vendor") == _NVIDIA and _text(one / "class").startswith(_DISPLAY):
            yield one.resolve()


def _bridges(device: Path) -> Iterator[Path]:
    """The devices above one: a folder lies in that of its bridge."""
    for parent in device.parents:
        if parent.name.startswith("pci") or not (parent / "vendor").exists():
            return
        yield parent


def _redirects(bridge: Path) -> bool | None:
    """Whether its ACS redirects; None where that cannot be read, or where it has none."""
    try:
        with (bridge / "config").open("rb") as file:
            config = file.read(_CONFIG_SIZE)
    except OSError:
        return None
    at = _FIRST_EXTENDED
    # A chain that leads back to itself ends, too.
    for _ in range(64):
        if at < _FIRST_EXTENDED or at + 8 > len(config):
            return None
        head = int.from_bytes(config[at : at + 4], "little")
        if head & 0xFFFF == _ACS:
            return bool(int.from_bytes(config[at + _CONTROL : at + _CONTROL + 2], "little") & _REDIRECT)
        at = head >> 20
    return None


def _text(path: Path) -> str:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return ""
