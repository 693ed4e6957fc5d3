"""The GPUs of one machine, as they are listed one after the other, and the facts that follow."""

from __future__ import annotations

from vdoctor.facts.gpus import capability
from vdoctor.facts.spots import state
from vdoctor.model import Fact, FactValue

_MAX_HOLDERS = 8
_LONGEST_NAME = 60
_MAKERS = ("NVIDIA", "Tesla", "GeForce", "Quadro", "GRID", "AMD", "Intel")
_SLICED = ("gpu.count", "gpu.total_gib", "gpu.in_use_gib")


def is_gpu(name: str) -> bool:
    """Whether the text is the name of a GPU and no sentence."""
    return len(name) <= _LONGEST_NAME and (name.startswith(_MAKERS) or capability(name) is not None)


class GpuList:
    """Keeps `facts` up to date. A value on which the GPUs differ is withdrawn: it would be right for one only."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self._capabilities: dict[int, int | None] = {}
        self._contradicted = False
        self._withdrawn: set[str] = set()
        self._holders: tuple[str, ...] = ()

    def add(self, index: int, name: str, line: int, cc: int | None = None) -> None:
        """A GPU; it may be listed again, its name then perhaps cut."""
        known = self._capabilities.get(index)
        cc = cc or capability(name)
        self._contradicted |= known is not None and cc is not None and cc != known
        self._capabilities[index] = known if cc is None else cc
        self._judge_capability(line)
        state(self.facts, "gpu.name", name, line)
        self.count(len(self._capabilities), line)

    def count(self, number: int, line: int) -> None:
        """At least so many GPUs are there."""
        known = self.facts.get("gpu.count")
        if known is None or (isinstance(known.value, int) and number > known.value):
            self._set("gpu.count", number, line)

    def memory(self, used: int | None, total: int, line: int) -> None:
        """Memory of one of the GPUs, MiB."""
        size, known = round(total / 1024, 2), self.facts.get("gpu.total_gib")
        if known is None:
            self._set("gpu.total_gib", size, line)
        elif not isinstance(known.value, float) or abs(size - known.value) > 0.02 * known.value:
            self._withdraw("gpu.total_gib")
        if used is None:
            return
        in_use, most = round(used / 1024, 2), self.facts.get("gpu.in_use_gib")
        if most is None or (isinstance(most.value, float) and in_use > most.value):
            self._set("gpu.in_use_gib", in_use, line)

    def hold(self, holder: str, line: int) -> None:
        """A process that holds GPU memory."""
        if len(self._holders) < _MAX_HOLDERS:
            self._holders += (holder,)
            self._set("gpu.holders", self._holders, line)

    def slice(self) -> None:
        """A GPU is cut into MIG instances: a process sees one of these, not the whole."""
        for name in _SLICED:
            self._withdraw(name)

    def _judge_capability(self, line: int) -> None:
        kinds = set(self._capabilities.values())
        value = kinds.pop() if len(kinds) == 1 and not self._contradicted else None
        if value is None:
            self.facts.pop("gpu.cc", None)
        else:
            self._set("gpu.cc", value, line)

    def _set(self, name: str, value: FactValue, line: int) -> None:
        """The source of a fact that grows stays the line where it began."""
        if name not in self._withdrawn:
            first = self.facts.get(name)
            self.facts[name] = Fact(value, first.source if first else f"log:{line}")

    def _withdraw(self, name: str) -> None:
        self._withdrawn.add(name)
        self.facts.pop(name, None)
