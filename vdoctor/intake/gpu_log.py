"""What nvidia-smi records as samples: `--query-gpu=... --format=csv`, in any order of columns, and `dmon`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from vdoctor.errors import UserError
from vdoctor.model import GpuSample

_MIB, _MB = 1 << 20, 10**6
_HINT = "record one with: nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total,utilization.gpu --format=csv -lms 200"
#: Clock reasons that slow a GPU down, as NVML counts them (nvmlClocksEventReasons); idle and set by a person are no fault.
SLOWING = {
    0x04: "SwPowerCap",
    0x08: "HwSlowdown",
    0x20: "SwThermalSlowdown",
    0x40: "HwThermalSlowdown",
    0x80: "HwPowerBrakeSlowdown",
}
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?")
_LOST = re.compile(r"gpu is lost|gpu requires reset", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU at one moment. `time`: seconds since 1970, reading the recorder's clock as UTC; None when not recorded."""

    line: int
    time: float | None
    gpu: GpuSample
    #: The recorder wrote a time of day alone.
    day_known: bool = True


class Table:
    """Reads lines one after the other; the first one that names columns decides the form."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()
        self._units: dict[str, str] = {}
        self._dmon = False
        self._order: dict[str, int] = {}
        self._moment: str | None = None
        self._in_moment = 0
        self.lines = 0

    @property
    def named(self) -> bool:
        """Whether the columns are known."""
        return bool(self._columns)

    def feed(self, line: str) -> Row | None:
        """The row of a line; None for headings, blank lines and what cannot be read."""
        self.lines += 1
        text = line.strip().lstrip("\ufeff")
        if not text:
            return None
        if text.startswith("#"):
            self._heading(text)
            return None
        if self._dmon:
            return self._row(re.split(r"[,\s]+", text))
        cells = [cell.strip() for cell in text.split(",")]
        if _is_heading(cells):
            self._name(cells)
            return None
        return self._row(cells) if self._columns else None

    def _heading(self, text: str) -> None:
        """`# gpu pwr sm mem fb`, below it the units; both come again every few lines."""
        words = [word for word in re.split(r"[,\s]+", text.lstrip("# ")) if word]
        lower = tuple(word.lower() for word in words)
        if "gpu" in lower:
            self._columns, self._dmon = lower, True
        elif self._dmon and len(words) == len(self._columns):
            self._units = dict(zip(self._columns, words, strict=True))

    def _name(self, cells: Sequence[str]) -> None:
        names = [re.fullmatch(r"([a-z_.]+)(?: \[(.*)\])?", cell) for cell in cells]
        self._columns = tuple(found[1] if found else "" for found in names)
        self._units = {found[1]: found[2] for found in names if found and found[2]}

    def _row(self, cells: Sequence[str]) -> Row | None:
        if len(cells) != len(self._columns):
            return None
        row = dict(zip(self._columns, cells, strict=True))
        time, day_known = self._time(row)
        values: dict[str, Any] = {}
        for names, field, read in _DMON if self._dmon else _FIELDS:
            text = next((row[name] for name in names if name in row), None)
            value = read(text) if text is not None else None
            if value is not None:
                values[field] = value
        fault = next((cell.strip("[]") for cell in cells if _LOST.search(cell)), None)
        if fault is not None:
            values |= {"lost": True, "fault": fault}
        if not values:
            return None
        index = self._index(row)
        return None if index is None else Row(self.lines, time, GpuSample(index, **values), day_known)

    def _index(self, row: dict[str, str]) -> int | None:
        """As recorded; else by the order in which the cards come, within one moment where nothing tells them apart."""
        for name in ("index", "gpu", "idx"):
            if row.get(name, "").isdecimal():
                return int(row[name])
        if self._dmon:
            return None
        for name in ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial"):
            if name in row:
                return self._order.setdefault(row[name], len(self._order))
        moment = row.get("timestamp")
        self._in_moment = self._in_moment + 1 if moment is not None and moment == self._moment else 0
        self._moment = moment
        return self._in_moment

    @staticmethod
    def _time(row: dict[str, str]) -> tuple[float | None, bool]:
        """`2024/05/01 12:00:00.123`; dmon -o DT: `20240501` and `12:00:00`; -o T: the time of day alone."""
        date, clock = row.get("date"), row.get("time")
        stamp = row.get("timestamp") or (f"{date} {clock}" if date else f"1970/01/01 {clock}" if clock else "")
        for form in ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y%m%d %H:%M:%S", "%Y-%m-%d %H:%M:%S"):
            try:
                return datetime.strptime(stamp, form).replace(tzinfo=timezone.utc).timestamp(), bool(date or not clock)
            except ValueError:
                continue
        return None, False


def read_rows(name: str, lines: Iterable[str]) -> list[Row]:
    """All rows of a recording. Raises UserError (what, where) when there is none, or none that says anything."""
    table = Table()
    rows: list[Row] = []
    first_bad: int | None = None
    for line in lines:
        row = table.feed(line)
        if row is not None:
            rows.append(row)
        elif not table.named and line.strip() and first_bad is None:
            first_bad = table.lines
    if not table.named:
        where = f"{name}: line {first_bad}" if first_bad else name
        raise UserError(f"{where}: is no recording of nvidia-smi: no line names its columns", _HINT)
    if not rows:
        raise UserError(
            f"{name}: line {table.lines}: columns are named, but no row of {len(table._columns)} values follows", _HINT
        )
    if all(row.gpu.memory_used is None and not row.gpu.lost for row in rows):
        raise UserError(f"{name}: holds no GPU memory (memory.used, or fb of dmon -s m)", _HINT)
    return rows


def with_steady(rows: Iterable[Row]) -> list[Row]:
    """dmon and short queries tell the size of the memory seldom or never: what was said once holds for all rows."""
    known: dict[int, GpuSample] = {}
    found = []
    for row in rows:
        last = known.get(row.gpu.index)
        gpu = row.gpu
        if last is not None:
            gpu = replace(
                gpu,
                name=gpu.name or last.name,
                uuid=gpu.uuid or last.uuid,
                memory_total=gpu.memory_total or last.memory_total,
            )
        known[gpu.index] = gpu
        found.append(replace(row, gpu=gpu))
    return found


def _is_heading(cells: Sequence[str]) -> bool:
    return any(cell.partition(" [")[0] in _TELLING for cell in cells)


def _scaled(unit: float) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        found = _NUMBER.match(text)
        return round(float(found[0]) * unit) if found else None

    return read


def _watts(text: str) -> float | None:
    found = _NUMBER.match(text)
    return float(found[0]) if found else None


def _word(text: str) -> str | None:
    return None if not text or text.startswith("[") or text == "N/A" else text


def _reasons(text: str) -> tuple[str, ...] | None:
    try:
        bits = int(text, 16)
    except ValueError:
        return None
    return tuple(name for bit, name in SLOWING.items() if bits & bit)


_Field = tuple[tuple[str, ...], str, Callable[[str], Any]]
#: Columns of --query-gpu (nvidia-smi --help-query-gpu) and of dmon (nvidia-smi dmon -h); memory comes in MiB.
_FIELDS: tuple[_Field, ...] = (
    (("name", "gpu_name"), "name", _word),
    (("uuid", "gpu_uuid"), "uuid", _word),
    (("memory.total",), "memory_total", _scaled(_MIB)),
    (("memory.used",), "memory_used", _scaled(_MIB)),
    (("memory.free",), "memory_free", _scaled(_MIB)),
    (("utilization.gpu",), "utilization", _scaled(1)),
    (("power.draw", "power.draw.instant", "power.draw.average"), "power", _watts),
    (("clocks_event_reasons.active", "clocks_throttle_reasons.active"), "throttle", _reasons),
    (("ecc.errors.uncorrected.volatile.total",), "ecc_errors", _scaled(1)),
)
_DMON: tuple[_Field, ...] = (
    (("fb",), "memory_used", _scaled(_MIB)),
    (("sm",), "utilization", _scaled(1)),
    (("pwr",), "power", _watts),
    (("rxpci",), "pcie_rx", _scaled(_MB)),
    (("txpci",), "pcie_tx", _scaled(_MB)),
    (("dbecc",), "ecc_errors", _scaled(1)),
)
_TELLING = frozenset(name for names, _, _ in _FIELDS for name in names) | {"timestamp", "index"}
