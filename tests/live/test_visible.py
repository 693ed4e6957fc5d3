"""CUDA_VISIBLE_DEVICES against lists of devices."""

from __future__ import annotations

import pytest

from vdoctor.live.visible import Device, visible

CARDS = tuple(Device(at, "H100", f"GPU-{name}-0000") for at, name in enumerate(("1a", "1b", "2c")))
SLICES = (
    Device(0, "A100 MIG", "MIG-aaaa", (7, 0), "GPU-1a-0000"),
    Device(0, "A100 MIG", "MIG-bbbb", (8, 0), "GPU-1a-0000"),
    Device(1, "A100", "GPU-2b-0000"),
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("0", [0]),
        (" 2 , 0 ", [0, 2]),
        ("0,1,9,2", [0, 1]),
        ("-1,0", []),
        ("1,-1,0", [1]),
        ("none", []),
        ("1,1", []),
        ("1gpu", [1]),
        ("GPU-1a", [0]),
        ("GPU-1", []),
        ("GPU-2c,GPU-1b-0000", [1, 2]),
        ("GPU-2c,GPU-9", [2]),
        ("GPU-2c,0", [2]),
        ("gpu-2c", []),
        ("MIG-aaaa", []),
    ],
)
def test_cards(wanted: str | None, found: list[int]) -> None:
    env = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    assert [device.index for device in visible(env, CARDS)] == found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, [0, 1, 2]),
        ("MIG-bbbb", [1]),
        ("MIG-b", [1]),
        ("MIG-", []),
        ("MIG-aaaa,MIG-bbbb", [0, 1]),
        ("MIG-GPU-1a-0000/8/0", [1]),
        ("MIG-GPU-1a-0000/9/0", []),
        ("GPU-1a", [0, 1]),
        ("0", [0, 1]),
        ("1", [2]),
    ],
)
def test_slices(wanted: str | None, found: list[int]) -> None:
    env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | ({} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted})
    assert [SLICES.index(device) for device in visible(env, SLICES)] == found


def test_index_among_different_cards_is_known_only_by_bus_order() -> None:
    mixed = (Device(0, "RTX 2000", "GPU-a"), Device(1, "H100", "GPU-b"))
    assert visible({"CUDA_VISIBLE_DEVICES": "0"}, mixed) == list(mixed)
    assert visible({"CUDA_VISIBLE_DEVICES": "GPU-a"}, mixed) == [mixed[0]]
    assert visible({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, mixed) == [mixed[0]]
