"""The benchmark measures what it says, and a ratio that got worse fails."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cases import ROOT


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench", ROOT / "tools" / "bench.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench"] = module
    spec.loader.exec_module(module)
    return module


def test_small_run_fills_the_table(bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = bench.measure(tmp_path, 2, 3, 1)
    bench.print_table(rows)
    shown = capsys.readouterr().out
    assert [row.name for row in rows][:2] == ["serving log, 2 MB", "serving log, 2 MB, piped"]
    assert all(row.seconds > 0 and row.other > 0 and row.name in shown for row in rows)


def test_serving_log_is_mostly_left_out(bench: ModuleType, tmp_path: Path) -> None:
    from tests.sieve.test_sieve import assert_same

    bench.write_serving_log(tmp_path / "log", 2_000_000)
    sieve = assert_same((tmp_path / "log").read_bytes(), block=1 << 18)
    assert sieve.skipped > 0.9 * sieve.lines


@pytest.mark.parametrize(("ratio", "status"), [(1.0, 0), (1.45, 0), (1.6, 1)])
def test_ratio_that_got_worse_fails(bench: ModuleType, ratio: float, status: int) -> None:
    rows = [bench.Row("a", "b", ratio, 1.0), bench.Row("new", "b", 9.0, 1.0)]
    assert bench._judge(rows, {"a": {"ratio": 1.0}}) == status


def test_committed_figures_are_those_of_the_table() -> None:
    known = json.loads((ROOT / "tools" / "bench.json").read_text())
    assert {"serving log, 200 MB", "serving log, 40 MB", "--help", "ticket, 15 KB"} <= set(known)
    assert known["--help"]["ratio"] <= 2.0
