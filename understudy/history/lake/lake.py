"""Reads a lake: its tables as Arrow, and the metrics of its runs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.columns import FINDINGS, MISSING, RUN, RUN_TABLES, TOTALS
from understudy.history.lake.manifest import LakeError, NotALake, Part, RunEntry, read_newest
from understudy.history.lake.parts import RECORDS, TABLES_FOLDER, path_of, schema_digest, schema_of
from understudy.history.metrics.incomplete_runs import NOT_JUDGED, IncompleteRunsLeftOut, first_evidence, older_row
from understudy.history.metrics.metric_tables import TABLES, Missing, RunMetrics, Table
from understudy.history.reading.findings import LogFinding

NEEDED_AGAIN = "ingest the logs of its runs again"

INCOMPLETE_UNKNOWN = "missing records were not looked for"
"""Finding of a run that was ingested by software without that search."""

_ONE_ROW = ("settings", "totals")
"""Tables with one row for each run."""
_OF_ALL_RUNS = (MISSING, FINDINGS)
"""Tables that are always read with the rows of all runs."""


class AllIncomplete(LakeError):
    """Records of all runs are missing, so that there is nothing to read unless incomplete runs are asked for."""


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

    @cached_property
    def incomplete(self) -> Mapping[str, str]:
        """Why runs are not known to be complete, by their ids, sorted: the first evidence that records are missing, or
        that they were ingested by software that did not look for missing records.
        """
        totals = self._all_rows(TOTALS).select([RUN.name, "is_complete"]).to_pylist()
        complete = {row[RUN.name] for row in totals if row["is_complete"]}
        missing = grouped((row.pop(RUN.name), row) for row in self._all_rows(MISSING).to_pylist())
        return {
            run: first_evidence(msgspec.convert(missing[run][:1], list[Missing])) if run in missing else NOT_JUDGED
            for run in self.runs
            if run not in complete
        }

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
        if not left_out:
            return rows
        return rows.filter(pc.invert(pc.is_in(rows["run"], value_set=pa.array(sorted(left_out), pa.string()))))

    def run_metrics(self, wanted: Collection[str] | None = None, *, incomplete: bool = False) -> Iterator[RunMetrics]:
        """Yield the metrics of each run as `understudy.history.metrics.metrics` computes them from its logs.

        They come in no particular order; the rows of one part of the lake are in memory at a time.

        Args:
            wanted: the ids of the runs; None for all.
            incomplete: as for `read`.

        Raises:
            LakeError: a run was ingested before a number was computed, records of all runs are missing, or a file has
                been deleted since the lake was opened.
        """
        left_out = self.left_out("the metrics", incomplete=incomplete)
        for name, part in self._manifest.parts.items():
            runs = [
                run
                for run, entry in self._manifest.runs.items()
                if entry.part == name and (wanted is None or run in wanted) and run not in left_out
            ]
            if not runs:
                continue
            rows = {table: self._rows_by_run(name, part, table) for table in TABLES}
            for run in runs:
                yield RunMetrics(
                    run=run, **{table: _content(run, table, found.get(run, ())) for table, found in rows.items()}
                )

    def findings(self) -> tuple[LogFinding, ...]:
        """Return the damage to the logs of all runs, and the runs of which it is unknown whether they are complete.

        They are sorted by file and line.
        """
        rows = self._all_rows(FINDINGS).drop_columns("run").to_pylist()
        unknown = [run for run, why in self.incomplete.items() if why == NOT_JUDGED]
        older = [LogFinding(self.runs[run].files[0].path, 0, INCOMPLETE_UNKNOWN, NEEDED_AGAIN) for run in unknown]
        return tuple(sorted([*(LogFinding(**row) for row in rows), *older]))

    @property
    def lines(self) -> int:
        """The number of lines in the logs of all runs, readable or not."""
        return sum(entry.lines for entry in self.runs.values())

    def _names(self, kind: str) -> tuple[str, ...]:
        folders = {folder for part in self._manifest.parts.values() for folder in part.rows}
        return tuple(sorted(name for found, name in (folder.split("/") for folder in folders) if found == kind))

    def _all_rows(self, name: str) -> pa.Table:
        """Return the rows of all runs in a table of metrics or record type. Raises as `read`."""
        kind, name = self.folder(name).split("/")
        schema = self.schema(name)
        return pa.concat_tables(
            [schema.empty_table(), *(self._read(path, name, schema) for path in self.files(kind, name))]
        )

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
        if held.schema != schema_digest():
            rows = list(map(older_row, rows))
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
