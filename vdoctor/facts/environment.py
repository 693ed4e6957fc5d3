"""What `collect_env` of vLLM and torch prints, in its old layout ("OS: ...") and its new one ("OS      : ...").

Lists that people type by hand, `pip list`, `pip freeze` and `nvcc --version` read alike.
"""

from __future__ import annotations

import functools

from vdoctor.facts.registry import VARIABLES
from vdoctor.facts.spots import Convert, Spot, SpotSet, state
from vdoctor.model import Event, Fact

# What may stand before a line in a ticket: list marks, bold, quotes, table rulers.
_LEAD = r"^[\s>|*`\-]{0,8}"
_COLON = r"[\s*`]{0,40}[:|][\s*`]{0,4}"
_RELEASE = r"\d{1,4}(?:\.\w{1,20}){1,5}(?:\+[\w.]{1,60})?"


def _own_release(text: str) -> str | None:
    """A checkout without its tags calls itself 0.1.dev12 or 0.0.0: that says nothing."""
    return None if text.startswith(("0.0.", "0.1.dev")) else text


def _wheel_cuda(text: str) -> str | None:
    """The CUDA of `2.9.0+cu128`."""
    tag = text.partition("+cu")[2]
    return f"{tag[:2]}.{tag[2:]}" if tag.isdecimal() and len(tag) == 3 else None


def _package(fact: str, *names: str) -> tuple[Spot, ...]:
    """A package in `pip list`, `pip freeze` and collect_env; conda adds build and channel."""
    facts: dict[str, tuple[str, Convert]] = {"a": (fact, _own_release)}
    if fact == "torch.version":
        facts["b"] = ("cuda.torch", _wheel_cuda)
    name = f"(?:{'|'.join(names)})"
    version = rf"(?P<a>(?P<b>{_RELEASE}))"
    return (
        Spot(rf"{_LEAD}(?:\[pip3?\] )?{name}(?:==| {{1,60}}|{_COLON})v?{version}\s{{0,80}}$", facts, names),
        Spot(
            rf"{_LEAD}\[conda\] {name} {{1,60}}{version}(?: {{1,60}}\S{{1,60}}){{0,2}}\s{{0,80}}$", facts, ("[conda] ",)
        ),
    )


def _variable(name: str) -> Spot:
    """`NAME=value` on a line of its own, exported or given to docker, `NAME: value` in YAML."""
    lead = r"^[\s>*]{0,40}(?:- |export |-e |--env |--env=|ENV )?"
    return Spot(
        rf"""{lead}{name}(?:=|: )["']?(?P<a>[^\s"']{{0,400}})["']?(?: \\)?$""",
        {"a": (f"env.{name}", str)},
        (name,),
    )


def _system(label: str) -> Spot:
    pattern = rf"{_LEAD}{label}(?P<a>\S.{{0,80}}?)(?: \((?:x86_64|aarch64|arm64|ppc64le)\))?$"
    return Spot(pattern, {"a": ("os.name", str)})


SPOTS: tuple[Spot, ...] = (
    Spot(
        rf"{_LEAD}(?:vLLM|VLLM|vllm) [Vv]ersion[\s:*`|]{{1,40}}v?(?P<a>{_RELEASE})",
        {"a": ("vllm.version", _own_release)},
    ),
    Spot(
        rf"{_LEAD}(?:PyTorch|Torch|torch) [Vv]ersion{_COLON}(?P<a>(?P<b>{_RELEASE}))",
        {"a": ("torch.version", str), "b": ("cuda.torch", _wheel_cuda)},
    ),
    Spot(rf"{_LEAD}CUDA used to build PyTorch{_COLON}(?P<a>\d{{1,2}}\.\d{{1,2}})", {"a": ("cuda.torch", str)}),
    # collect_env asks nvcc, so its "runtime" is the toolkit.
    Spot(rf"{_LEAD}CUDA runtime version{_COLON}(?P<a>\d{{1,2}}(?:\.\d{{1,4}}){{1,2}})", {"a": ("cuda.toolkit", str)}),
    Spot(r"Cuda compilation tools, release \d{1,2}\.\d{1,2}, V(?P<a>\d[\d.]{0,20}\d)", {"a": ("cuda.toolkit", str)}),
    Spot(
        rf"{_LEAD}(?:Nvidia|NVIDIA) [Dd]river [Vv]ersion{_COLON}(?P<a>\d{{3,4}}(?:\.\d{{1,4}}){{0,2}})",
        {"a": ("driver.version", str)},
    ),
    _system("OS: "),
    _system("OS" + " " * 27 + ": "),
    Spot(rf"{_LEAD}Libc version{_COLON}glibc-(?P<a>\d{{1,2}}\.\d{{1,3}})", {"a": ("os.glibc", str)}),
    Spot(rf"{_LEAD}Python [Vv]ersion{_COLON}(?P<a>\d(?:\.\w{{1,8}}){{1,3}})", {"a": ("python.version", str)}),
    # The kernel of WSL, in `uname -a` and in the line "Python platform".
    Spot(r"(?P<a>[Mm]icrosoft-standard)", {"a": ("os.wsl", bool)}),
    *_package("vllm.version", "vllm", "vLLM"),
    *_package("torch.version", "torch", "PyTorch"),
    *_package("transformers.version", "transformers", "Transformers"),
    *_package("flashinfer.version", "flashinfer-python", "flashinfer_python", "flashinfer", "FlashInfer"),
    *_package("triton.version", "triton", "Triton"),
    *(_variable(name) for name in VARIABLES),
)


@functools.cache
def _spots() -> SpotSet:
    return SpotSet(SPOTS)


class EnvironmentFacts:
    """Fed with the lines of a ticket."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}

    def feed(self, event: Event) -> None:
        """Take the next line."""
        for name, value in _spots().read(event.text):
            state(self.facts, name, value, event.line)
