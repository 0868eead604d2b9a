"""Defines the functions that workers of Spark run: they turn a task, which is some whole runs, into encoded results.

A function is sent to workers by its name. So this module imports little, and does not import pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from understudy.history.metrics.metric_tables import RunMetrics, Table
from understudy.history.report.replay import Measured, for_page, measure_files, row_table_rows
from understudy.history.report.runs import RunFiles

_DECODER = msgspec.msgpack.Decoder(Measured)
_ENCODER = msgspec.msgpack.Encoder()
_JSON_ENCODER = msgspec.json.Encoder()


def measure_task(task: Iterable[RunFiles]) -> Iterator[bytes]:
    """Measure each run of a task."""
    return (_ENCODER.encode(measure_files(group)) for group in task)


def measure_task_for_page(task: Iterable[RunFiles]) -> Iterator[bytes]:
    """Measure each run of a task, and leave out the partitions that a page does not show."""
    return (_ENCODER.encode(for_page(measure_files(group))) for group in task)


def shortened_for_page(result: bytes) -> bytes:
    """Leave out the partitions that a page does not show."""
    return _ENCODER.encode(for_page(decoded(result)))


def decoded(result: bytes) -> Measured:
    return _DECODER.decode(result)


def holds_none_of(files: frozenset[str]) -> Callable[[bytes], bool]:
    """Return a function that returns whether a result is about none of some files."""
    return lambda result: files.isdisjoint(decoded(result).group.files)


def rows_of(table: str) -> Callable[[bytes], list[str]]:
    """Return a function that returns the rows of one of `TABLES` as JSON, each with the id of its run."""
    return lambda result: [row for metrics in decoded(result).runs for row in _rows(metrics, table)]


def row_table_rows_of_files(task: Iterable[RunFiles]) -> Iterator[str]:
    """Return the rows of all tables of `ROW_TABLES`, each as the table's name, a blank, and JSON with the run's id."""
    return (
        f"{name} {row}" for group in task for name, run, found in row_table_rows(group) for row in _as_json(run, found)
    )


def rows_named(table: str) -> Callable[[str], list[str]]:
    """Return a function that returns the JSON of a row of `row_table_rows_of_files` if it is of one table."""
    prefix = f"{table} "
    return lambda row: [row.removeprefix(prefix)] if row.startswith(prefix) else []


def _rows(metrics: RunMetrics, table: str) -> Iterator[str]:
    content = getattr(metrics, table)
    return _as_json(metrics.run, content if isinstance(content, tuple) else (content,))


def _as_json(run: str, rows: Iterable[Table]) -> Iterator[str]:
    prefix = b'{"run":' + _JSON_ENCODER.encode(run) + b","
    return ((prefix + _JSON_ENCODER.encode(row)[1:]).decode() for row in rows)
