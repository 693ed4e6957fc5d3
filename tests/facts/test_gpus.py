from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdoctor.facts.gpus import capability


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Tesla K80", 37),
        ("GeForce GTX TITAN X", 52),
        ("Tesla P100-PCIE-16GB", 60),
        ("Tesla P40", 61),
        ("NVIDIA GeForce GTX 1080 Ti", 61),
        ("NVIDIA TITAN X (Pascal)", 61),
        ("Tesla V100-SXM2-32GB", 70),
        ("NVIDIA TITAN V", 70),
        ("Tesla T4", 75),
        ("NVIDIA GeForce RTX 2080 Ti", 75),
        ("NVIDIA GeForce GTX 1650", 75),
        ("Quadro RTX 5000", 75),
        ("RTX 5000", 75),
        ("NVIDIA TITAN RTX", 75),
        ("NVIDIA A100-SXM4-80GB", 80),
        ("NVIDIA A800 80GB PCIe", 80),
        ("NVIDIA A30", 80),
        ("NVIDIA A10G", 86),
        ("NVIDIA A16", 86),
        ("NVIDIA A2", 86),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 86),
        ("NVIDIA GeForce RTX 2050", 86),
        ("NVIDIA RTX A4000", 86),
        ("Orin (nvgpu)", 87),
        ("NVIDIA L4", 89),
        ("NVIDIA L40S-48Q", 89),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 89),
        ("NVIDIA RTX 6000 Ada Generation", 89),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", 89),
        ("NVIDIA RTX 4000 SFF Ada Generation", 89),
        ("NVIDIA H100 PCIe", 90),
        ("NVIDIA H20-3e", 90),
        ("NVIDIA H800", 90),
        ("NVIDIA GH200 120GB", 90),
        ("NVIDIA B200", 100),
        ("NVIDIA GB200", 100),
        ("NVIDIA B300 SXM6 AC", 103),
        ("NVIDIA Thor", 110),
        ("NVIDIA GeForce RTX 5070", 120),
        ("NVIDIA RTX PRO 4500 Blackwell", 120),
        ("NVIDIA GB10", 121),
    ],
)
def test_models_have_their_capability(name: str, value: int) -> None:
    assert capability(name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 2g.20gb", 90),
        ("GRID A100D-3-40C MIG 3g.40gb", 80),
        ("Tesla V100-SXM2...", 70),
        ("NVIDIA RTX 6000 Ada Gene...", 89),
        ("NVIDIA RTX PRO 6000 Blac...", 120),
    ],
)
def test_slices_and_cut_names_are_understood(name: str, value: int) -> None:
    assert capability(name) == value


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA RTX 6000...",  # Turing or Ada
        "GeForce RTX 208...",
        "AMD Instinct MI300X",
        "Intel(R) Arc(TM) A770",
        "NVIDIA Graphics Device",
        "T44",
        "",
    ],
)
def test_what_may_be_anything_stays_unknown(name: str) -> None:
    assert capability(name) is None


@given(st.text(max_size=80))
def test_any_name_has_an_answer(name: str) -> None:
    assert capability(name) in {None, *range(37, 122)}
