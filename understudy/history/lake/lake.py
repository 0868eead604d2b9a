"""Reads a lake: its tables as Arrow, and the metrics of its runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.columns import FINDINGS, RUN_TABLES
from understudy.history.lake.manifest import LakeError, NotALake, Part, RunEntry, read_newest
from understudy.history.lake.parts import RECORDS, TABLES_FOLDER, path_of, schema_of
from understudy.history.metrics.metric_tables import TABLES, RunMetrics, Table
from understudy.history.reading.findings import LogFinding

NEEDED_AGAIN = "ingest the logs of its runs again"

_ONE_ROW = ("settings", "totals")
"""Tables with one row for each run."""


class Lake:
    """One version of a lake, the newest when it was opened. Later changes of the lake do not show.

    Raises:
        NotALake: the folder is no lake.
        LaterLake: its format is later than this software knows.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        manifest = read_newest(self.path)
        if manifest is None:
            raise NotALake(f"{path} is not a lake: it has no manifest; `understudy ingest RUN --lake {path}` makes one")
        self._manifest = manifest

    @property
    def version(self) -> int:
        """The number of changes that led to this version."""
        return self._manifest.version

    @property
    def runs(self) -> Mapping[str, RunEntry]:
        """The runs by id, sorted."""
        return self._manifest.runs

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that have rows, except the tables of records; `findings` is one of them."""
        return self._names(TABLES_FOLDER)

    @property
    def record_types(self) -> tuple[str, ...]:
        """The record types that have rows."""
        return self._names(RECORDS)

    def files(self, kind: str, name: str) -> list[Path]:
        """Return the Parquet files of one table; empty if it has no rows.

        Args:
            kind: `tables` or `records`.
            name: a table of metrics, or a record type.
        """
        folder = f"{kind}/{name}"
        return [
            path_of(self.path, folder, part) for part, found in self._manifest.parts.items() if folder in found.rows
        ]

    def folder(self, name: str) -> str:
        """Return the kind and name of a table, for example `records/RequestSent`.

        Raises:
            LakeError: neither a table nor a record type has this name.
        """
        if name in RUN_TABLES or name in self.tables:
            return f"{TABLES_FOLDER}/{name}"
        if name in PAYLOAD_BY_TYPE or name in self.record_types:
            return f"{RECORDS}/{name}"
        known = ", ".join((*RUN_TABLES, *sorted(PAYLOAD_BY_TYPE)))
        raise LakeError(f"there is no table {name!r}; expected one of {known}")

    def schema(self, name: str) -> pa.Schema:
        """Return the columns of a table of metrics or record type; raises as `folder`.

        A table that only later software knows has the columns with which it was written.
        """
        folder = self.folder(name)
        if name in RUN_TABLES or name in PAYLOAD_BY_TYPE:
            return schema_of(folder)
        return pq.read_schema(self.files(*folder.split("/"))[0])

    def read(self, name: str) -> pa.Table:
        """Return all rows of a table of metrics or record type. A run's rows are together and in order.

        If older rows lack a column, they have the default of its field in it, or null.

        Raises:
            LakeError: there is no such table, or its files have been deleted since the lake was opened.
        """
        kind, name = self.folder(name).split("/")
        schema = self.schema(name)
        return pa.concat_tables(
            [schema.empty_table(), *(self._read(path, name, schema) for path in self.files(kind, name))]
        )

    def run_metrics(self, wanted: Collection[str] | None = None) -> Iterator[RunMetrics]:
        """Yield the metrics of each run as `understudy.history.metrics.metrics` computes them from its logs.

        They come in no particular order; the rows of one part of the lake are in memory at a time.

        Args:
            wanted: the ids of the runs; None for all.

        Raises:
            LakeError: a run was ingested before a number was computed, or a file has been deleted since the lake was
                opened.
        """
        for name, part in self._manifest.parts.items():
            runs = [
                run
                for run, entry in self._manifest.runs.items()
                if entry.part == name and (wanted is None or run in wanted)
            ]
            if not runs:
                continue
            rows = {table: self._rows_by_run(name, part, table) for table in TABLES}
            for run in runs:
                yield RunMetrics(
                    run=run, **{table: _content(run, table, found.get(run, ())) for table, found in rows.items()}
                )

    def findings(self) -> tuple[LogFinding, ...]:
        """Return the damage to the logs of all runs, sorted by file and line."""
        rows = self.read(FINDINGS).drop_columns("run").to_pylist()
        return tuple(sorted(LogFinding(**row) for row in rows))

    @property
    def lines(self) -> int:
        """The number of lines in the logs of all runs, readable or not."""
        return sum(entry.lines for entry in self.runs.values())

    def _names(self, kind: str) -> tuple[str, ...]:
        folders = {folder for part in self._manifest.parts.values() for folder in part.rows}
        return tuple(sorted(name for found, name in (folder.split("/") for folder in folders) if found == kind))

    def _read(self, path: Path, name: str, schema: pa.Schema) -> pa.Table:
        try:
            with pq.ParquetFile(path) as file:
                found = file.read()
        except FileNotFoundError:
            raise LakeError(f"{path} has been deleted since the lake was opened; open it again") from None
        if found.schema.equals(schema):
            return found
        defaults = _defaults(name)
        return pa.table([_fitted(found, field, defaults.get(field.name)) for field in schema], schema=schema)

    def _rows_by_run(self, part: str, held: Part, table: str) -> dict[str, tuple[dict[str, Any], ...]]:
        folder = f"{TABLES_FOLDER}/{table}"
        if folder not in held.rows:
            return {}
        rows = self._read(path_of(self.path, folder, part), table, schema_of(folder)).to_pylist()
        return grouped((row.pop("run"), row) for row in rows)


def _defaults(name: str) -> dict[str, object]:
    """Return the scalar defaults of a table's fields by column."""
    struct = RUN_TABLES.get(name) or PAYLOAD_BY_TYPE.get(name)
    fields = msgspec.structs.fields(struct) if struct is not None else ()
    return {field.encode_name: field.default for field in fields if isinstance(field.default, bool | int | float | str)}


def _fitted(table: pa.Table, field: pa.Field, default: object) -> pa.ChunkedArray | pa.Array:
    """Return a column of a file with its current type."""
    if field.name not in table.column_names:
        return pa.array([default] * table.num_rows, field.type)
    found = table[field.name]
    # Structs of older files may lack fields, which no cast of Arrow adds.
    return found if found.type.equals(field.type) else pa.array(found.to_pylist(), field.type)


def _content(run: str, name: str, rows: Sequence[dict[str, Any]]) -> Any:
    try:
        found: tuple[Table, ...] = msgspec.convert(rows, tuple[TABLES[name], ...])  # type: ignore[valid-type]  # a value
        if name not in _ONE_ROW:
            return found
        (row,) = found or (None,)
    except (msgspec.ValidationError, ValueError) as error:
        raise LakeError(
            f"the table {name} of run {run} was written by other software: {error}; {NEEDED_AGAIN}"
        ) from None
    if row is None:
        raise LakeError(f"run {run} was ingested before there was a table {name}; {NEEDED_AGAIN}")
    return row
