"""Versions of an environment, and those that vLLM's own requirements exclude."""

from __future__ import annotations

import pytest

from vdoctor.facts.packages import conflicts, package_facts

ENV = {"python_version": "3.12", "python_full_version": "3.12.1", "sys_platform": "linux", "extra": ""}


@pytest.mark.parametrize(
    ("requires", "versions", "found"),
    [
        (["torch==2.9.1"], {"torch": "2.9.1+cu128"}, []),
        (["torch==2.13.0+cpu"], {"torch": "2.13.0+cpu"}, []),
        (["torch==2.9.1"], {"torch": "2.8.0"}, [("torch==2.9.1", "torch==2.8.0")]),
        (["Hugging_Face.Hub>=1"], {"hugging-face-hub": "0.9"}, [("Hugging_Face.Hub>=1", "Hugging_Face.Hub==0.9")]),
        (["numpy<2; python_version < '3'"], {"numpy": "2.3"}, []),
        (["torchaudio==2.9.1"], {}, []),
        (["not a requirement!", "torch==2.9.1"], {"torch": "not a version"}, []),
    ],
)
def test_conflicts(requires: list[str], versions: dict[str, str], found: list[tuple[str, str]]) -> None:
    assert conflicts(requires, versions, ENV) == found


def test_facts_of_a_cuda_build() -> None:
    answer = {
        "python": "3.12.1",
        "vllm": "0.11.2",
        "distribution": "vllm",
        "versions": {"torch": "2.8.0+cu128", "transformers": "4.57.1"},
        "requires": ["torch==2.9.0"],
        "torch_cuda": "12.8",
        "headers": True,
    }
    facts = {name: fact.value for name, fact in package_facts(answer, "probe").items()}
    assert facts["launch.device"] == "cuda"
    assert facts["cuda.torch"] == "12.8"
    assert facts["torch.needed"] == "torch==2.9.0"
    assert facts["py.conflicts"] == ("torch==2.9.0, not torch==2.8.0+cu128",)


def test_facts_of_a_cpu_build() -> None:
    answer = {"vllm": "0.32.0+cpu", "distribution": "vllm", "versions": {"torch": "2.13.0+cpu"}, "torch_cuda": None}
    facts = package_facts(answer, "probe")
    assert facts["launch.device"].value == "cpu"
    assert "torch.needed" not in facts


@pytest.mark.parametrize(
    "answer", [{}, {"versions": 3, "requires": [1], "vllm": [], "headers": "no", "torch_cuda": 12}]
)
def test_a_malformed_answer_gives_no_facts(answer: dict[str, object]) -> None:
    assert package_facts(answer, "probe") == {}
