"""Many logs: examined over the cores where that pays, given back in their order; a bad one stops none of the others."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vdoctor.commands.examine import examine_session
from vdoctor.errors import UserError
from vdoctor.intake.files import inputs
from vdoctor.intake.gpu_log import Row
from vdoctor.intake.inputs import Input
from vdoctor.launch.options import OptionTable
from vdoctor.live.session import is_session
from vdoctor.model import Report
from vdoctor.report.curves import wanted_lines
from vdoctor.rulebase.match import Matcher
from vdoctor.rulebase.schema import RuleBase
from vdoctor.sieve.around import AroundHits, Near
from vdoctor.sieve.examine import examine_input

if TYPE_CHECKING:
    # 20 ms that one log does not pay for.
    from concurrent.futures import Future, ProcessPoolExecutor

#: Seconds of work below which a second process costs more than it saves, and what a log takes: measured.
_WORTH_IT, _PER_LOG, _BYTES_PER_SECOND = 2.0, 0.008, 1_000_000
#: A longer log is sieved.
_SIEVED, _SIEVED_PER_SECOND = 1 << 20, 150_000_000
#: Packed logs are larger than their files.
_PACKED = 8
_PACKED_SUFFIXES = (".gz", ".zst", ".zip", ".tgz", ".tar")
#: So many logs are in the hands of each process at once.
_AHEAD = 4

_base: tuple[RuleBase, OptionTable] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one log: a report, or why there is none. `fault` names an error of vdoctor itself.

    `around` holds the lines around the evidence of a log that cannot be read a second time.
    """

    name: str
    report: Report | None = None
    error: UserError | None = None
    fault: str | None = None
    notices: tuple[str, ...] = ()
    around: Mapping[int, Near] = field(default_factory=dict)


def logs(paths: Sequence[str]) -> list[Input | UserError]:
    """All logs behind the arguments, in order; an argument that cannot be read stands for itself."""
    found: list[Input | UserError] = []
    for path in paths:
        try:
            if path != "-" and is_session(Path(path)):
                found.append(Input(path, _nothing, Path(path)))
            else:
                found += inputs(path, sys.stdin.buffer)
        except UserError as error:
            found.append(error)
    return found


def _nothing() -> Iterator[bytes]:
    return iter(())


def examine_all(found: Sequence[Input | UserError], base: RuleBase, options: OptionTable) -> Iterator[Outcome]:
    """The outcomes in the order of the logs, each as soon as those before it are known."""
    workers = _workers([one for one in found if isinstance(one, Input)])
    if workers < 2:
        alone = len(found) == 1
        for one in found:
            yield Outcome("", error=one) if isinstance(one, UserError) else examine(one, base, options, alone=alone)
        return
    yield from _spread(found, base, options, workers)


def examine(
    one: Input, base: RuleBase, options: OptionTable, *, alone: bool = False, rows: Sequence[Row] = ()
) -> Outcome:
    """One log, with the rows of nvidia-smi beside it. A fault of vdoctor is raised when the log is `alone`, else noted."""
    kept: list[AroundHits] = []

    def near(matcher: Matcher) -> AroundHits:
        kept.append(AroundHits(matcher))
        return kept[0]

    try:
        report = _report(one, base, options, rows, near if _is_piped(one) else None)
        around = kept[0].near(wanted_lines(report)) if kept else {}
        return Outcome(one.name, report, notices=tuple(one.notices), around=around)
    except UserError as error:
        return Outcome(one.name, error=error, notices=tuple(one.notices))
    except Exception as error:
        if alone or os.environ.get("VDOCTOR_DEBUG"):
            raise
        return Outcome(one.name, fault=f"{type(error).__name__}: {error}")


def _is_piped(one: Input) -> bool:
    """Standard input, or a pipe with a name: it can be read once."""
    return one.path is None or not one.path.exists() or one.path.is_fifo()


def _report(
    one: Input,
    base: RuleBase,
    options: OptionTable,
    rows: Sequence[Row],
    near: Callable[[Matcher], AroundHits] | None = None,
) -> Report:
    """A folder of logs may hold recorded sessions: these have times and samples beside the log."""
    folder = one.path.parent if one.path is not None and one.path.name == "log.txt" else one.path
    if folder is not None and is_session(folder):
        if rows:
            raise UserError(f"{one.name}: --gpu-log goes with a plain log; a session holds its own samples")
        return examine_session(folder, base, options)
    return examine_input(one, base, options, rows, near)


# ---------------------------------------------------------------------- over the cores


def _workers(found: Sequence[Input]) -> int:
    """How many processes the work is worth."""
    seconds = sum(map(_seconds, found))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, len(found), int(seconds / _WORTH_IT) + 1)


def _seconds(one: Input) -> float:
    size = 0
    if one.path is not None:
        with contextlib.suppress(OSError):
            size = one.path.stat().st_size * (_PACKED if one.path.suffix in _PACKED_SUFFIXES else 1)
    return _PER_LOG + min(size, _SIEVED) / _BYTES_PER_SECOND + max(0, size - _SIEVED) / _SIEVED_PER_SECOND


def _begin(base: RuleBase, options: OptionTable) -> None:
    """In each process, once."""
    global _base
    _base = (base, options)


def _work(one: Input) -> Outcome:
    assert _base is not None
    return examine(one, *_base)


def _pool(base: RuleBase, options: OptionTable, workers: int) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # The same way on all systems; threads that are there already are left alone.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(base, options))


def _spread(
    found: Sequence[Input | UserError], base: RuleBase, options: OptionTable, workers: int
) -> Iterator[Outcome]:
    from concurrent.futures.process import BrokenProcessPool

    pool = _pool(base, options, workers)
    waiting: list[tuple[Input | UserError, Future[Outcome] | None]] = []
    at = 0
    try:
        while at < len(found) or waiting:
            while at < len(found) and len(waiting) < workers * _AHEAD:
                one = found[at]
                # Standard input belongs to this process.
                here = isinstance(one, UserError) or one.name == "-"
                waiting.append((one, None if here else pool.submit(_work, one)))  # type: ignore[arg-type]
                at += 1
            one, future = waiting.pop(0)
            if isinstance(one, UserError):
                yield Outcome("", error=one)
            elif future is None:
                yield examine(one, base, options)
            else:
                try:
                    yield future.result()
                except BrokenProcessPool:
                    # A process died, killed for memory perhaps: each log that was under way gets one of its own.
                    again = [
                        one,
                        *(log for log, other in waiting if other is not None and not isinstance(log, UserError)),
                    ]
                    pool.shutdown(cancel_futures=True)
                    outcomes = {id(log): _alone(log, base, options) for log in again}
                    yield outcomes[id(one)]
                    waiting = [(log, _done(outcomes.get(id(log)))) for log, _ in waiting]
                    pool = _pool(base, options, workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _alone(one: Input, base: RuleBase, options: OptionTable) -> Outcome:
    from concurrent.futures.process import BrokenProcessPool

    with _pool(base, options, 1) as pool:
        try:
            return pool.submit(_work, one).result()
        except BrokenProcessPool:
            error = UserError(
                f"{one.name}: the process that read it died", "analyse it alone, on a machine with more memory"
            )
            return Outcome(one.name, error=error)


def _done(outcome: Outcome | None) -> Future[Outcome] | None:
    if outcome is None:
        return None
    from concurrent.futures import Future

    future: Future[Outcome] = Future()
    future.set_result(outcome)
    return future
