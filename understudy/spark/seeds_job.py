"""Runs seeds of the simulator on the workers of Spark, each task a few seeds in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession

from understudy.foundation.eventlog.fences import Switch
from understudy.history.storage.paths import StoragePath
from understudy.spark.distribution import contents, cores, distribute
from understudy.spark.failures import spark_errors
from understudy.spark.job_watch import described
from understudy.spark.kernels import simulating
from understudy.trials.hunt.seed_tasks import SeedOutcome, SeedTask

SEEDS_PER_TASK = 8
"""Number of seeds of a task. They take two to four seconds, which is the most that a lost worker loses; starting a task
takes a hundredth of that."""

TASKS_PER_ROUND_AND_CORE = 8
"""Number of tasks of a round per core. A round ends with its slowest task; meanwhile the other cores are idle."""


def run_seeds(
    spark: SparkSession,
    seeds: Sequence[int],
    seconds: int,
    *,
    events: StoragePath | None = None,
    keep_all: bool = False,
    fences_off: tuple[Switch, ...] = (),
) -> Iterator[list[SeedOutcome]]:
    """Run seeds round by round, and yield the outcomes of each round.

    Args:
        events: a folder or URL that every worker sees, for the event logs of failed seeds; None for none.
        keep_all: leave the event logs of all seeds.
        fences_off: fences and fixes to switch off.

    Raises:
        SparkFailed: a task failed again and again, or no worker is left.
    """
    begin = 0
    while begin < len(seeds):
        # A cluster may give more cores, or fewer, while seeds run.
        in_a_round = SEEDS_PER_TASK * TASKS_PER_ROUND_AND_CORE * cores(spark)
        with spark_errors("the seeds cannot be run in Spark", spark), described(spark, "Understudy: simulating seeds"):
            some = seeds[begin : begin + in_a_round]
            found = contents(outcomes(spark, some, seconds, events=events, keep_all=keep_all, fences_off=fences_off))
        begin += in_a_round
        yield list(map(simulating.decoded, found))


def outcomes(
    spark: SparkSession,
    seeds: Sequence[int],
    seconds: int,
    *,
    events: StoragePath | None = None,
    keep_all: bool = False,
    fences_off: tuple[Switch, ...] = (),
) -> DataFrame:
    """Return results whose contents are the outcomes of seeds; the arguments are as for `run_seeds`."""
    folder = "" if events is None else str(events.absolute())
    names = tuple(switch.value for switch in fences_off)
    tasks = [
        SeedTask(tuple(seeds[first : first + SEEDS_PER_TASK]), seconds, folder, keep_all, names)
        for first in range(0, len(seeds), SEEDS_PER_TASK)
    ]
    return distribute(spark, list(map(simulating.encoded_task, tasks)), simulating.run_seeds)
