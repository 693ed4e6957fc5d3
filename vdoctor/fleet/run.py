"""Any number of logs on Dask: a cluster of this machine's cores, or one that is there already."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdoctor.errors import UserError
from vdoctor.fleet.listing import logs
from vdoctor.fleet.parts import Parts
from vdoctor.fleet.rows import Row, analyse_part, refused
from vdoctor.intake.inputs import Input
from vdoctor.launch.options import OptionTable
from vdoctor.rulebase.schema import RuleBase

#: A part of so many logs takes about half a second; so much work is lost when a run is killed.
PART = 50
#: So many parts are in the hands of each worker, so that none waits.
_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Fleet:
    """How to run: `scheduler` is the address of a Dask scheduler, None starts `workers` processes here (None: one a core)."""

    scheduler: str | None = None
    workers: int | None = None
    part: int = PART
    lang: str = "en"
    storage: dict[str, Any] | None = None


def analyse(
    paths: Sequence[str],
    output: Path,
    rules: RuleBase,
    options: OptionTable,
    *,
    form: str = "jsonl",
    fleet: Fleet | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Parts:
    """Analyse all logs behind `paths` into part files in `output`; logs that are there already are skipped.

    `progress` is told how many of all logs are done. Raises UserError when paths or output cannot be used, or the extra
    is missing.
    """
    fleet = fleet or Fleet()
    _require(form)
    found = logs(paths, fleet.storage)
    parts = Parts(output, form)
    done = parts.done()
    left = [one for one in found if _name(one) not in done]
    count = len(found) - len(left)
    progress(count, len(found))
    if left:
        with _cluster(fleet) as client:
            for rows in _results(client, left, rules, options, fleet):
                parts.write(rows)
                count += len(rows)
                progress(count, len(found))
    return parts


def _name(one: Input) -> str:
    return one.name.encode("utf-8", "backslashreplace").decode()


def _require(form: str) -> None:
    try:
        import distributed  # noqa: F401
        import fsspec  # noqa: F401

        if form == "parquet":
            import pyarrow  # noqa: F401
    except ImportError as error:
        raise UserError(f"this needs {error.name}", 'pip install "vdoctor[fleet]"') from None


@contextmanager
def _cluster(fleet: Fleet) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    if fleet.scheduler is not None:
        try:
            client = Client(fleet.scheduler, timeout=30)
        except (OSError, ValueError) as error:
            raise UserError(f"{fleet.scheduler}: no Dask scheduler answers: {error}", "tcp://HOST:8786") from None
        with client:
            yield client
        return
    # A log that kills its worker shall kill two, not four. Nobody looks at a dashboard.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(
            n_workers=fleet.workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _results(
    client: Any, left: Sequence[Input], rules: RuleBase, options: OptionTable, fleet: Fleet
) -> Iterator[list[Row]]:
    """Rows part by part, as they come."""
    from distributed import KilledWorker, as_completed

    # A task, not scattered data: what was scattered is lost when the workers that hold it die.
    base = client.submit(_base, pickle.dumps((rules, options)), pure=False)
    parts = [list(left[at : at + fleet.part]) for at in range(0, len(left), fleet.part)]
    parts.reverse()
    under_way: dict[str, list[Input]] = {}
    waiting = as_completed()

    def submit() -> None:
        part = parts.pop()
        future = client.submit(_work, part, base, fleet.lang, pure=False, retries=0)
        under_way[future.key] = part
        waiting.add(future)

    most = _AHEAD * max(1, len(client.scheduler_info()["workers"]))
    while parts and len(under_way) < most:
        submit()
    for future in waiting:
        part = under_way.pop(future.key)
        error = future.exception()
        if error is None:
            yield future.result()
        elif isinstance(error, KilledWorker) and len(part) > 1:
            # One of them kills its reader: each alone.
            parts.extend([one] for one in reversed(part))
        else:
            what = (
                "the process that read it died"
                if isinstance(error, KilledWorker)
                else f"{type(error).__name__}: {error}"
            )
            yield [refused(one.name, "fault", what) for one in part]
        while parts and len(under_way) < most:
            submit()


def _base(data: bytes) -> tuple[RuleBase, OptionTable]:
    """Unpacked once in each worker; the bytes come from the process that asked."""
    base: tuple[RuleBase, OptionTable] = pickle.loads(data)
    return base


def _work(part: list[Input], base: tuple[RuleBase, OptionTable], lang: str) -> list[Row]:
    return analyse_part(part, *base, lang)
