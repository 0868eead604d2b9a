"""Sends tasks to kernels in Spark's workers by DataFrames, which classic Spark and Spark Connect both have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from understudy.spark.failures import spark_errors
from understudy.spark.kernels.results import SCHEMA, TASK, Kernel, RowKernel, one_row, run_kernel, run_kernel_on_rows

Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_MANY_ROWS = 1 << 20


def distribute(spark: SparkSession, tasks: Sequence[bytes], kernel: Kernel) -> DataFrame:
    """Return the results of a kernel as a DataFrame with the columns of `SCHEMA`; each task is a task of Spark.

    Tasks start in the given order: a broadcast join keeps the partitions of the range, which have a row each. A shuffle
    would mix them, and a large task that starts last makes a job longer.
    """
    count = max(1, len(tasks))
    numbered = spark.createDataFrame(list(enumerate(tasks)), f"id BIGINT, {TASK} BINARY")
    one_each = spark.range(0, count, 1, count).join(numbered.hint("broadcast"), "id").select(TASK)
    return one_each.mapInArrow(_named(partial(run_kernel, kernel), kernel), SCHEMA)


def run_on_rows(rows: DataFrame, kernel: RowKernel) -> DataFrame:
    """Return the results of a kernel on the rows of a DataFrame, with the columns of `SCHEMA`."""
    return rows.mapInArrow(_named(partial(run_kernel_on_rows, kernel), kernel), SCHEMA)


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
