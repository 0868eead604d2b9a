"""Names jobs in Spark's UI and event log, and shows how far a job is."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from understudy.spark.sessions import is_connect
from understudy.spark.settings import Progress, no_progress
from understudy.spark.versions import HAS_PROGRESS_HANDLERS

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo

_LOOKS_EVERY_S = 0.5
_DESCRIPTION = "spark.job.description"


@contextlib.contextmanager
def described(spark: SparkSession, description: str) -> Iterator[None]:
    """Give the jobs of a block a description; with Spark Connect, which has none, they get a tag."""
    if is_connect(spark):
        tag = description.replace(",", "")
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
    else:
        context = spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(description)
        try:
            yield
        finally:
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


@contextlib.contextmanager
def shown(
    spark: SparkSession, description: str, runs: Sequence[int], progress: Progress = no_progress
) -> Iterator[None]:
    """Describe the jobs of a block, and show how many runs the tasks of its longest stage have done.

    Args:
        runs: the number of runs of each task, in the order in which tasks start.
        progress: called with a line whenever the number has changed; a single task has no number between none and all.
    """
    done_by = [0, *accumulate(runs)]
    last = -1

    def show(tasks: int, completed: int) -> None:
        nonlocal last
        if 1 < tasks == len(runs) and completed > last:
            last = completed
            # A task that is run again after its executor is lost counts twice.
            progress(f"{description}: {done_by[min(completed, tasks)]:,} of {done_by[-1]:,} runs done")

    with described(spark, f"Understudy: {description}"), _watched(spark, show):
        yield


def _watched(spark: SparkSession, show: Callable[[int, int], None]) -> contextlib.AbstractContextManager[None]:
    if not is_connect(spark):
        return _polled(spark.sparkContext, show)
    return _handled(spark, show)


@contextlib.contextmanager
def _polled(context: SparkContext, show: Callable[[int, int], None]) -> Iterator[None]:
    over = threading.Event()

    def look() -> None:
        # Java may be killed meanwhile, which the thread of the job reports.
        with contextlib.suppress(Py4JError, OSError):
            tracker = context.statusTracker()
            while not over.wait(_LOOKS_EVERY_S):
                for stage in tracker.getActiveStageIds():
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        show(info.numTasks, info.numCompletedTasks)

    thread = threading.Thread(target=look, name="understudy-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def _handled(spark: SparkSession, show: Callable[[int, int], None]) -> Iterator[None]:
    def handle(stages: Iterable[StageInfo], inflight_tasks: int, operation_id: str, done: bool) -> None:
        for stage in stages:
            show(stage.num_tasks, stage.num_completed_tasks)

    with handling_progress(spark, handle):
        yield


@contextlib.contextmanager
def handling_progress(spark: SparkSession, handle: Callable[..., None]) -> Iterator[None]:
    """Call a handler with the progress of each job of a block, every few seconds, if this Spark Connect can."""
    if not HAS_PROGRESS_HANDLERS:
        yield
        return
    spark.registerProgressHandler(handle)  # type: ignore[arg-type]  # it is called with keywords
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)  # type: ignore[arg-type]  # as above
