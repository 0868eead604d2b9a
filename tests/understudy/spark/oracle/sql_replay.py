"""Computes the tables with SQL in Spark: the definitions of `understudy.history.metrics.metrics`, but no code of
it.

It is the independent second definition with which tests compare what the product computes. It plans some seventy views
for a single run, so it takes tens of seconds.

SQL does not decide which records are missing and how clocks are aligned: it takes the rows of `clocks` from the
product, and computes neither the tables `missing` and `clocks` nor the columns of `NOT_IN_SQL` and those that end in
`_within_ms`. `comparable` leaves them out of a comparison. They have tests in `tests/understudy/history/metrics`, which
remove records of a run and compare its figures with the figures of the complete run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tests.understudy.spark.oracle import line_queries, queries
from tests.understudy.spark.oracle.schema import data_columns, data_ddl
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.metrics.clock_rows import clock_rows
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, RunMetrics, Table
from understudy.history.reading.findings import EMPTY_FILE, LogFinding
from understudy.history.reading.reader import find_files, read_runs
from understudy.history.report.replay import Replay

NOT_IN_SQL = {"doubt": (), "is_complete": True}
"""Columns that SQL does not compute, with their values in a complete run."""
SQL_TABLES = tuple(name for name in TABLES if name not in ("missing", "clocks"))

_WITHIN = "_within_ms"
_COLUMNS = {
    name: tuple(
        column for column in TABLES[name].__struct_fields__ if column not in NOT_IN_SQL and not column.endswith(_WITHIN)
    )
    for name in SQL_TABLES
}
_POINTS_DDL = "run STRING, node STRING, incarnation BIGINT, mono_ms DOUBLE, offset_ms DOUBLE"
_FLAWS = "flaws"
_FILES = "files"

FOR_SMALL_LOGS = {
    # With few rows, compiled expressions, adaptive plans, a second partition and the job that each broadcast needs
    # take more time than they save.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
FOR_LARGE_LOGS = {
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
    "spark.sql.adaptive.enabled": "true",
}


def replay_with_sql(spark: SparkSession, paths: Sequence[Path], *, small: bool = True) -> Replay:
    """Compute the metrics of all runs in the logs at or below `paths`."""
    session = spark.newSession()
    for name, value in (FOR_SMALL_LOGS if small else FOR_LARGE_LOGS).items():
        session.conf.set(name, value)
    # A Spark job that lists the files takes longer than listing them here.
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "1000000")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    files, findings = find_files(paths)
    if not any(file.stat().st_size for file in files):
        return Replay(runs=(), findings=tuple(sorted([*findings, *_empty(files)])), lines=0, engine="SQL")
    return _collect(_views(session, files, small=small), files, findings, "SQL")


def comparable(run: RunMetrics) -> RunMetrics:
    """Return the tables of a run without the tables and columns that SQL does not compute."""
    tables = {name: getattr(run, name) for name in SQL_TABLES}
    rows = {
        name: tuple(map(_comparable_row, content)) if isinstance(content, tuple) else _comparable_row(content)
        for name, content in tables.items()
    }
    return msgspec.structs.replace(run, **rows, missing=(), clocks=())


def _comparable_row(row: Table) -> Table:
    return msgspec.structs.replace(row, **_not_computed(type(row)))


def _not_computed(table: type[Table]) -> dict[str, object]:
    """Return the columns of a table that SQL does not compute, with the values of a complete run on one clock."""
    fields = table.__struct_fields__
    return {name: 0.0 for name in fields if name.endswith(_WITHIN)} | {
        name: value for name, value in NOT_IN_SQL.items() if name in fields
    }


# ------------------------------------------------------------------ the views


def _views(spark: SparkSession, files: Sequence[Path], *, small: bool) -> dict[str, DataFrame]:
    """Create all views over the lines of `files`, and return them by name.

    Views that many others read become local checkpoints: they are computed once, when first needed, and are leaves to
    Spark's planner. Without them a plan would repeat everything below a view wherever it is read, and planning would
    take minutes.
    """
    text = spark.read.text([str(file.absolute()) for file in files], lineSep="\n").selectExpr(
        "value",
        "_metadata.file_path AS file",
        "_metadata.file_block_start AS block",
        "monotonically_increasing_id() AS id",
    )
    # Data in one partition needs no exchange, which saves more than half of the stages.
    (text.coalesce(1) if small else text).createOrReplaceTempView("text")
    points = [
        (run, row.node, row.incarnation, row.mono_ms, row.offset_ms)
        for run, records in read_runs(files).runs.items()
        for row in clock_rows(records)
    ]
    spark.createDataFrame(points, _POINTS_DDL).createOrReplaceTempView("clock_points")
    views: dict[str, DataFrame] = {}
    types = {name: _type_query(name) for name in queries.TYPES}
    for name, sql in (line_queries.VIEWS | types | queries.VIEWS).items():
        view = spark.sql(sql)
        if name in (*line_queries.KEPT_VIEWS, *queries.KEPT_VIEWS):
            # A checkpoint keeps the ids of its columns, which would clash with the ids of the views that it reads.
            view = view.localCheckpoint(eager=False).toDF(*view.columns)
        view.createOrReplaceTempView(name)
        views[name] = view
    return views


def _type_query(name: str) -> str:
    payload = PAYLOAD_BY_TYPE[name]
    return f"""
        SELECT run, us, node, incarnation, seq, cause, controller_epoch, {data_columns(payload, "read")} AS data
        FROM (SELECT *, from_json(data, '{data_ddl(payload)}') AS read FROM records WHERE type = '{name}')"""


# ------------------------------------------------------------------ the results


class _Row(NamedTuple):
    kind: str
    run: str
    place: int
    row: str


def _collect(
    views: Mapping[str, DataFrame], files: Sequence[Path], findings: Sequence[LogFinding], engine: str
) -> Replay:
    parts = [_as_json(views, name) for name in SQL_TABLES]
    parts += [
        views["flaws_by_file"].selectExpr(f"'{_FLAWS}' AS kind", "'' AS run", "0 AS place", "file AS row").limit(1)
    ]
    parts += [
        views["files"].selectExpr(f"'{_FILES}' AS kind", "file AS run", "CAST(lines AS INT) AS place", "'' AS row")
    ]
    union = parts[0]
    for part in parts[1:]:
        union = union.unionAll(part)
    by_kind: dict[str, list[_Row]] = {}
    for collected in union.collect():
        row = _Row(*collected)
        by_kind.setdefault(row.kind, []).append(row)
    names = {str(file.absolute()): str(file) for file in files}
    read = {names[_path(row.run)]: row.place for row in by_kind.get(_FILES, ())}
    flaws = _flaws(views["findings"], names) if by_kind.get(_FLAWS) else []
    empty = _empty([file for file in files if str(file) not in read])
    return Replay(
        runs=_runs({name: by_kind.get(name, []) for name in SQL_TABLES}),
        findings=tuple(sorted([*findings, *empty, *flaws])),
        lines=sum(read.values()),
        engine=engine,
    )


def _as_json(views: Mapping[str, DataFrame], name: str) -> DataFrame:
    place = "place" if "place" in views[name].columns else "0"
    row = f"to_json(struct({', '.join(_COLUMNS[name])}), map('ignoreNullFields', 'false')) AS row"
    return views[name].selectExpr(f"'{name}' AS kind", "run", f"CAST({place} AS INT) AS place", row)


def _flaws(findings: DataFrame, names: Mapping[str, str]) -> list[LogFinding]:
    return [
        LogFinding(names[_path(row["file"])], row["line"], row["kind"], row["what"], row["times"])
        for row in findings.select("file", "line", "kind", "what", "times").collect()
    ]


def _empty(files: Sequence[Path]) -> list[LogFinding]:
    return [LogFinding(str(file), 0, EMPTY_FILE, "") for file in files]


def _path(uri: str) -> str:
    return unquote(urlparse(uri).path)


def _runs(rows_by_table: Mapping[str, Sequence[_Row]]) -> tuple[RunMetrics, ...]:
    tables: dict[str, dict[str, list[Table]]] = {}
    for name, rows in rows_by_table.items():
        for row in sorted(rows, key=lambda row: row.place):
            decoded = msgspec.convert(msgspec.json.decode(row.row) | _not_computed(TABLES[name]), TABLES[name])
            tables.setdefault(row.run, {}).setdefault(name, []).append(decoded)
    return tuple(_metrics(run, tables[run]) for run in sorted(tables))


def _metrics(run: str, tables: Mapping[str, list[Table]]) -> RunMetrics:
    sorted_tables = {
        name: tuple(
            sorted(tables.get(name, ()), key=lambda row: tuple(getattr(row, column) for column in SORTED_BY[name]))
        )
        for name in SORTED_BY
        if name in SQL_TABLES
    }
    (settings,), (totals,) = tables["settings"], tables["totals"]
    single = {"run": run, "settings": settings, "totals": totals}
    return msgspec.convert({**single, "moments": tuple(tables.get("moments", ())), **sorted_tables}, RunMetrics)
