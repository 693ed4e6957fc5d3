"""Samples as JSON objects and back. What is not measured, or steady and the same as before, is left out.

The fields come from the dataclasses themselves: one that is added there is recorded and read without a word here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar

from vdoctor import model
from vdoctor.model import GpuSample, HostSample, ProcessSample, Sample

T = TypeVar("T")
Row = dict[str, Any]

#: Fields of a GPU and of the host that are written only where they differ from the row before. A process: all but pid.
_STEADY = {
    GpuSample: ("name", "uuid", "memory_total", "unified"),
    HostSample: (
        *("net_received", "downloading", "page_cache", "available", "shm_used", "shm_total"),
        *("cgroup_used", "cgroup_limit", "oom_kills", "disk_free"),
    ),
    ProcessSample: tuple(field.name for field in fields(ProcessSample) if field.name != "pid"),
}


class _Memory:
    """The last row of each GPU and each process, and of the host; kept alike by writer and reader."""

    def __init__(self) -> None:
        self.gpus: dict[int, Any] = {}
        self.processes: dict[int, Any] = {}
        self.host: Any = None

    def seen(self, sample: Sample) -> None:
        """Remember the rows of a sample; a process that is gone is forgotten."""
        self.gpus.update((gpu.index, gpu) for gpu in sample.gpus)
        if sample.host is not None:
            self.host = sample.host
            self.processes = {process.pid: process for process in sample.host.tree}


class Writer:
    """Turns samples into JSON objects, in the order in which they came."""

    def __init__(self) -> None:
        self._memory = _Memory()

    def row(self, sample: Sample) -> Row:
        """`{"t", "gpus", "host", ...}`."""
        row: Row = {"t": round(sample.t, 4)}
        if sample.gpus:
            row["gpus"] = [_written(gpu, self._memory.gpus.get(gpu.index)) for gpu in sample.gpus]
        if sample.host is not None:
            row["host"] = _written(sample.host, self._memory.host)
            if sample.host.tree:
                row["host"]["tree"] = [_written(one, self._memory.processes.get(one.pid)) for one in sample.host.tree]
        row |= _written(sample, None, leave=("t", "gpus", "host"))
        self._memory.seen(sample)
        return row


class Reader:
    """Turns JSON objects back. Raises ValueError, TypeError, KeyError, AttributeError or OverflowError for other forms."""

    def __init__(self) -> None:
        self._memory = _Memory()

    def sample(self, t: float, row: Mapping[str, Any]) -> Sample:
        """The sample of one row."""
        gpus = tuple(_read(GpuSample, one, self._memory.gpus.get(int(one["index"]))) for one in row.get("gpus") or ())
        host = None
        if row.get("host") is not None:
            data = dict(row["host"])
            tree = tuple(
                _read(ProcessSample, one, self._memory.processes.get(int(one["pid"]))) for one in data.pop("tree", ())
            )
            host = _read(HostSample, data, self._memory.host, tree=tree)
        sample = _read(Sample, row, None, t=t, gpus=gpus, host=host)
        self._memory.seen(sample)
        return sample


def _written(value: Any, before: Any, leave: tuple[str, ...] = ("tree",)) -> Row:
    row: Row = {}
    steady = _STEADY.get(type(value), ()) if before is not None else ()
    for field in fields(value):
        now = getattr(value, field.name)
        usual = getattr(before, field.name) if field.name in steady else _default(field)
        if field.name not in leave and now != usual:
            row[field.name] = _plain(now)
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if is_dataclass(value):
        return _written(value, None)
    return dict(value) if isinstance(value, Mapping) else value


def _read(kind: type[T], row: Mapping[str, Any], before: Any, **given: Any) -> T:
    steady = _STEADY.get(kind, ()) if before is not None else ()
    values: dict[str, Any] = dict(given)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in given:
            continue
        if field.name in row:
            values[field.name] = _converted(str(field.type), row[field.name])
        elif field.name in steady:
            values[field.name] = getattr(before, field.name)
        elif _default(field) is MISSING:
            raise KeyError(field.name)
    return kind(**values)


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _converted(kind: str, value: Any) -> Any:
    """A value for a field that is annotated so."""
    if kind.endswith(" | None"):
        if value is None:
            return None
        kind = kind.removesuffix(" | None")
    if kind.startswith("tuple[") and kind.endswith(", ...]"):
        return tuple(_converted(kind[6:-6], one) for one in _items(value))
    if kind.startswith("Mapping[str, "):
        return {_text(name): _converted(kind[13:-1], one) for name, one in value.items()}
    if kind.startswith("Literal["):
        if f"'{_text(value)}'" not in kind:
            raise ValueError(f"{value!r} is not one of {kind[8:-1]}")
        return value
    if kind not in _CONVERTERS:
        return _read(getattr(model, kind), value, None)
    return _CONVERTERS[kind](value)


def finite(value: Any) -> float:
    """json reads NaN and Infinity, which no clock and no meter shows."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no finite number")
    return number


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


_CONVERTERS: dict[str, Callable[[Any], Any]] = {"int": int, "float": finite, "str": _text, "bool": _bool}
