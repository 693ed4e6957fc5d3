"""Results on disk: a folder of part files, each written whole or not at all. What is there is not done again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vdoctor.errors import UserError
from vdoctor.fleet.rows import COLUMNS, Row

FORMS = ("jsonl", "parquet")


class Parts:
    """The part files of one run. Raises UserError when the folder holds results in another form."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder, self._form = folder, form
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: cannot be made: {error.strerror}", "give --output another folder") from None
        for unfinished in folder.glob("part-*.tmp"):
            unfinished.unlink(missing_ok=True)
        others = [path for form in FORMS if form != self._form for path in folder.glob(f"part-*.{form}")]
        if others:
            raise UserError(
                f"{folder}: holds results in another form: {others[0].name}", "give --output another folder"
            )
        self._next = 1 + max((int(path.stem[5:]) for path in self._files() if path.stem[5:].isdecimal()), default=-1)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"part-*.{self._form}"))

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """These columns of all rows that are there."""
        for path in self._files():
            if self._form == "parquet":
                import pyarrow.parquet as parquet

                yield from parquet.read_table(path, columns=list(columns)).to_pylist()
                continue
            with path.open(encoding="utf-8") as file:
                for line in file:
                    row = json.loads(line)
                    yield {name: row.get(name) for name in columns}

    def done(self) -> set[str]:
        """Names of the logs that need not be read again."""
        return {str(row["name"]) for row in self.rows(["name"])}

    def write(self, rows: Sequence[Row]) -> Path:
        """A new part. Raises UserError when it cannot be written."""
        path = self._folder / f"part-{self._next:06}.{self._form}"
        temporary = path.with_suffix(".tmp")
        try:
            if self._form == "parquet":
                _write_parquet(temporary, rows)
            else:
                _write_lines(temporary, rows)
            os.replace(temporary, path)  # noqa: PTH105
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written: {error.strerror}", "make room, and start again: it goes on"
            ) from None
        self._next += 1
        return path


def _write_lines(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for row in rows:
            report = json.loads(row["report"]) if row["report"] is not None else None
            file.write(json.dumps({**row, "report": report}, separators=(",", ":")) + "\n")


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    types: dict[str, Any] = {"string": pyarrow.string(), "int64": pyarrow.int64()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    clean = [{name: _valid(value) for name, value in row.items()} for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(clean, schema=schema), path, compression="zstd")


def _valid(value: Any) -> Any:
    """A file name may hold what is no character."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
