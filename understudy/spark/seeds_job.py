"""Runs seeds of the simulator on the workers of Spark, each task a few seeds in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from pyspark import SparkContext

from understudy.foundation.eventlog.fences import Switch
from understudy.spark.context import spark_errors
from understudy.trials.hunt.seed_tasks import SeedOutcome, SeedTask, encoded

SEEDS_PER_TASK = 8
"""Number of seeds of a task. They take two to four seconds, which is the most that a lost worker loses; starting a task
takes a hundredth of that."""

TASKS_PER_ROUND_AND_CORE = 8
"""Number of tasks of a round per core. A round ends with its slowest task; meanwhile the other cores are idle."""


def run_seeds(
    context: SparkContext,
    seeds: Sequence[int],
    seconds: int,
    *,
    events: Path | None = None,
    keep_all: bool = False,
    fences_off: tuple[Switch, ...] = (),
) -> Iterator[list[SeedOutcome]]:
    """Run seeds round by round, and yield the outcomes of each round.

    Args:
        events: a folder that every worker sees, in which the event logs of failed seeds are left; None for none.
        keep_all: leave the event logs of all seeds.
        fences_off: fences and fixes to switch off.

    Raises:
        SparkFailed: a task failed again and again, or no worker is left.
    """
    folder = "" if events is None else str(events.absolute())
    names = tuple(switch.value for switch in fences_off)
    begin = 0
    while begin < len(seeds):
        # A cluster may give more cores, or fewer, while seeds run.
        in_a_round = SEEDS_PER_TASK * TASKS_PER_ROUND_AND_CORE * max(1, context.defaultParallelism)
        round_of_seeds = seeds[begin : begin + in_a_round]
        begin += in_a_round
        tasks = [
            SeedTask(tuple(round_of_seeds[first : first + SEEDS_PER_TASK]), seconds, folder, keep_all, names)
            for first in range(0, len(round_of_seeds), SEEDS_PER_TASK)
        ]
        with spark_errors("the seeds cannot be run in Spark"):
            found = context.parallelize(tasks, len(tasks)).mapPartitions(encoded).collect()
        yield [msgspec.json.decode(outcome, type=SeedOutcome) for outcome in found]
