"""Compares the tables that `understudy.spark.tables` computes with SQL with the tables of the kernel.

SQL does not decide which records are missing and how clocks are aligned: it takes the rows of `clocks` from the lake,
and computes neither the tables `missing` and `clocks` nor the columns of `NOT_IN_SQL`, the columns that end in
`_within_ms`, and the timestamps beside milliseconds. They have tests in `tests/understudy/history/metrics`, which
remove records of a run and compare its figures with the figures of the complete run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from understudy.history.lake.columns import run_table, table_schema, time_columns
from understudy.history.lake.lake import Lake
from understudy.history.metrics.metric_tables import TABLES, RunMetrics
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.spark import tables

NOT_IN_SQL = ("doubt", "is_complete")
SQL_TABLES = tuple(name for name in (*TABLES, *ROW_TABLES) if name not in ("missing", "clocks"))


def columns_of(name: str) -> list[str]:
    """Return the columns of a table that SQL computes, in their order."""
    left_out = {*NOT_IN_SQL, *time_columns(name)}
    return [each for each in table_schema(name).names if each not in left_out and not each.endswith("_within_ms")]


def assert_sql_agrees(spark: SparkSession, lake: Path, runs: Iterable[RunMetrics]) -> None:
    """Check that SQL over a lake computes the tables of its runs to the last digit.

    Args:
        runs: the metrics of these runs; the tables with a row for each record are those in the lake.
    """
    opened, metrics = Lake(lake), sorted(runs, key=lambda run: run.run)
    assert [run.run for run in metrics] == list(opened.runs)
    found = tables(spark, lake, incomplete=True)
    assert tuple(found) == SQL_TABLES
    for name in SQL_TABLES:
        frame = found[name]
        assert frame.columns == columns_of(name)
        expected = _of_metrics(metrics, name) if name in TABLES else opened.read(name, incomplete=True).to_pylist()
        assert_same_rows(name, [row.asDict(recursive=True) for row in frame.collect()], expected)


def assert_same_rows(name: str, found: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> None:
    """Check that the rows of a table are the same in the columns that SQL computes, in any order."""
    columns = columns_of(name)
    rows = [sorted(repr([row[column] for column in columns]) for row in each) for each in (found, expected)]
    assert rows[0] == rows[1], f"{name}: {sorted({*rows[0]} - {*rows[1]})} instead of {sorted({*rows[1]} - {*rows[0]})}"


def _of_metrics(metrics: Sequence[RunMetrics], name: str) -> list[dict[str, Any]]:
    rows = [(run.run, getattr(run, name)) for run in metrics]
    flat = [(run, row) for run, each in rows for row in (each if isinstance(each, tuple) else (each,))]
    started_ms = {run.run: run.totals.started_ms for run in metrics}
    found: list[dict[str, Any]] = run_table(name, flat, started_ms).to_pylist()
    return found
