#!/usr/bin/env python3
"""Time `vdoctor check`: whole process, median of several runs.

    $ python3 tools/bench_check.py [--runs 5] [--vllm PATH]

Measured: a launch of a small model, and of 140 GB in 60 files of holes, which take no room on the disk; with --vllm
the launch is that of a real installation, whose Python is asked, too. The bounds are those that the product promises;
the exit status is 1 when a median is above its bound.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.budget.checkpoints import LARGE, write_model  # noqa: E402


def run(words: Sequence[str]) -> tuple[float, float]:
    """Seconds on the clock and seconds of processor of one run, with those of the programs it asks."""
    before, start = os.times(), time.perf_counter()
    argv = [sys.executable, "-m", "vdoctor", "check", "--", *words]
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, cwd=ROOT)
    took, after = time.perf_counter() - start, os.times()
    if done.returncode not in (0, 1):
        raise SystemExit(f"exit status {done.returncode}")
    return took, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Returns 1 when a median is above its bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--vllm", default="vllm", help="the command of a real installation")
    given = parser.parse_args()
    late = False
    with tempfile.TemporaryDirectory() as folder:
        cases = (
            ("one file", write_model(Path(folder) / "small"), 1.0),
            ("140 GB in 60 files", write_model(Path(folder) / "large", LARGE, shards=60), 2.0),
        )
        for name, model, bound in cases:
            times = [run([given.vllm, "serve", str(model)]) for _ in range(given.runs)]
            wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
            late = late or wall > bound
            print(f"{name:20} {wall:6.3f} s  (processor {cpu:.3f} s, bound {bound} s, median of {given.runs})")
    return int(late)


if __name__ == "__main__":
    raise SystemExit(main())
