"""Measures whole runs in Spark's workers: for a page, and as rows of all tables.

A task is some whole runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from understudy.history.lake.columns import FINDINGS, IntegerTooLarge, run_table
from understudy.history.metrics.metric_tables import TABLES, RunMetrics
from understudy.history.metrics.row_tables import ROW_TABLES, rows
from understudy.history.reading.missing import find_missing
from understudy.history.report.replay import (
    Measured,
    for_page,
    measure_files,
    read_and_measure,
    without_garbage_collection,
)
from understudy.history.report.runs import RunFiles
from understudy.spark.kernels.results import Result, freeze_what_is_loaded

MEASURED: Final = "measured"
"""Kind of a result that is a run's `Measured`."""
OTHER_RUN: Final = "other run"
"""Kind of a result that is the id of a run in files that belong to another run by their first lines."""

_ROWS_OF_A_RESULT = 50_000
"""Maximum number of rows of a table in one result, so that a worker's memory has a limit."""

_FAST = 1
"""Level of the compression of tasks."""

_MEASURED = msgspec.msgpack.Decoder(Measured)
_TASK = msgspec.msgpack.Decoder(tuple[RunFiles, ...])
_ENCODER = msgspec.msgpack.Encoder()


class NumberTooLarge(Exception):
    """A number of a table has no place in a column. The message names the run and the table."""


def encoded_task(groups: Sequence[RunFiles]) -> bytes:
    """Return a task of some runs."""
    return _compressed(groups)


def runs_of(task: bytes) -> tuple[RunFiles, ...]:
    """Return the runs of a task."""
    return _TASK.decode(zlib.decompress(task))


def decoded(content: bytes) -> Measured:
    """Return the content of a result of the kind `MEASURED`."""
    return _MEASURED.decode(content)


def measure(tasks: Iterable[bytes]) -> Iterator[Result]:
    """Measure each run of each task."""
    return (_measured(measure_files(group)) for task in tasks for group in runs_of(task))


def measure_for_page(tasks: Iterable[bytes]) -> Iterator[Result]:
    """Measure each run of each task, and leave out the partitions that a page does not show."""
    return (_measured(for_page(measure_files(group))) for task in tasks for group in runs_of(task))


def _measured(result: Measured) -> Result:
    return Result(MEASURED, _ENCODER.encode(result))


# ------------------------------------------------------------------ tables


class NumberedRun(NamedTuple):
    """A run of a task for `tabulate`, and a number by which its results are found."""

    number: int
    files: RunFiles


_NUMBERED_TASK = msgspec.msgpack.Decoder(tuple[NumberedRun, ...])


def numbered_task(runs: Iterable[NumberedRun]) -> bytes:
    """Return a task of `tabulate`."""
    return _compressed(tuple(runs))


def _compressed(task: object) -> bytes:
    """Encode a task. The paths of its files repeat the same folders and names, so it becomes a tenth as large."""
    return zlib.compress(_ENCODER.encode(task), _FAST)


def tabulate(tasks: Iterable[bytes], *, whole: bool = False) -> Iterator[Result]:
    """Compute the tables of each run of each task, each of which `numbered_task` has encoded.

    Yields, each with the number of its run:
        one result of the kind `MEASURED`;
        one of the kind `OTHER_RUN` for each run that the files should not have, with its id;
        for each table of `RUN_TABLES` with rows, results of its name with Arrow streams for `rows_of_table`.

    Args:
        whole: keep the partitions that a page does not show in `MEASURED`.

    Raises:
        NumberTooLarge: a whole number has more than 64 bits.
    """
    for task in tasks:
        for number, group in _NUMBERED_TASK.decode(zlib.decompress(task)):
            with without_garbage_collection():
                for kind, content in _tabulated(group, whole=whole):
                    yield Result(kind, content, number)


def _tabulated(group: RunFiles, *, whole: bool) -> Iterator[tuple[str, bytes]]:
    measured, records = read_and_measure(group)
    yield MEASURED, _ENCODER.encode(measured if whole else for_page(measured))
    yield from ((OTHER_RUN, metrics.run.encode()) for metrics in measured.runs if metrics.run != group.run)
    for metrics in measured.runs:
        for name in TABLES:
            content = getattr(metrics, name)
            yield from _streams(name, metrics, content if isinstance(content, tuple) else (content,))
        missing = find_missing(records[metrics.run])
        for name in ROW_TABLES:
            yield from _streams(name, metrics, rows(name, records[metrics.run], missing))
    if measured.findings:
        yield FINDINGS, stream_of(run_table(FINDINGS, [(group.run, finding) for finding in measured.findings], {}))


def _streams(name: str, metrics: RunMetrics, found: Iterable[msgspec.Struct]) -> Iterator[tuple[str, bytes]]:
    run, started_ms = metrics.run, {metrics.run: metrics.totals.started_ms}
    left = iter(found)
    while some := [(run, row) for row in islice(left, _ROWS_OF_A_RESULT)]:
        try:
            yield name, stream_of(run_table(name, some, started_ms))
        except IntegerTooLarge:
            raise NumberTooLarge(
                f"the table {name} of run {run} has a number of more than 64 bits, which a column cannot hold; leave "
                "this run out, or read it without tables"
            ) from None


def stream_of(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def rows_of_table(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows in the Arrow streams of results, in a worker."""
    freeze_what_is_loaded()
    for batch in batches:
        for content in batch.column("content"):
            yield from pa.ipc.open_stream(content.as_buffer())
