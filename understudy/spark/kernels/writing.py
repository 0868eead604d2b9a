"""Writes the parts of a lake in Spark's workers. A task is some whole runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from understudy.history.lake.runs_to_parts import WrittenRun, write_part
from understudy.history.storage.paths import storage_path
from understudy.spark.kernels.measuring import runs_of
from understudy.spark.kernels.results import Result


def write_parts(tasks: Iterable[bytes], *, lake: str) -> Iterator[Result]:
    """Write a part of the lake for each task; the content of its result is for `decoded`."""
    return (Result("part", msgspec.json.encode(write_part(storage_path(lake), runs_of(task)))) for task in tasks)


def decoded(content: bytes) -> WrittenRun:
    return msgspec.json.decode(content, type=WrittenRun)
