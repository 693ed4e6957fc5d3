"""A recording beside a log: on the log's clock where both have one, totals alone where not."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from vdoctor.intake.gpu_log import Row, read_rows
from vdoctor.intake.reader import EventReader
from vdoctor.intake.splitter import LineSplitter
from vdoctor.startup.ledger import Ledger
from vdoctor.startup.recording import play
from vdoctor.startup.timeline import Timeline

MIB = 1 << 20
LOG = """\
INFO {day} {hour}:59:58 [api_server.py:1] vLLM API server version 0.11.0
INFO {day} {hour}:59:58 [gpu_model_runner.py:2602] Starting to load model org/model...
INFO {next_day} {next_hour}:00:08 [gpu_model_runner.py:2653] Model loading took 10.0000 GiB and 1.000000 seconds
INFO {next_day} {next_hour}:00:18 [gpu_worker.py:298] Available KV cache memory: 8.00 GiB
INFO {next_day} {next_hour}:00:28 [core.py:210] init engine (profile, create kv cache, warmup model) took 3.00 seconds
INFO:     Application startup complete.
"""
WITHIN_A_DAY = LOG.format(day="03-01", hour="11", next_day="03-01", next_hour="12")
OVER_MIDNIGHT = LOG.format(day="02-28", hour="23", next_day="03-01", next_hour="00")
OVER_NEW_YEAR = LOG.format(day="12-31", hour="23", next_day="01-01", next_hour="00")


def timeline(text: str) -> Timeline:
    found, splitter, reader = Timeline(), LineSplitter(), EventReader()
    for event in reader.read([*splitter.feed(text.encode()), *splitter.close()]):
        found.feed(event)
    return found


def recorded(begin: datetime, used: list[int], dated: bool = True) -> list[Row]:
    """One row a second from `begin` on, in MiB."""
    lines = ["timestamp, index, memory.used, memory.total"] if dated else ["#Time gpu fb"]
    for second, mib in enumerate(used):
        moment = datetime.fromtimestamp(begin.timestamp() + second, tz=timezone.utc)
        stamp = moment.strftime("%Y/%m/%d %H:%M:%S.000") if dated else moment.strftime("%H:%M:%S")
        lines.append(f"{stamp}, 0, {mib}, 24000" if dated else f"{stamp} 0 {mib}")
    return read_rows("gpu.csv", lines)


#: Two seconds before the start 100 MiB are in use; the weights come between 59:58 and 00:08.
USED = [100] * 5 + [5000] * 5 + [10_100] * 10 + [18_100] * 15


@pytest.mark.parametrize(
    ("log", "begin"),
    [
        (WITHIN_A_DAY, datetime(2025, 3, 1, 11, 59, 56, tzinfo=timezone.utc)),
        (OVER_MIDNIGHT, datetime(2025, 2, 28, 23, 59, 56, tzinfo=timezone.utc)),
        (OVER_NEW_YEAR, datetime(2025, 12, 31, 23, 59, 56, tzinfo=timezone.utc)),
    ],
)
@pytest.mark.parametrize("dated", [True, False])
def test_rows_lie_on_the_logs_clock(log: str, begin: datetime, dated: bool) -> None:
    line = timeline(log)
    ledger = Ledger(line)
    assert play(recorded(begin, USED, dated), line, ledger)
    (row,) = ledger.memory({})["gpus"]
    assert row["parts"]["before_start"]["measured"] == round(100 / 1024, 3)
    assert row["parts"]["weights"]["measured"] == round(10_000 / 1024, 3)
    assert ledger.facts()["gpu.in_use_gib"].source == "gpu-log"


def test_another_day_gives_totals_alone() -> None:
    line = timeline(WITHIN_A_DAY)
    ledger = Ledger(line)
    assert not play(recorded(datetime(2025, 3, 2, 11, 59, 56, tzinfo=timezone.utc), USED), line, ledger)
    (row,) = ledger.memory({})["gpus"]
    assert {part["measured"] for part in row["parts"].values()} == {None}
    assert (row["used_peak"], row["total"]) == (round(18_100 / 1024, 3), round(24_000 / 1024, 3))


def test_rows_without_times_give_totals_alone() -> None:
    line = timeline(WITHIN_A_DAY)
    ledger = Ledger(line)
    assert not play(read_rows("x", ["# gpu fb", "0 100", "0 900", "1 50"]), line, ledger)
    assert [gpu["used_peak"] for gpu in ledger.memory({})["gpus"]] == [round(900 / 1024, 3), round(50 / 1024, 3)]


def test_log_without_times_gives_totals_alone() -> None:
    line = timeline("vLLM API server version 0.11.0\nStarting to load model org/model...\n")
    ledger = Ledger(line)
    assert not play(recorded(datetime(2025, 3, 1, tzinfo=timezone.utc), USED), line, ledger)
    assert ledger.memory({})["gpus"][0]["used_at_start"] == round(100 / 1024, 3)
