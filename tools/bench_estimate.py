#!/usr/bin/env python3
"""Time `vdoctor estimate`: whole process, median of several runs.

    $ python3 tools/bench_estimate.py [--runs 5]

Measured: a small model in one file, and 140 GB in 60 files of holes, which take no room on the disk. The bounds are
those that the product promises; the exit status is 1 when a median is above its bound.
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
    """Seconds on the clock and seconds of processor of one run."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "vdoctor", "estimate", *words], stdout=subprocess.DEVNULL, cwd=ROOT)
    took, after = time.perf_counter() - start, os.times()
    if done.returncode not in (0, 1):
        raise SystemExit(f"exit status {done.returncode}")
    return took, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Returns 1 when a median is above its bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    late = False
    with tempfile.TemporaryDirectory() as folder:
        small = write_model(Path(folder) / "small")
        large = write_model(Path(folder) / "large", LARGE, shards=60)
        cases = (("one file", small, 0.5), ("140 GB in 60 files", large, 2.0))
        for name, model, bound in cases:
            times = [run([str(model), "--gpu-memory", "79.1", "--tensor-parallel-size", "4"]) for _ in range(runs)]
            wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
            late = late or wall > bound
            print(f"{name:20} {wall:6.3f} s  (processor {cpu:.3f} s, bound {bound} s, median of {runs})")
    return int(late)


if __name__ == "__main__":
    raise SystemExit(main())
