"""Sends tasks to kernels in Spark's workers by DataFrames, which classic Spark and Spark Connect both have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from understudy.spark.failures import spark_errors
from understudy.spark.kernels.results import (
    BatchKernel,
    Kernel,
    RowKernel,
    one_row,
    run_kernel,
    run_kernel_on_batches,
    run_kernel_on_rows,
)

Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

SCHEMA = StructType().add("kind", StringType()).add("content", BinaryType()).add("number", LongType())
"""The columns of a DataFrame of results. A text of DDL would load Spark's parser of SQL."""

TASKS_OF_A_FUNCTION = 1000
"""Maximum number of tasks that travel with one function, some five kilobytes each."""

_MANY_ROWS = 1 << 20


def distribute(spark: SparkSession, tasks: Sequence[bytes], kernel: Kernel) -> DataFrame:
    """Return the results of a kernel as a DataFrame with the columns of `SCHEMA`; each task is a task of Spark.

    Tasks start in the given order, without a shuffle and in one stage. They travel with the function, which Spark sends
    to each executor once; `createDataFrame` and a join would start two more jobs, and workers for the first of them.
    """
    each = [tasks[first : first + TASKS_OF_A_FUNCTION] for first in range(0, len(tasks), TASKS_OF_A_FUNCTION)] or [()]
    parts = [
        spark.range(0, len(some), 1, max(1, len(some))).mapInArrow(
            _named(partial(run_kernel, kernel, tuple(some)), kernel), SCHEMA
        )
        for some in each
    ]
    return reduce(lambda first, second: first.unionAll(second), parts)


def run_on_rows(rows: DataFrame, kernel: RowKernel) -> DataFrame:
    """Return the results of a kernel on the rows of a DataFrame, with the columns of `SCHEMA`."""
    return rows.mapInArrow(_named(partial(run_kernel_on_rows, kernel), kernel), SCHEMA)


def run_on_batches(rows: DataFrame, kernel: BatchKernel) -> DataFrame:
    """Return the results of a kernel on the rows of a DataFrame as Arrow batches, with the columns of `SCHEMA`."""
    return rows.mapInArrow(_named(partial(run_kernel_on_batches, kernel), kernel), SCHEMA)


def _named(work: Work, kernel: Callable[..., object]) -> Work:
    """Give a function the name of its kernel, which plans and Spark's UI show."""
    inner = kernel.func if isinstance(kernel, partial) else kernel
    work.__name__ = inner.__name__
    return work


def contents(results: DataFrame) -> list[bytes]:
    """Run a job, and return the contents of its results."""
    return [bytes(row["content"]) for row in results.select("content").collect()]


def cores(spark: SparkSession) -> int:
    """Return the number of tasks that run at a time. The job for it also starts the workers."""
    with spark_errors("Spark does not run", spark):
        return max(1, len(spark.range(_MANY_ROWS).mapInArrow(one_row, "id BIGINT").collect()))
