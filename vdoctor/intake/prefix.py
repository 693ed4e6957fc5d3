"""Prefixes that log shippers put before vLLM's own line, and the process tag of vLLM and Ray."""

from __future__ import annotations

import re
from typing import NamedTuple

from vdoctor.intake.clock import iso_seconds


class Stripped(NamedTuple):
    """A line without its outer prefixes; `time` is the shipper's time stamp in seconds."""

    text: str
    time: float | None
    process: str | None
    pid: int | None
    rank: int | None


_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)"
# What may follow a prefix that is too short to be sure of: vLLM's own line, or a line of a traceback.
_AHEAD = (
    rf"(?=\(\w.{{0,130}}pid=\d|\[(?:rank|default|[IWEF]\d{{4}} )|{_LEVEL}(?::| \d)|\d{{4}}-\d\d-|Traceback|  "
    r"|[\w.]*(?:Error|Exception|Interrupt)(?::|$))"
)

# Each shipper: a pattern anchored at the start; group `time` where it has one.
_SHIPPERS = tuple(
    re.compile(pattern)
    for pattern in (
        # GKE log viewer: INFO 2025-01-02T03:04:05.6Z [resource.labels.containerName: vllm] ...
        rf"{_LEVEL} (?P<time>{_ISO}) (?:\[resource\.[^\]]*\] )?",
        # journalctl -o short-iso
        rf"(?P<time>{_ISO}) \S+ [\w.@/\-]+\[\d+\]: ",
        # docker logs -t, kubectl logs --timestamps, containerd ("stdout F "), [2025-01-02 03:04:05]
        rf"\[?(?P<time>{_ISO})\]?(?: std(?:out|err) [FP])?(?: |\t|$)",
        # Rust front ends that relay the engine's output: "INFO dynamo::worker: VLLM: ..."
        rf"\s*{_LEVEL}\s+[\w.]+(?:::\w+)+: (?:VLLM: )?",
        # kubectl logs --prefix
        r"\[pod/[^\]]+\] ",
        # docker compose: "vllm-1  | ..."
        r"[A-Za-z0-9][\w.\-]*\s+\| ?",
        # stern, kubetail: "pod-7d9f8-abcde container ...", "statefulset-0 container ..."
        # (Kubernetes draws its five characters from an alphabet without vowels: words of prose do not match)
        rf"[a-z0-9][a-z0-9.\-]*-(?:[bcdfghjklmnpqrstvwxz2456789]{{5}}|\d{{1,3}}) [a-z0-9][\w\-]* {_AHEAD}",
        # journalctl, syslog
        r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? "
        r"\S+ [\w.@/\-]+(?:\[\d+\])?: ",
        # srun --label
        rf" ?\d{{1,4}}: {_AHEAD}",
        # quoted mail and Markdown quotes
        r"> ",
    )
)
# k9s and similar viewers draw a frame around the text.
_FRAME = re.compile(r"│ ?([^│]*)│?$")

# The tag may nest brackets: (MapWorker(MapBatches(Stage)) pid=1). One level is enough in the wild.
_TAG = re.compile(
    r"\((?P<name>[A-Za-z_](?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\)){0,120}?)"
    r"(?:\s+rank=(?P<rank>\d{1,9}))?,?\s+pid=(?P<pid>\d{1,18})(?:,\s*ip=[\w.:\-]+)?\)\s?"
)
# Ray shows a line that many actors print once, with a count behind it.
_REPEATED = re.compile(r" ?\[repeated \d+x across cluster\].*$")
_AUTOSCALER = re.compile(r"\(autoscaler \+[\dhms]+\)\s?")
# torch prints the rank of a process that dies in front of its traceback.
_RANK = re.compile(r"\[(?:rank|default)(?P<rank>\d{1,9})\]:\s?(?=\[|Traceback|  |\S+(?:Error|Exception)|$)")
_RANKED_NAME = re.compile(r"(?:^|_)TP(\d{1,9})")

#: Tag names that several processes share: they are told apart by rank or pid.
_SHARED = frozenset({"VllmWorkerProcess", "VllmWorker", "RayWorkerWrapper", "RayWorkerProc", "RayWorkerVllm"})


def strip(text: str) -> Stripped:
    """Remove shipper prefixes and process tags from the front of a clean line."""
    time: float | None = None
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    for _ in range(8):
        if not text:
            break
        if text[0] == "(" and (tag := _TAG.match(text) or _AUTOSCALER.match(text)):
            if "pid" in tag.re.groupindex:
                process, pid, rank = _read_tag(tag)
            text = text[tag.end() :]
        elif text[0] == "[" and (tag := _RANK.match(text)):
            rank = int(tag["rank"])
            text = text[tag.end() :]
        elif shipped := _shipper(text):
            stamp, rest = shipped
            time = stamp if time is None else time
            text = rest
        else:
            break
    if process is not None and text.find("x across cluster]") > 0:
        text = _REPEATED.sub("", text)
    return Stripped(text, time, process, pid, rank)


def _shipper(text: str) -> tuple[float | None, str] | None:
    first = text[0]
    if first == "│":
        framed = _FRAME.match(text)
        return (None, framed[1].rstrip()) if framed else None
    # Most lines of a plain vLLM log start with a level and a date: leave at once.
    if first in "IWDEC" and text[:4] in ("INFO", "WARN", "DEBU", "ERRO", "CRIT") and not _is_iso(text):
        return None
    for pattern in _SHIPPERS:
        if found := pattern.match(text):
            stamp = found["time"] if "time" in pattern.groupindex else None
            return (iso_seconds(stamp) if stamp else None, text[found.end() :])
    return None


def _is_iso(text: str) -> bool:
    """`INFO 2025-...` is a viewer's prefix, `INFO 12-01 ...` is vLLM's own header."""
    head = text.split(" ", 2)
    return len(head) > 1 and (head[1][:4].isdigit() or "::" in text[:80])


def _read_tag(tag: re.Match[str]) -> tuple[str, int, int | None]:
    name, pid = tag["name"].strip(), int(tag["pid"])
    rank = int(tag["rank"]) if tag["rank"] else None
    if rank is None and (named := _RANKED_NAME.search(name)):
        rank = int(named[1])
    if name in _SHARED:
        name = f"{name} rank={rank}" if rank is not None else f"{name} pid={pid}"
    return name, pid, rank
