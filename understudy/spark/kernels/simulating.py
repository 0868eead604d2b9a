"""Runs seeds of the simulator in Spark's workers. A task is an encoded `SeedTask`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from understudy.history.lake.columns import struct_type
from understudy.spark.kernels.results import Result
from understudy.trials.hunt.seed_tasks import SeedOutcome, SeedTask, run_task


def encoded_task(task: SeedTask) -> bytes:
    return msgspec.json.encode(task)


def run_seeds(tasks: Iterable[bytes]) -> Iterator[Result]:
    """Run the seeds of each task; the content of a result is an outcome as JSON, its number is the seed."""
    return (
        Result("outcome", msgspec.json.encode(outcome), outcome.seed)
        for task in tasks
        for outcome in run_task(msgspec.json.decode(task, type=SeedTask))
    )


def rows_of_outcomes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return outcomes as rows with the columns of `SeedOutcome`."""
    schema = pa.schema(list(struct_type(SeedOutcome)))
    for batch in batches:
        rows = [msgspec.json.decode(content) for content in batch.column("content").to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def decoded(content: bytes) -> SeedOutcome:
    return msgspec.json.decode(content, type=SeedOutcome)
