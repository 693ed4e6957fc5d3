"""Headers of log records: vLLM of all generations, uvicorn, glog, JSON lines."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple


class Record(NamedTuple):
    """A log record. `stamp` is vLLM's `mm-dd HH:MM:SS`, `source` is `file.py` as printed."""

    level: str
    stamp: str | None
    source: str | None
    message: str
    process: str | None = None
    pid: int | None = None


# V0 prints `file.py:12] text`, later `[file.py:12] text`; $VLLM_LOGGING_PREFIX may stand in front.
_VLLM = re.compile(
    r"(?P<prefix>\S{0,40}?)(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+"
    r"(?:(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?\s+)?\[?(?P<source>[\w./\-]+):(?P<no>\d+)\]\s?(?P<text>.*)$",
    re.DOTALL,
)
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,9}(?P<text>\S.*)$")
# torch's and c10d's C++ logging: [W1201 02:52:31.2790 utils.cpp:68] text, W1201 02:38:29.06 123 file.py:1] text
_GLOG = re.compile(
    r"\[?(?P<level>[IWEF])(?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)[.\d]*\s+"
    r"(?:\d+\s+)?(?P<source>[\w./\-]+):\d+\]\s?(?P<text>.*)$",
    re.DOTALL,
)
_GLOG_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
_HEADER_INSIDE = re.compile(
    r"(?<=\S)(?=\((?:APIServer|ApiServer_\d+|EngineCore\w*|Worker\w*|VllmWorker[\w\-]*)(?: rank=\d+)? pid=\d+\) "
    r"(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d )"
    r"|(?:(?<=/s\])|(?<=it\]))(?=(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./\-]+\.py:\d+\])"
)


def parse(text: str) -> Record | None:
    """Read the header of one prefix-free line; None when it has none."""
    if found := _VLLM.match(text):
        return Record(found["level"], found["stamp"], found["source"], found["text"].rstrip("\r"))
    if found := _UVICORN.match(text):
        return Record(found["level"], None, "uvicorn", found["text"])
    if found := _GLOG.match(text):
        stamp = f"{found['month']}-{found['day']} {found['clock']}"
        return Record(_GLOG_LEVELS[found["level"]], stamp, found["source"], found["text"])
    return None


def unpack_json(text: str) -> tuple[str, str | None, Record | None] | None:
    """A JSON log line: docker's json-file driver or a JSON formatter.

    Returns (text, ISO time, record); the record is None when the payload is a plain line. The text of
    a record may have several lines: a formatter puts the traceback into a key of its own.
    """
    if not (text.startswith("{") and text.rstrip().endswith("}")):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    if isinstance(data.get("log"), str):
        return data["log"].rstrip("\n"), _text(data, "time"), None
    message = _text(data, "message", "msg", "textPayload", "MESSAGE")
    if message is None:
        return None
    level = (_text(data, "levelname", "level", "severity") or "INFO").upper()
    level = {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(level, level)
    stamp = _text(data, "asctime", "time", "timestamp")
    pid = data.get("process")
    pid = pid if isinstance(pid, int) and not isinstance(pid, bool) else None
    process = _text(data, "processName")
    source = _text(data, "filename", "fileinfo", "name")
    trace = _text(data, "exc_info", "exception", "stack_trace", "traceback")
    text = message if trace is None else f"{message}\n{trace}"
    return text.rstrip("\n"), stamp, Record(level, None, source, message, process, pid)


def split_inner(text: str) -> list[str]:
    """Cut a line in which a record follows another text without a newline (bars on standard error)."""
    return [part for part in _HEADER_INSIDE.split(text) if part] if "-" in text else [text]


def _text(data: dict[str, Any], *keys: str) -> str | None:
    for key in keys:
        if isinstance(data.get(key), str):
            return str(data[key])
    return None
