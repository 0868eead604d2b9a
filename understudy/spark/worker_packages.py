"""Asks Spark's workers for the packages that kernels need, after a job has failed for lack of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

NEEDED: Final = ("understudy", "msgspec", "numpy", "pyarrow")
"""Packages that all kernels import."""

_TASKS: Final = 64
"""Number of tasks that ask, so that most workers run one."""


def lacking_packages(spark: SparkSession, needed: Iterable[str]) -> list[str]:
    """Return a text for each worker that lacks a package: its host, Python and the packages."""
    rows = (
        spark.range(0, _TASKS, 1, _TASKS)
        .mapInArrow(_asking(tuple(sorted(needed))), "worker STRING")
        .distinct()
        .collect()
    )
    return sorted(row["worker"] for row in rows)


def _asking(needed: tuple[str, ...]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function that is sent to workers by value, because they may lack this module."""

    def ask(batches: Iterable[Any]) -> Iterator[Any]:
        import importlib.util  # noqa: PLC0415  in a worker
        import platform  # noqa: PLC0415  in a worker

        import pyarrow  # noqa: PLC0415  in a worker

        for _ in batches:
            lacking = [name for name in needed if importlib.util.find_spec(name) is None]
            if lacking:
                worker = f"{platform.node()} with Python {platform.python_version()} lacks {', '.join(lacking)}"
                yield pyarrow.RecordBatch.from_pydict({"worker": [worker]})

    return ask
