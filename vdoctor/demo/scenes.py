"""What the processes of a recorded start did, moment by moment, in the words of its stand-ins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vdoctor.live.records import Reader
from vdoctor.model import HostSample, ProcessSample

#: Bytes a second that are the reading of a checkpoint; share of a core that is work.
_READS, _WORKS = 5e6, 0.5


class Moment(dict[int, tuple[str, str]]):
    """Pid of the recording to (name, behaviour) of each process below the first one."""


def moments(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[float, Moment]]:
    """(seconds since the launch, who did what) of a session's samples.jsonl; what cannot be read is left out."""
    reader = Reader()
    before: tuple[float, dict[int, ProcessSample]] | None = None
    for entry in entries:
        if "host" not in entry:
            continue
        try:
            sample = reader.sample(float(entry.get("t", 0.0)), entry)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            continue
        if sample.host is not None and sample.host.tree:
            now = {one.pid: one for one in sample.host.tree}
            yield sample.t, _moment(sample.host, sample.t, before)
            before = (sample.t, now)


def _moment(host: HostSample, t: float, before: tuple[float, dict[int, ProcessSample]] | None) -> Moment:
    roots = {one.pid for one in host.tree} - {one.pid for one in host.tree if one.ppid in {p.pid for p in host.tree}}
    compiling = {one.ppid for one in host.tree if one.role == "compiler"}
    found = Moment()
    for one in host.tree:
        if one.pid in roots or one.role in ("compiler", "resource_tracker") or one.state in ("Z", "X"):
            continue
        old = before[1].get(one.pid) if before else None
        span = t - before[0] if before else 0.0
        doing = "compile" if one.pid in compiling else _behaviour(one, old, span)
        found[one.pid] = (one.role or one.name, doing)
    return found


def _behaviour(now: ProcessSample, old: ProcessSample | None, span: float) -> str:
    if now.state in ("T", "t"):
        return "stopped"
    if now.state == "D":
        return "blocked"
    if old is None or span <= 0:
        return "spin"
    if (now.read_bytes or 0) - (old.read_bytes or 0) >= _READS * span:
        return "read"
    return "spin" if now.cpu_seconds - old.cpu_seconds >= _WORKS * span else "idle"
