"""Reads a lake: its tables as Arrow, and the metrics of its runs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake import delta
from understudy.history.lake.columns import FINDINGS, INGEST, MISSING, RUN_TABLES, time_columns, without_pairs
from understudy.history.lake.errors import LakeError
from understudy.history.lake.layout import RECORDS, TABLES_FOLDER
from understudy.history.lake.parts import schema_of
from understudy.history.lake.runs_table import Runs
from understudy.history.lake.written import RunEntry, TableFile
from understudy.history.metrics.incomplete_runs import IncompleteRunsLeftOut
from understudy.history.metrics.metric_tables import TABLES, RunMetrics, Table
from understudy.history.reading.findings import LogFinding
from understudy.history.storage.paths import StoragePath, parquet_file, storage_path

NEEDED_AGAIN = "ingest the logs of its runs again"

_METRICS_AT_ONCE = 1000

_ONE_ROW = ("settings", "totals")
"""Tables with one row for each run."""
_OF_ALL_RUNS = (MISSING, FINDINGS)
"""Tables that are always read with the rows of all runs."""


class AllIncomplete(LakeError):
    """Records of all runs are missing, so that there is nothing to read unless incomplete runs are asked for."""


class Lake:
    """One version of a lake. Later changes of the lake do not show.

    Args:
        version: a number of `understudy lake history`; by default the newest version.

    Raises:
        NotALake: the folder is no lake.
        LaterLake: its format is later than this software knows.
        LakeError: there is no such version.
        OSError: it cannot be read.
    """

    def __init__(self, path: StoragePath | str, version: int | None = None) -> None:
        self.path = storage_path(path).absolute()
        try:
            self._runs = Runs(storage_path(path), version)
        except FileNotFoundError:
            raise LakeError(
                f"{self.path} has no version {version}; `understudy lake history {self.path}` lists them"
            ) from None

    @property
    def version(self) -> int:
        """The number of commits of the table `runs` that led to this version."""
        return self._runs.version

    @property
    def runs(self) -> Mapping[str, RunEntry]:
        """The runs by id, sorted."""
        return self._runs.whole

    @property
    def uncounted(self) -> Collection[tuple[str, str]]:
        """Pairs of a run and an ingest whose rows are in the files and do not count, because a change is under way."""
        return self._runs.uncounted.keys()

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that have files, except the tables of records; `findings` is one of them."""
        return self._names(TABLES_FOLDER)

    @property
    def record_types(self) -> tuple[str, ...]:
        """The record types whose tables have files."""
        return self._names(RECORDS)

    def files(self, kind: str, name: str) -> list[StoragePath]:
        """Return the Parquet files of one table; empty if it has no rows. Rows of `uncounted` may be in them.

        Args:
            kind: `tables` or `records`.
            name: a table of metrics, or a record type.

        Raises:
            LakeError: the table cannot be read.
        """
        folder = f"{kind}/{name}"
        return [self.path / folder / file.name for file in self._files(folder)]

    def table_version(self, folder: str) -> int | None:
        """Return the version of a table that this version of the lake has; None if the table has no rows."""
        return self._runs.commit.tables.get(folder)

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
        table = delta.open_table(self.path / folder, self._runs.commit.tables[folder])
        written = delta.schema_of_table(table)
        return written.remove(written.get_field_index(INGEST.name)).remove_metadata()

    @cached_property
    def incomplete(self) -> Mapping[str, str]:
        """The first evidence that records are missing, by the ids of runs, sorted; complete runs are left out."""
        return {run: entry.missing for run, entry in self.runs.items() if entry.missing}

    def left_out(self, name: str, *, incomplete: bool) -> frozenset[str]:
        """Return the runs whose rows are left out of a table; warn if there are any.

        Args:
            name: the table; no run is left out of `missing` and `findings`.
            incomplete: also read runs with missing records.

        Raises:
            AllIncomplete: no run is left.
        """
        if incomplete or name in _OF_ALL_RUNS or not self.incomplete:
            return frozenset()
        run, why = next(iter(self.incomplete.items()))
        example = f"for example {run}: {why}; incomplete=True also reads them"
        if len(self.incomplete) == len(self.runs):
            raise AllIncomplete(f"none of the {len(self.runs):,} runs of {self.path} is complete, {example}")
        warnings.warn(
            f"{len(self.incomplete):,} of {len(self.runs):,} runs of {self.path} are left out of {name}, because "
            f"records are missing, {example}",
            IncompleteRunsLeftOut,
            stacklevel=3,
        )
        return frozenset(self.incomplete)

    def read(self, name: str, *, incomplete: bool = False) -> pa.Table:
        """Return the rows of a table of metrics or record type. A run's rows are together and in order.

        If older rows lack a column, they have the default of its field in it, or null.

        Args:
            incomplete: also read runs with missing records; otherwise they are left out, with a warning. `missing` and
                `findings` always have the rows of all runs.

        Raises:
            LakeError: there is no such table, records of all runs are missing, or the table's files have been deleted
                since the lake was opened.
        """
        self.folder(name)  # raises if there is no such table
        left_out = self.left_out(name, incomplete=incomplete)
        rows = self._all_rows(name)
        if left_out:
            rows = rows.filter(pc.invert(pc.is_in(rows["run"], value_set=pa.array(sorted(left_out), pa.string()))))
        return rows.drop_columns(INGEST.name)

    def run_metrics(self, wanted: Collection[str] | None = None, *, incomplete: bool = False) -> Iterator[RunMetrics]:
        """Yield the metrics of each run as `understudy.history.metrics.metrics` computes them from its logs.

        They come in no particular order; the rows of some `_METRICS_AT_ONCE` runs are in memory at a time.

        Args:
            wanted: the ids of the runs; None for all.
            incomplete: as for `read`.

        Raises:
            LakeError: a run was ingested before a number was computed, records of all runs are missing, or a file has
                been deleted since the lake was opened.
        """
        left_out = self.left_out("the metrics", incomplete=incomplete)
        chosen = sorted(
            (entry.ingest, run)
            for run, entry in self.runs.items()
            if (wanted is None or run in wanted) and run not in left_out
        )
        for first in range(0, len(chosen), _METRICS_AT_ONCE):
            some = [run for _, run in chosen[first : first + _METRICS_AT_ONCE]]
            rows = {table: self._rows_by_run(table, some) for table in TABLES}
            for run in some:
                yield RunMetrics(
                    run=run, **{table: _content(run, table, found.get(run, ())) for table, found in rows.items()}
                )

    def findings(self) -> tuple[LogFinding, ...]:
        """Return the damage to the logs of all runs, sorted by file and line."""
        rows = self._all_rows(FINDINGS).drop_columns(["run", INGEST.name]).to_pylist()
        return tuple(sorted(LogFinding(**row) for row in rows))

    @property
    def lines(self) -> int:
        """The number of lines in the logs of all runs, readable or not."""
        return sum(entry.lines for entry in self.runs.values())

    def _names(self, kind: str) -> tuple[str, ...]:
        folders = (folder.split("/") for folder in self._runs.commit.tables)
        return tuple(sorted(name for found, name in folders if found == kind))

    def _files(self, folder: str) -> list[TableFile]:
        if (version := self._runs.commit.tables.get(folder)) is None:
            return []
        return delta.files_of(delta.open_table(self.path / folder, version))

    def _all_rows(self, name: str) -> pa.Table:
        """Return the rows of all runs in a table of metrics or record type, with `ingest`. Raises as `read`."""
        folder = self.folder(name)
        schema = self.schema(name).append(INGEST)
        paths = (self.path / folder / file.name for file in self._files(folder))
        return pa.concat_tables([schema.empty_table(), *(self._counted(_read(path, name, schema)) for path in paths)])

    def _counted(self, rows: pa.Table, wanted: Collection[str] | None = None) -> pa.Table:
        """Return the rows that count, perhaps of some runs only."""
        if wanted is not None:
            rows = rows.filter(pc.is_in(rows["run"], value_set=pa.array(sorted(wanted), pa.string())))
        return without_pairs(rows, self.uncounted)

    def _rows_by_run(self, table: str, runs: Collection[str]) -> dict[str, tuple[dict[str, Any], ...]]:
        """Return the rows of some runs in a table of metrics, in the order of `RunMetrics`."""
        folder = f"{TABLES_FOLDER}/{table}"
        ingests = {self.runs[run].ingest for run in runs}
        schema = schema_of(folder).append(INGEST)
        rows: list[dict[str, Any]] = []
        for file in self._files(folder):
            if any(file.ingests[0] <= ingest <= file.ingests[1] for ingest in ingests):
                found = self._counted(_read(self.path / folder / file.name, table, schema), runs)
                rows += found.drop_columns([*time_columns(table), INGEST.name]).to_pylist()
        return grouped((row.pop("run"), row) for row in rows)


def _read(path: StoragePath, name: str, schema: pa.Schema) -> pa.Table:
    try:
        with parquet_file(path) as file:
            found = file.read()
    except FileNotFoundError:
        raise LakeError(f"{path} has been deleted since the lake was opened; open it again") from None
    if found.schema.equals(schema):
        return found
    defaults = _defaults(name)
    return pa.table([_fitted(found, field, defaults.get(field.name)) for field in schema], schema=schema)


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
