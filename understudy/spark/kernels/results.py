"""Carries tasks to kernels and their results back, as Arrow batches."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa


class Result(NamedTuple):
    """A result of a kernel.

    Attributes:
        kind: a name, by which a DataFrame of results is filtered or grouped.
        content: encoded as the kernel says.
        number: a number with a meaning of the kernel.
    """

    kind: str
    content: bytes
    number: int = 0


Kernel: TypeAlias = Callable[[Iterable[bytes]], Iterable[Result]]
BatchKernel: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterable[Result]]
RowKernel: TypeAlias = Callable[[Iterable[dict[str, Any]]], Iterable[Result]]

_RESULTS = pa.schema([("kind", pa.string()), ("content", pa.binary()), ("number", pa.int64())])


def run_kernel(kernel: Kernel, tasks: Sequence[bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a kernel in a worker; yield each result as a batch, as soon as it is there.

    Args:
        tasks: the tasks of all workers.
        batches: the numbers of the tasks to run here.
    """
    freeze_what_is_loaded()
    return map(_batch_of, kernel(tasks[number] for batch in batches for number in batch.column(0).to_pylist()))


def run_kernel_on_rows(kernel: RowKernel, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a kernel in a worker on the rows of batches, as dictionaries of Python values."""
    freeze_what_is_loaded()
    return map(_batch_of, kernel(row for batch in batches for row in batch.to_pylist()))


def run_kernel_on_batches(kernel: BatchKernel, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a kernel in a worker on batches of rows."""
    freeze_what_is_loaded()
    return map(_batch_of, kernel(batches))


def one_row(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return one row for a partition, in a worker: the number of its rows, as `id`."""
    freeze_what_is_loaded()
    yield pa.RecordBatch.from_pydict({"id": [sum(batch.num_rows for batch in batches)]})


@cache
def freeze_what_is_loaded() -> None:
    """Let the garbage collector pass over the objects of this process, once.

    PySpark's daemon collects garbage after each task, and took 35 ms to look at all loaded modules.
    """
    gc.collect()
    gc.freeze()


def _batch_of(result: Result) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(result, _RESULTS, strict=True)], schema=_RESULTS
    )
