"""What nvidia-smi prints: its table, `-L`, `--query-gpu` as CSV and `topo -m`. collect_env quotes some of it."""

from __future__ import annotations

import re

from vdoctor.facts.gpu_list import GpuList, is_gpu
from vdoctor.facts.spots import state
from vdoctor.model import Event, Fact

# Drivers from 610 on say KMD and CUDA UMD.
_HEAD = re.compile(
    r"\| NVIDIA-SMI \S{1,20} {1,40}(?:Driver|KMD) Version: (?P<driver>\d{3,4}(?:\.\d{1,4}){0,2})"
    r"(?: {1,40}CUDA (?:UMD )?Version: (?P<major>\d{1,3})\.(?P<minor>\d{1,2})\b)?"
)
_GPU_ROW = re.compile(
    r"\| {1,6}(?P<index>\d{1,3}) {1,4}(?P<name>[A-Z]\S{0,40}(?: \S{1,40}){0,8}) {1,30}"
    r"(?:On|Off|N/A|WDDM|TCC|MCDM) {0,6}\|"
)
_MEMORY = re.compile(r"\| {1,16}(?P<used>\d{1,9})MiB {0,4}/ {0,8}(?P<total>\d{1,9})MiB {0,8}\|")
# Only what computes (C): a desktop's share (G) is small and cannot be ended.
_HOLDER = re.compile(
    r"\| {1,8}\d{1,3} {1,8}(?:(?:N/A|\d{1,2}) {1,6}(?:N/A|\d{1,2}) {1,20})?(?P<pid>\d{1,9}) {1,8}(?:M\+)?C(?:\+G)? {1,8}"
    r"(?P<name>\S.{0,80}?) {1,60}(?P<used>\d{1,9})MiB \|"
)
_MODELS = r"GPU models and configuration\s{0,20}:\s{0,4}"
_LISTED = re.compile(
    rf"[\s>|*\-]{{0,8}}(?:(?:{_MODELS})?GPU (?P<index>\d{{1,3}}): |{_MODELS})"
    r"(?P<name>[A-Z][^(\n]{1,80}(?:\((?!x\d|UUID|gfx)[^:)]{1,40}\))?) ?(?:\(x(?P<times>\d{1,3})\)|\((?:UUID|gfx).{0,80})?\s{0,4}$"
)
_MIG = re.compile(r"MIG \d{1,2}c?\.?\d{0,2}g\.\d{1,3}gb\S{0,8} {1,40}Device")
_QUERY = re.compile(r"--query-gpu[= ][\"']?(?P<columns>[a-z_.]{3,40}(?:, ?[a-z_.]{3,40}){0,20})")
_HEADER = re.compile(r"[a-z_.]{3,40}(?: \[[^\]]{1,8}\])?(?:, [a-z_.]{3,40}(?: \[[^\]]{1,8}\])?){0,20}$")
#: A header line names at least one of these.
_TELLING = frozenset(("name", "gpu_name", "memory.total", "memory.used", "compute_cap", "driver_version"))
_LINK = re.compile(r"(?:X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS)$")
_LONGEST = 400


class NvidiaSmiFacts:
    """Fed with the lines of a ticket. Of several tables the first one counts."""

    def __init__(self) -> None:
        self._gpus = GpuList()
        self._tables = 0
        self._query = _Query(self._gpus)
        self._topology = _Topology(self._gpus)

    @property
    def facts(self) -> dict[str, Fact]:
        return self._gpus.facts

    def feed(self, event: Event) -> None:
        """Take the next line."""
        text, line = event.text, event.line
        if len(text) > _LONGEST:
            return
        if text[:1] == "|":
            self._table_line(text, line)
        elif "GPU" in text:
            self._listed(text, line)
            self._topology.feed(text, line)
        elif "MIG " in text and _MIG.match(text.lstrip()):
            self._gpus.slice()
        self._query.feed(text, line)

    def _table_line(self, text: str, line: int) -> None:
        if "NVIDIA-SMI" in text and (head := _HEAD.match(text)):
            self._tables += 1
            state(self.facts, "driver.version", head["driver"], line)
            if head["major"]:
                # torch prints CUDA 12.4 as 12040.
                state(self.facts, "driver.cuda", int(head["major"]) * 1000 + int(head["minor"]) * 10, line)
        elif self._tables != 1:
            return
        elif row := _GPU_ROW.match(text):
            self._gpus.add(int(row["index"]), row["name"], line)
        elif "MIG devices" in text:
            self._gpus.slice()
        elif "MiB" in text:
            self._memory(text, line)

    def _memory(self, text: str, line: int) -> None:
        if holder := _HOLDER.match(text):
            self._gpus.hold(f"{holder['name']} (pid {holder['pid']}) {holder['used']} MiB", line)
        elif found := _MEMORY.search(text):
            self._gpus.memory(int(found["used"]), int(found["total"]), line)

    def _listed(self, text: str, line: int) -> None:
        found = _LISTED.match(text)
        name = found["name"].rstrip() if found else ""
        if found and is_gpu(name):
            # "GPU 0: NVIDIA L40 (x8)" is a list that somebody shortened.
            for more in range(int(found["times"] or 1)):
                self._gpus.add(int(found["index"] or 0) + more, name, line)


class _Query:
    """`nvidia-smi --query-gpu=... --format=csv`: a header line or the command itself names the columns."""

    def __init__(self, gpus: GpuList) -> None:
        self._gpus = gpus
        self._columns: tuple[str, ...] = ()
        self._rows = 0

    def feed(self, text: str, line: int) -> None:
        if "--query-gpu" in text or (", " in text and text[:1].islower()):
            found = _QUERY.search(text)
            names = found["columns"] if found else text if _HEADER.match(text) else ""
            columns = tuple(name.partition("[")[0].strip() for name in names.split(","))
            if _TELLING & set(columns):
                self._columns, self._rows = columns, 0
                return
        if self._columns and not text.startswith("```"):
            self._row(text, line)

    def _row(self, text: str, line: int) -> None:
        cells = [cell.strip() for cell in text.split(", ")]
        row = dict(zip(self._columns, cells, strict=False))
        name = row.get("name") or row.get("gpu_name")
        if len(cells) != len(self._columns) or (name is not None and not is_gpu(name)):
            self._columns = ()
            return
        index = _whole(row.get("index"))
        if name is not None:
            self._gpus.add(self._rows if index is None else index, name, line, _tenfold(row.get("compute_cap")))
        total = _whole(row.get("memory.total"))
        if total:
            self._gpus.memory(_whole(row.get("memory.used")), total, line)
        if driver := re.match(r"\d{3,4}(?:\.\d{1,4}){0,2}$", row.get("driver_version", "")):
            state(self._gpus.facts, "driver.version", driver[0], line)
        self._rows += 1


class _Topology:
    """`nvidia-smi topo -m`: a line for each GPU with its link to each other one."""

    def __init__(self, gpus: GpuList) -> None:
        self._gpus = gpus
        self._width = 0
        self._line = 0
        self._kinds: set[str] = set()

    def feed(self, text: str, line: int) -> None:
        words = text.split()
        if words[:2] == ["GPU0", "GPU1"]:
            others = bool(self._line)  # another machine, or the same again: the first one counts
            self._width = 0 if others else sum(word.startswith("GPU") and word[3:].isdecimal() for word in words)
            self._line = self._line or line
            return
        links = words[1 : self._width + 1]
        if not links or not words[0].startswith("GPU") or not all(_LINK.match(link) for link in links):
            return
        self._gpus.count(self._width, self._line)
        self._kinds |= {"nvlink" if link.startswith("NV") else "pcie" for link in links if link != "X"}
        kind = "mixed" if len(self._kinds) > 1 else min(self._kinds, default=None)
        if kind:
            self._gpus.facts["gpu.link"] = Fact(kind, f"log:{self._line}")


def _whole(text: str | None) -> int | None:
    found = re.match(r"\d{1,9}\b", text or "")
    return int(found[0]) if found else None


def _tenfold(text: str | None) -> int | None:
    found = re.match(r"(\d{1,2})\.(\d)$", text or "")
    return int(found[1] + found[2]) if found else None
