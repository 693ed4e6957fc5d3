from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.tickets import read, values
from vdoctor.facts.environment import EnvironmentFacts
from vdoctor.facts.registry import VARIABLES, known

OLD = """\
Collecting environment information...
PyTorch version: 2.5.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
ROCM used to build PyTorch: N/A

OS: Rocky Linux 9.4 (Blue Onyx) (x86_64)
Clang version: Could not collect
Libc version: glibc-2.34

Python version: 3.11.9 (main, Apr 19 2024, 16:48:06) [GCC 11.2.0] (64-bit runtime)
Python platform: Linux-5.14.0-427.el9.x86_64-x86_64-with-glibc2.34
Is CUDA available: True
CUDA runtime version: Could not collect
Nvidia driver version: 555.42.02

Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] torch==2.5.1
[pip3] transformers==4.46.2
[pip3] triton==3.1.0
[conda] flashinfer-python         0.1.6                    pypi_0    pypi
ROCM Version: Could not collect
Neuron SDK Version: N/A
vLLM Version: 0.6.4.post1
vLLM Build Flags:
CUDA Archs: Not Set; ROCm: Disabled; Neuron: Disabled"""

NEW = """\
==============================
        System Info
==============================
OS                           : Debian GNU/Linux 12 (bookworm) (aarch64)
Libc version                 : glibc-2.36

==============================
       PyTorch Info
==============================
PyTorch version              : 2.9.0+cu130
CUDA used to build PyTorch   : 13.0

==============================
      Python Environment
==============================
Python version               : 3.13.7 (main, Aug 20 2025, 11:22:33) [GCC 12.2.0] (64-bit runtime)
Python platform              : Linux-6.6.87.2-microsoft-standard-WSL2-aarch64-with-glibc2.36

==============================
       CUDA / GPU Info
==============================
CUDA runtime version         : 13.0.48
Nvidia driver version        : 580.65.06

==============================
         vLLM Info
==============================
vLLM Version                 : 0.12.1rc0.dev7+g0123abcd (git sha: 0123abcd)

==============================
     Environment Variables
==============================
NVIDIA_VISIBLE_DEVICES=all
CUDA_VISIBLE_DEVICES=1,2
VLLM_USE_V1=1
LD_LIBRARY_PATH=/opt/cuda/lib64:/usr/lib64
NCCL_SOCKET_IFNAME=eth0"""


def test_old_layout() -> None:
    assert values(EnvironmentFacts(), OLD) == {
        "torch.version": "2.5.1+cu124",
        "cuda.torch": "12.4",
        "os.name": "Rocky Linux 9.4 (Blue Onyx)",
        "os.glibc": "2.34",
        "python.version": "3.11.9",
        "driver.version": "555.42.02",
        "transformers.version": "4.46.2",
        "triton.version": "3.1.0",
        "flashinfer.version": "0.1.6",
        "vllm.version": "0.6.4.post1",
    }


def test_new_layout() -> None:
    assert values(EnvironmentFacts(), NEW) == {
        "os.name": "Debian GNU/Linux 12 (bookworm)",
        "os.glibc": "2.36",
        "torch.version": "2.9.0+cu130",
        "cuda.torch": "13.0",
        "python.version": "3.13.7",
        "os.wsl": True,
        "cuda.toolkit": "13.0.48",
        "driver.version": "580.65.06",
        "vllm.version": "0.12.1rc0.dev7+g0123abcd",
        "env.CUDA_VISIBLE_DEVICES": "1,2",
        "env.VLLM_USE_V1": "1",
        "env.LD_LIBRARY_PATH": "/opt/cuda/lib64:/usr/lib64",
        "env.NCCL_SOCKET_IFNAME": "eth0",
    }


def test_each_fact_knows_its_line() -> None:
    facts = read(EnvironmentFacts(), OLD)
    assert facts["torch.version"].source == "log:2"
    assert facts["vllm.version"].source == "log:25"


def test_all_facts_are_registered() -> None:
    assert all(known(name) for text in (OLD, NEW) for name in read(EnvironmentFacts(), text))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("> - vLLM version: 0.9.2, Python 3.12", {"vllm.version": "0.9.2"}),
        ("**vLLM Version**: 0.10.0", {"vllm.version": "0.10.0"}),
        ("vllm==0.10.2", {"vllm.version": "0.10.2"}),
        ("vllm                              0.8.3", {"vllm.version": "0.8.3"}),
        ("- torch: 2.7.1+cu118", {"torch.version": "2.7.1+cu118", "cuda.torch": "11.8"}),
        ("transformers              5.0.1", {"transformers.version": "5.0.1"}),
        ("flashinfer-python         0.5.3", {"flashinfer.version": "0.5.3"}),
        ("Cuda compilation tools, release 12.6, V12.6.85", {"cuda.toolkit": "12.6.85"}),
        ("Linux pc 6.6.87.2-microsoft-standard-WSL2 #1 SMP x86_64 GNU/Linux", {"os.wsl": True}),
        ("export NCCL_P2P_DISABLE=1", {"env.NCCL_P2P_DISABLE": "1"}),
        ("      - VLLM_ATTENTION_BACKEND=FLASHINFER", {"env.VLLM_ATTENTION_BACKEND": "FLASHINFER"}),
        ("      VLLM_LOGGING_LEVEL: DEBUG", {"env.VLLM_LOGGING_LEVEL": "DEBUG"}),
        ('  -e CUDA_VISIBLE_DEVICES="0,1" \\', {"env.CUDA_VISIBLE_DEVICES": "0,1"}),
        ("CUDA_VISIBLE_DEVICES=", {"env.CUDA_VISIBLE_DEVICES": ""}),
    ],
)
def test_lists_and_settings_that_people_type(line: str, expected: dict[str, object]) -> None:
    assert values(EnvironmentFacts(), line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "vLLM Version: N/A (git sha: 0123abc, dirty)",
        "vLLM Version: 0.1.dev1+g0123abc",
        "DeprecationWarning: this goes away in vLLM version 0.14.0",
        "vllm 0.6.3 requires torch==2.4.0, but you have torch 2.5.1 which is incompatible.",
        "Collecting transformers==4.46.2 (from vllm)",
        "CUDA used to build PyTorch: None",
        "CUDA runtime version: No CUDA",
        "Nvidia driver version: Could not collect",
        "[conda] Could not collect",
        "CUDA_VISIBLE_DEVICES=0 vllm serve m",
        "HF_TOKEN=hf_abc",
        "torch is 2.5.1 here",
    ],
)
def test_what_states_nothing(line: str) -> None:
    assert values(EnvironmentFacts(), line) == {}


def test_the_first_value_stays() -> None:
    assert values(EnvironmentFacts(), "torch==2.6.0\ntorch==2.7.0") == {"torch.version": "2.6.0"}


@given(st.lists(st.sampled_from([*OLD.split("\n"), *NEW.split("\n"), *VARIABLES, ": ", "=", " " * 50, "9" * 300])))
def test_any_mixture_of_lines_is_read(parts: list[str]) -> None:
    read(EnvironmentFacts(), "".join(parts))


def test_hostile_lines_cost_little() -> None:
    start = time.perf_counter()
    for name in ("torch", "vLLM Version", "OS: ", "CUDA_HOME=", "[conda] triton"):
        read(EnvironmentFacts(), (name + " " * 900 + "1." * 400) + "\n" + name * 300)
    assert time.perf_counter() - start < 1.0
